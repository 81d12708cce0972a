"""The search behind `neighbours` on a CPU: all pairs bounded by one cheap product (`block_bounds`).

Contract: as `pruned_search`, which does what this file leaves: GPUs, sparse and small matrices, data on which
the bounds say too little, and single rows of such data.

The bounds are bytes or two, so those of a square block of pairs are kept, and the two directions of a block are views
of the same matrix. What is done for every row, in both directions (`_block`):
1. the best pairs of the k + 1 groups with the highest bounds are scored; the k-th score is a floor;
2. every pair whose bound reaches the floor is scored, and the others cannot be in the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from . import pruned_search
from .block_bounds import Bf16, Int8, bounds_here
from .bounds import short_bound, whole_bound
from .pair_scores import NO_PAIR, key_scores, pair_keys, pair_scores, rounding
from .pruned_search import AFFORDABLE, GROUP, _merge

LEAST = 2**20  # pairs; below, preparing costs more than is gained
LONG = 512  # dimensions above which few principal axes cost less than 8 bits, where they bound well


def search(x: Any, y: Any, k: int, k_back: int | None, memory: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(keys (n, k) of y's rows for x, keys (m, k_back) of x's rows for y or None)."""
    dense = isinstance(x, torch.Tensor) and x.device.type == "cpu" and len(x) * len(y) >= LEAST
    sort = bounds_here()
    if not dense or x.shape[1] < 64 or sort is None:
        return pruned_search.search(x, y, k, k_back, memory)
    size = max(1, int((2 * memory) ** 0.5) // sort.strip) * sort.strip
    if min(size, x.shape[0], y.shape[0]) // GROUP <= 2 * max(k, k_back or 0):
        return pruned_search.search(x, y, k, k_back, memory)
    if sort is Int8 and x.shape[1] > LONG and (bound := short_bound(x, y, k)):
        return pruned_search.search(x, y, k, k_back, memory, bound)
    made = sort.of(x, y)
    if not _pays(x, y, k, made.slack):
        return pruned_search.search(x, y, k, k_back, memory)

    sides = [torch.full((len(x), k), NO_PAIR)]
    if k_back is not None:
        sides.append(torch.full((len(y), k_back), NO_PAIR))
    undecided = [torch.zeros(len(side), dtype=torch.bool) for side in sides]
    for j in range(0, len(y), size):
        columns = torch.arange(j, min(j + size, len(y)))
        right = made.packed(columns)
        for i in range(0, len(x), size):
            rows = made.order[i : i + size]
            views = _views(made, right, i, len(rows), len(columns))
            _block(x, y, (rows, columns), views, made.least, sides, undecided)
    for (a, b), keys, which in zip(((x, y), (y, x)), sides, undecided, strict=False):
        if which.any():
            keys[which] = pruned_search.search(a[which], b, keys.shape[1], None, memory, whole_bound(a[which], b))[0]
    return sides[0], sides[1] if k_back is not None else None


class View(NamedTuple):
    """One direction of a block: `bounds` (rows, 32, groups) and their `maxima` (rows, groups); member e of group g is
    column e * far + g * near. Columns of the matrix are grouped by distance, since maxima over neighbours are slow.
    """

    bounds: torch.Tensor
    maxima: torch.Tensor
    far: int
    near: int


def _views(made: Bf16 | Int8, right: Any, start: int, rows: int, columns: int) -> list[View]:
    """Bounds of a block, in both directions; 0 where a last group is not full."""
    high, wide = (size + -size % GROUP for size in (rows, columns))
    bounds = _empty(high, wide, made.dtype)
    bounds[rows:] = 0
    there, back = [], []
    for i in range(0, rows, made.strip):
        strip = made.write(start + i, right, bounds[i : min(i + made.strip, rows)])
        there.append(strip.view(len(strip), GROUP, -1).amax(1))
        back.append(bounds[i : i + made.strip].view(-1, GROUP, wide).amax(1))
    groups = bounds.view(-1, GROUP, wide).permute(2, 1, 0)
    return [
        View(bounds.view(high, GROUP, -1), torch.cat(there), wide // GROUP, 1),
        View(groups, torch.cat(back).T[:columns].contiguous(), 1, GROUP),
    ]


def _empty(high: int, wide: int, dtype: torch.dtype) -> torch.Tensor:
    """As torch.empty, in large pages, which numpy asks for: small ones cost as much as the product that fills them. And
    from the beginning of a cache line on, which numpy does not care for: the product would take twice the time."""
    raw = np.empty(high * wide * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return torch.from_numpy(raw[start : len(raw) - 64 + start]).view(dtype).view(high, wide)


def _block(x: Any, y: Any, at: tuple, views: list[View], least: Callable, sides: list, undecided: list) -> None:
    """The best of a block of pairs into the keys of `sides`. at: its rows of x and of y."""
    done = torch.empty(0, dtype=torch.long)
    for choose in (_best, _reaching):
        pairs = []
        for side, (view, keys, which) in enumerate(zip(views, sides, undecided, strict=False)):
            rows, columns = at[side], at[1 - side]
            most = max(8 * keys.shape[1], len(columns) * x.shape[1] * AFFORDABLE)
            floor = least(key_scores(keys[rows, -1]))
            row, column = choose(view, rows, floor, keys.shape[1], which, most)
            pair = rows[row], columns[column]
            pairs.append(pair[side] * len(y) + pair[1 - side])
        new = torch.cat(pairs).unique()
        new = new[~torch.isin(new, done, assume_unique=True)]
        if choose is _reaching:
            new = _near(x, y, new, sides)
        _score(x, y, new, sides)
        done = new


def _best(view: View, rows: torch.Tensor, floor: torch.Tensor, k: int, *_) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the k + 1 groups with the highest bounds their best pair, unless it cannot be in the answer any more."""
    count = min(k + 1, view.maxima.shape[1])
    chosen = torch.zeros_like(view.maxima, dtype=torch.bool)
    chosen.scatter_(1, view.maxima.topk(count, dim=1).indices, True)
    chosen &= view.maxima >= floor.clamp_min(1)[:, None]
    row, group, values = _opened(view, chosen)
    return row, values.max(1).indices * view.far + group * view.near


def _reaching(
    view: View, rows: torch.Tensor, floor: torch.Tensor, _: int, which: torch.Tensor, most: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs whose bounds reach the floor. Rows with more than `most` groups of them, or a floor of 0, are put into
    `which`."""
    reach = view.maxima >= floor[:, None]
    which[rows] |= (floor == 0) | (reach.sum(1) > most)
    reach &= ~which[rows, None]
    row, group, values = _opened(view, reach)
    hit, member = (values >= floor[row, None]).nonzero(as_tuple=True)
    return row[hit], member * view.far + group[hit] * view.near


def _opened(view: View, groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(row, group, their 32 bounds) of the True places, in the order in which they lie in memory."""
    if view.near == 1:
        row, group = groups.nonzero(as_tuple=True)
    else:
        group, row = groups.T.contiguous().nonzero(as_tuple=True)
    return row, group, view.bounds[row, :, group]


def _near(x: Any, y: Any, pairs: torch.Tensor, sides: list[torch.Tensor]) -> torch.Tensor:
    """Those of the pairs that float32 does not exclude."""
    i, j = pairs // len(y), pairs % len(y)
    rough = pair_scores(x, y, i, j, torch.float32) + rounding(x)
    near = torch.zeros(len(pairs), dtype=torch.bool)
    for keys, row in zip(sides, (i, j), strict=False):
        near |= rough >= key_scores(keys[:, -1])[row]
    return pairs[near]


def _score(x: Any, y: Any, pairs: torch.Tensor, sides: list[torch.Tensor]) -> None:
    i, j = pairs // len(y), pairs % len(y)
    scores = pair_scores(x, y, i, j)
    for keys, row, column in zip(sides, (i, j), (j, i), strict=False):
        order = row.argsort()
        rows, row = row[order].unique_consecutive(return_inverse=True)
        keys[rows] = _merge(keys[rows], row, pair_keys(scores, column)[order])


def _pays(x: Any, y: Any, k: int, slack: float) -> bool:
    """Whether few pairs of a sample reach the k-th score, with what the bounds lose."""
    rows = torch.randint(len(x), (48,), generator=torch.Generator().manual_seed(1))
    scores = x[rows] @ y.T
    floor = scores.topk(k, dim=1).values[:, -1:].clamp_min_(0)
    reaching = (scores + slack >= floor).float().mean().item()
    return slack < 1 and reaching - k / len(y) < x.shape[1] * AFFORDABLE / 4
