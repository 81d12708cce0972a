"""Ranks (1: translation) by running means of cosines, and interpolated keys of known rank (EMMA-X);
no gradients."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def nearest_ranks(cosines: Tensor, means: Tensor) -> Tensor:
    """The rank whose running mean is nearest to a cosine:
    (n, m) floats, (R,) means -> (n, m) int64, 1 ... R."""
    return (cosines[..., None] - means).abs().argmin(-1) + 1


@torch.no_grad()
def update_means(
    means: Tensor, cosines: Tensor, ranks: Tensor, *, momentum: float = 0.001
) -> Tensor:
    """Running mean of the cosines of each rank: `(1 - momentum) * mean + momentum * mean of these
    cosines`.

    A rank without a pair keeps its mean. A mean that is NaN (no pair yet) becomes the mean of these
    cosines: from zero it would take thousands of steps.

    Args:
        means: (R,). cosines, ranks: any shape, the same.

    Returns:
        (R,), a new tensor.
    """
    places = ranks.flatten().long() - 1
    count = places.bincount(minlength=len(means))
    cosines = cosines.flatten().to(means.dtype)
    batch_means = torch.zeros_like(means).index_add(0, places, cosines) / count
    moved = torch.where(means.isnan(), batch_means, means.lerp(batch_means, momentum))
    return torch.where(count > 0, moved, means)


@torch.no_grad()
def interpolated_keys(
    translations: Tensor, others: Tensor, share: Tensor, ranks: int
) -> tuple[Tensor, Tensor]:
    """Keys between a sentence's translation and another sentence, with their ranks: the warm-up of
    the mixture.

    Key = share * translation + (1 - share) * other. The rank follows from the share in equal steps:
    with four ranks, 1 from 3/4 up, 2 from 1/2, 3 from 1/4, else 4.

    Args:
        translations: (n, d), of the n queries. others: (n, d) or (m, d) with m = n. share: (n,) in
            [0, 1].

    Returns:
        (n, d) keys and (n,) int64 ranks.
    """
    keys = share[:, None] * translations + (1 - share[:, None]) * others
    # Equal steps of 1 / ranks; a share of 1 belongs to the last step.
    step = (share * ranks).long().clamp(max=ranks - 1)
    return keys, ranks - step
