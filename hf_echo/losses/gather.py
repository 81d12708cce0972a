"""Rows of all processes in one tensor, with gradients; nothing else in `losses/` knows torch.distributed.

Gathering without gradients is not an approximation but wrong (by 20 % in a two-process trial): another
process's loss also pulls at the rows that it received from here. The exchange itself is
sentence-transformers'; what is added is that processes may hold different numbers of rows, as batches built
by token budget do.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


def gather_with_grad(x: Tensor) -> tuple[Tensor, int]:
    """All processes' rows in rank order. Every process must call it, with equal trailing shape and dtype.

    Its backward adds up what every process's loss says of a row. For the gradients to equal those of one
    process that holds all N rows, under DDP or FSDP (which average gradients over the processes), each
    process takes the mean over its own n rows and multiplies it by `rank_weight(n)`; with equal rows
    everywhere that weight is 1.

    Args:
        x: (n, ...); n may differ between processes and may be 0. Any dtype (guide embeddings, integer ids).

    Returns:
        (N, ...) and the offset of this process's first row in it. With one process `x` itself and 0.

    Example:
        >>> import torch
        >>> gathered, offset = gather_with_grad(torch.ones(3, 2))  # one process
        >>> gathered.shape, offset
        (torch.Size([3, 2]), 0)
    """
    if _world() == 1:
        return x, 0
    # Imported here: sentence-transformers takes seconds to load and one process does not need it.
    from sentence_transformers.util import all_gather_with_grad

    counts = _row_counts(len(x), x.device)
    longest = max(counts)
    padded = F.pad(x, (0, 0) * (x.ndim - 1) + (0, longest - len(x)))
    gathered = all_gather_with_grad(padded)
    if min(counts) < longest:
        gathered = torch.cat([block[:n] for block, n in zip(gathered.split(longest), counts, strict=True)])
    return gathered, sum(counts[: dist.get_rank()])


def rank_weight(n: int, device: torch.device | str | None = None) -> float:
    """`n * world / N`: what this process's mean over its n rows is multiplied by, so that averaging gradients
    over processes gives the gradient of the mean over all N rows. 1 with one process, or when all hold the
    same number. Every process must call it. Logged losses averaged over processes need the same weight.

    `n` counts whatever the mean runs over: pairs for the contrastive losses, target tokens for the
    translation loss.

    Example:
        >>> rank_weight(7)  # one process
        1.0
    """
    if _world() == 1:
        return 1.0
    counts = _row_counts(n, device)
    return n * len(counts) / max(sum(counts), 1)


def _world() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _row_counts(n: int, device: torch.device | str | None) -> list[int]:
    if device is None:
        accelerator = None if dist.get_backend() == "gloo" else torch.accelerator.current_accelerator()
        device = accelerator or "cpu"
    count = torch.tensor([n], device=device)
    counts = [torch.empty_like(count) for _ in range(_world())]
    dist.all_gather(counts, count)
    return torch.cat(counts).tolist()
