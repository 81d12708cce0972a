"""CTC: the probability of a transcription, summed over its alignments to the frames (Graves et al. 2006)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_lengths


def ctc_loss(logits: Tensor, frames: Tensor, labels: Tensor, characters: Tensor) -> Tensor:
    """Mean over the batch of `-log p(labels_i | logits_i) / characters_i`, with blank 0 (not in the OS paper).

    The warm-up of a speech encoder that has no pretrained audio model. Rows without labels, and rows with fewer frames
    than their transcription needs (its characters, and one more for each that is repeated at once), count as 0.

    Args:
        logits: (n, longest, characters + 1).
        frames: (n,) frames of each row.
        labels: (n, most) numbers of characters from 1, padded with any value.
        characters: (n,) characters of each row.

    Returns:
        Scalar, computed in float32; 0 without rows.

    Raises:
        ValueError: shapes that do not fit, or frames, characters or labels out of range.

    Example:
        >>> import torch
        >>> logits = torch.zeros(1, 2, 2)  # two frames, "a" or blank with probability 1/2: "a" has 3 of 4 paths
        >>> ctc_loss(logits, torch.tensor([2]), torch.tensor([[1]]), torch.tensor([1])).item()
        0.28768...
    """
    n = len(logits)
    if logits.ndim != 3 or labels.ndim != 2 or any(len(side) != n for side in (frames, labels, characters)):
        raise ValueError(
            f"logits must be (n, frames, characters) and labels (n, most), got {tuple(logits.shape)} and "
            f"{tuple(labels.shape)} with {len(frames)} and {len(characters)} lengths"
        )
    check_lengths("frames", frames, logits.shape[1])
    check_lengths("characters", characters, labels.shape[1])
    if not n or not logits.shape[1] or not labels.shape[1]:
        return logits.sum() * 0
    read = labels[torch.arange(labels.shape[1], device=labels.device) < characters[:, None]]
    if len(read) and not (1 <= int(read.min()) and int(read.max()) < logits.shape[2]):
        raise ValueError(f"labels must be 1 ... {logits.shape[2] - 1}, found {int(read.min())} ... {int(read.max())}")
    probabilities = F.log_softmax(logits.float(), dim=-1).transpose(0, 1)
    loss = F.ctc_loss(probabilities, labels, frames, characters, reduction="none", zero_infinity=True)
    return (torch.where(characters > 0, loss, 0.0 * loss) / characters.clamp(min=1)).sum() / n
