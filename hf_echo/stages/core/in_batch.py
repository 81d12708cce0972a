"""Contrastive loss of both directions among the pairs of all devices."""

from __future__ import annotations

from torch import Tensor

from ...losses import contrastive_loss, gather_with_grad, symmetric_contrastive_loss


def symmetric_in_batch(source: Tensor, target: Tensor, key: Tensor, *, logit_scale: float) -> Tensor:
    """Mean of both directions without margin; equal keys (n,) are not negatives of each other."""
    all_source, offset = gather_with_grad(source)
    all_target, _ = gather_with_grad(target)
    keys, _ = gather_with_grad(key)
    same = key[:, None] == keys[None]
    if all_source is source:  # one process
        return symmetric_contrastive_loss(source, target, logit_scale=logit_scale, exclude=same)
    options = dict(logit_scale=logit_scale, margin=0.0, offset=offset, exclude=same)
    back = contrastive_loss(target, all_source, **options)
    return (contrastive_loss(source, all_target, **options) + back) / 2
