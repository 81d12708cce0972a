"""Token-level contrastive loss between a sentence and its translation (OS 10.1),
after Dou and Neubig 2021."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .dtypes import widened


def self_objective_loss(
    source: Tensor,
    target: Tensor,
    source_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
    *,
    scale: float = 500.0,
) -> Tensor:
    """Self-objective loss `-L_SO` (Omnilingual SONAR Eq. 14), averaged over the pairs; from -1
    (perfect) to 0.

    Eq. 13 prints `L_teacher + lambda * L_SO`, but L_SO grows as aligned tokens come closer (Dou and
    Neubig maximise it). This function returns its negative, so that Eq. 13 can be minimised.

        L_SO = sum_ij M_ij 1/2 (softmax_j(scale S_ij) / n + softmax_i(scale S_ij) / m)

    S: cosines of the n source and m target tokens. M_ij = 1 if i and j are each other's nearest
    (no gradient), else 0.

    Args:
        source, target: (batch, n, d) and (batch, m, d), token states.
        source_mask, target_mask: (batch, n) and (batch, m), true where a token counts; default: all
            tokens.
        scale: the temperature scaling tau, 500; it multiplies the cosines.

    Returns:
        Scalar; a pair without tokens on one side counts 0.

    Example:
        >>> import torch
        >>> self_objective_loss(torch.eye(3)[None], torch.eye(3)[None]).item()
        -1.0
    """
    if not source.numel() or not target.numel():
        return source.sum() * 0 + target.sum() * 0
    with torch.autocast(source.device.type, enabled=False):
        x, y = widened(source, target)
        unit_source = F.normalize(x, dim=-1)
        unit_target = F.normalize(y, dim=-1)
        similarity = unit_source @ unit_target.transpose(1, 2)  # (batch, n, m)
    if source_mask is None:
        source_mask = source.new_ones(source.shape[:2])
    if target_mask is None:
        target_mask = target.new_ones(target.shape[:2])
    source_mask = source_mask.bool()
    target_mask = target_mask.bool()
    pairs = source_mask[:, :, None] & target_mask[:, None, :]
    lowest = torch.finfo(similarity.dtype).min

    # M: each is the other's nearest. Where all tokens are padding, the nearest is padding too:
    # `pairs` drops it.
    candidates = similarity.masked_fill(~pairs, lowest)
    best_column = F.one_hot(candidates.argmax(2), candidates.shape[2])
    best_row = F.one_hot(candidates.argmax(1), candidates.shape[1]).transpose(1, 2)
    aligned = best_column * best_row * pairs

    logits = (scale * similarity).masked_fill(~pairs, lowest)
    source_lengths = source_mask.sum(1).clamp(min=1)
    target_lengths = target_mask.sum(1).clamp(min=1)
    forward = (aligned * logits.softmax(2)).sum((1, 2)) / source_lengths
    backward = (aligned * logits.softmax(1)).sum((1, 2)) / target_lengths
    return -(forward + backward).mean() / 2
