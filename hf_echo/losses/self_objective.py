"""Token-level contrastive loss between a sentence and its translation (OS 10.1), after Dou and Neubig 2021."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_finite_numbers, shapes, widened


def self_objective_loss(
    source: Tensor,
    target: Tensor,
    source_mask: Tensor | None = None,
    target_mask: Tensor | None = None,
    *,
    scale: float = 500.0,
) -> Tensor:
    """Self-objective loss `-L_SO` (Omnilingual SONAR Eq. 14), averaged over the pairs; from -1 (perfect) to 0.

    Eq. 13 prints `L_teacher + lambda * L_SO`, but L_SO grows as aligned tokens come closer (Dou and Neubig maximise
    it). This function returns its negative, so that Eq. 13 can be minimised.

        L_SO = sum_ij M_ij 1/2 (softmax_j(scale S_ij) / n + softmax_i(scale S_ij) / m)

    S: cosines of the n source and m target tokens. M_ij = 1 if i and j are each other's nearest (no gradient), else 0.

    Args:
        source, target: (batch, n, d) and (batch, m, d), token states.
        source_mask, target_mask: (batch, n) and (batch, m), true where a token counts; default: all tokens.
        scale: the temperature scaling tau, 500; it multiplies the cosines.

    Returns:
        Scalar; a pair without tokens on one side counts 0.

    Raises:
        ValueError: shapes that do not fit, or a scale that is not positive.

    Example:
        >>> import torch
        >>> self_objective_loss(torch.eye(3)[None], torch.eye(3)[None]).item()
        -1.0
    """
    if source.ndim != 3 or target.ndim != 3 or source.shape[::2] != target.shape[::2]:
        raise ValueError(f"source and target must be (batch, n, d) and (batch, m, d), got {shapes(source, target)}")
    if not scale > 0:
        raise ValueError(f"scale must be positive, got {scale}")
    check_finite_numbers(scale=scale)
    if not len(source) or not source.shape[1] or not target.shape[1]:
        return source.sum() * 0 + target.sum() * 0
    with torch.autocast(source.device.type, enabled=False):
        x, y = (F.normalize(side, dim=-1) for side in widened(source, target))
        similarity = x @ y.transpose(1, 2)
    rows = _mask(source_mask, source)[:, :, None]
    columns = _mask(target_mask, target)[:, None, :]
    pairs = rows & columns
    lowest = torch.finfo(similarity.dtype).min
    with torch.no_grad():
        seen = similarity.masked_fill(~pairs, lowest)
        best_column = F.one_hot(seen.argmax(2), seen.shape[2]).bool()
        best_row = F.one_hot(seen.argmax(1), seen.shape[1]).bool().transpose(1, 2)
        aligned = (best_column & best_row & pairs).to(similarity.dtype)
    logits = (scale * similarity).masked_fill(~pairs, lowest)
    n, m = rows.sum((1, 2)).clamp(min=1), columns.sum((1, 2)).clamp(min=1)
    forward = (aligned * logits.softmax(2)).sum((1, 2)) / n
    backward = (aligned * logits.softmax(1)).sum((1, 2)) / m
    return -(forward + backward).mean() / 2


def _mask(mask: Tensor | None, states: Tensor) -> Tensor:
    if mask is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    if mask.shape != states.shape[:2]:
        raise ValueError(f"a mask must be {tuple(states.shape[:2])}, got {tuple(mask.shape)}")
    return mask.bool()
