"""Upper bounds of dot products by a shorter product.

Contract: unit rows x and y in, a Bound out. What is done with it is not known here (`pruned_search`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .pair_scores import rounding

SIZES = (32, 64, 96, 128, 192, 256, 320, 384)  # columns of the shorter product
PAIR = 50  # multiplications inside a product, for one of a pair that is scored by itself


class Bound(NamedTuple):
    """`left[i] . right[j] + slack` is no less than the score of x[i] and y[j]."""

    left: Any
    right: Any
    slack: float


def whole_bound(x: Any, y: Any) -> Bound:
    """The float32 product itself, which may be off by its rounding."""
    return Bound(x, y, 2 * rounding(x))


def short_bound(x: Any, y: Any, k: int) -> Bound | None:
    """As many principal axes as look cheapest for the k best of a sample; None where the whole product does.

    With the axes in the columns of Q, Cauchy and Schwarz give a.b <= aQ.bQ + |rest of a| |rest of b|, and the
    square of a rest is at most 1 - |aQ|^2. All is widened by what float32 may lose. GPUs and scipy are left to
    the whole product.
    """
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu" or len(x) * len(y) < 2**20:
        return None
    generator = torch.Generator().manual_seed(0)
    sample = torch.cat([a[torch.randint(len(a), (512,), generator=generator)] for a in (x, y)])
    largest = min(3 * x.shape[1] // 4, SIZES[-1])
    axes = torch.svd_lowrank(sample, q=largest, niter=1)[2]
    slack = 4 * largest**0.5 * rounding(x)

    # other rows than those that the axes were fitted to
    rows, right = x[torch.randint(len(x), (48,), generator=generator)], y @ axes
    left, floor = rows @ axes, (rows @ y.T).topk(k, dim=1).values[:, -1:]
    costs: dict[int | None, float] = {None: x.shape[1]}
    for size in (s for s in SIZES if s <= largest):
        a, b = _rest(left[:, : size - 1], slack), _rest(right[:, : size - 1], slack)
        bounds = torch.addmm(a * b.T, left[:, : size - 1], right[:, : size - 1].T)
        needless = (bounds >= floor).float().mean().item() - k / len(y)  # k are scored in any case
        costs[size] = size + 2 * needless * x.shape[1] * PAIR
    size = min(costs, key=costs.get)
    if size is None:
        return None
    left, right = x @ axes[:, : size - 1], right[:, : size - 1]
    return Bound(*(torch.cat([a, _rest(a, slack)], dim=1) for a in (left, right)), slack)


def _rest(short: torch.Tensor, slack: float) -> torch.Tensor:
    return (1 - short.square().sum(1, keepdim=True)).clamp_min_(0).add_(slack).sqrt_()
