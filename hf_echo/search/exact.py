"""The search behind `neighbours`: a fast product gives upper bounds for all pairs; only few pairs are scored exactly.

Contract: unit rows x (n, d) and y (m, d) in; the k best rows of y for each row of x, and of x for each row of
y, out as sorted keys. The answer is exact: `neighbours` defines that.

The product is in float32, or in bf16 on processors that multiply bf16 fast. In bf16, 10k x 10k rows with k = 4 take
1.5 to 1.9 times less time (docs/trials/search-speed.md).

Steps for a row and its candidates (`_decide`):
1. Score the pairs with the highest bounds in float32. The k-th best score, minus the rounding error of float32, is a
   floor: no pair of the answer scores less.
2. Score all other pairs whose bound reaches the floor. The rest cannot be in the answer.
3. Score the pairs that still reach the floor, few more than k, in float64.
Steps 1 and 2 read the maxima of 32 bounds first and open only groups that can reach the floor. A row with too many
pairs to score gets the float32 product instead of the bf16 one, and at last every pair in float64: collapsed
embeddings cost time, but the answer stays exact.

Both directions share the product. It is computed in strips of rows that fit into the processor's cache. For the other
direction, only the maxima over 32 rows of each strip are kept; the few groups that it opens are computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..modeling.precision_echo import has_fast_bf16
from .pair_scores import NO_PAIR, as_double, key_scores, pair_keys, pair_scores, product, rounding, take

GROUP = 32
SPARE = 2  # pairs beyond k that are scored for the floor
AFFORDABLE = 1 / 40_000  # pairs scored by themselves in the time of one multiplication inside a product
HALF_BIT = 2.0**-8  # relative rounding of bf16, which keeps 8 bits of a number


class Bound(NamedTuple):
    """`left[i] . right[j] + slack` is an upper bound of the score of x[i] and y[j]."""

    left: Any
    right: Any
    slack: float


def float32_bound(x: Any, y: Any) -> Bound:
    """The float32 product, which may be off by its rounding."""
    return Bound(x, y, 2 * rounding(x))


def bf16_bound(x: torch.Tensor, y: torch.Tensor) -> Bound:
    """The product of rows rounded to bf16, added up in float32 and rounded to bf16 again.

    With x' and y' the rounded rows, Cauchy and Schwarz give |x.y - x'.y'| <= |x - x'| |y| + |x'| |y - y'|.
    """
    left, right = x.bfloat16(), y.bfloat16()
    lost_x, lost_y = ((a - b).norm(dim=1).max().item() for a, b in ((x, left), (y, right)))
    lost = lost_x + (1 + HALF_BIT) * lost_y  # |y| is 1, |x'| at most 1 + HALF_BIT
    return Bound(left, right, 1.001 * (lost + HALF_BIT) + 2 * rounding(x) + 1e-5)  # float32: of these lines


def cheapest_bound(x: Any, y: Any, k: int) -> Bound:
    """bf16 if the processor is fast at it and the k best of a sample of rows stand out by more than bf16 loses."""
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu" or not has_fast_bf16():
        return float32_bound(x, y)
    bound = bf16_bound(x, y)
    scores = x[torch.randint(len(x), (48,), generator=torch.Generator().manual_seed(1))] @ y.T
    reaching = (scores + bound.slack >= scores.topk(k, dim=1).values[:, -1:]).float().mean().item()
    pays = reaching - k / len(y) < x.shape[1] * AFFORDABLE / 4
    return bound if pays else float32_bound(x, y)


class Side(NamedTuple):
    """One direction: rows of x look for rows of y. `keys` (n, k) is the answer so far, sorted."""

    x: Any
    y: Any
    keys: torch.Tensor


class Offer(NamedTuple):
    """Bounds, for `rows` of x, of the rows `columns` of y in groups of 32.

    `maxima` (rows, groups); `open(i, group)`, both (p,), gives (p, 32) bounds of rows[i], minus infinity where
    a last group is not full.
    """

    rows: torch.Tensor
    columns: slice
    maxima: torch.Tensor
    open: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    slack: float


def search(x: Any, y: Any, k: int, k_back: int | None, memory: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(keys (n, k) of y's rows for x, keys (m, k_back) of x's rows for y or None).

    memory: how many floats the maxima, or a strip, may take (32 * 32 at least).
    """
    n, m = x.shape[0], y.shape[0]
    device = x.device if isinstance(x, torch.Tensor) else None
    forward = Side(x, y, torch.full((n, k), NO_PAIR, device=device))
    backward = None if k_back is None else Side(y, x, torch.full((m, k_back), NO_PAIR, device=device))
    bound = cheapest_bound(x, y, k)
    wide = _full(memory // max(GROUP, n // GROUP))
    for j in range(0, m, wide):
        columns = slice(j, min(j + wide, m))
        kept = []
        for rows, bounds in _strips(bound, torch.arange(n, device=device), columns, memory):
            _decide(forward, _offer(rows, columns, bounds, bound.slack), memory)
            if backward is not None:
                kept.append(_filled(bounds, -torch.inf).unflatten(0, (-1, GROUP)).amax(1))
        if backward is not None:
            _search_back(backward, bound, columns, torch.cat(kept), memory)
    return forward.keys, None if backward is None else backward.keys


def _strips(bound: Bound, rows: torch.Tensor, columns: slice, memory: int):
    """Yields (some rows, their bounds with `columns`, the last group filled with minus infinity)."""
    wide = columns.stop - columns.start
    right = _filled(bound.right[columns])
    height = min(8 * GROUP, _full(memory // 16 // right.shape[0]))
    buffer = torch.empty(height, right.shape[0], device=rows.device)
    for i in range(0, len(rows), height):
        some = rows[i : i + height]
        bounds = product(take(bound.left, some), right, out=buffer[: len(some)])
        bounds[:, wide:] = -torch.inf
        yield some, bounds


def _offer(rows: torch.Tensor, columns: slice, bounds: torch.Tensor, slack: float) -> Offer:
    groups = bounds.unflatten(1, (-1, GROUP))
    flat = groups.flatten(0, 1)
    count = groups.shape[1]
    return Offer(rows, columns, groups.amax(2), lambda i, g: flat.index_select(0, i * count + g), slack)


def _search_back(side: Side, bound: Bound, rows: slice, maxima: torch.Tensor, memory: int) -> None:
    """Rows of y look for all rows of x. maxima: (groups of x, rows)."""
    every = slice(0, side.y.shape[0])
    height = _full(memory // 4 // len(maxima))
    for i in range(rows.start, rows.stop, height):
        some = torch.arange(i, min(i + height, rows.stop), device=maxima.device)
        part = maxima[:, i - rows.start : some[-1] + 1 - rows.start].T.contiguous()

        def open_again(i: torch.Tensor, group: torch.Tensor, some=some) -> torch.Tensor:
            bounds = torch.full((len(i), GROUP), -torch.inf, device=i.device)
            order = group.argsort()
            present, counts = group[order].unique_consecutive(return_counts=True)
            for g, at in zip(present.tolist(), order.split(counts.tolist()), strict=True):
                left = bound.left[g * GROUP : (g + 1) * GROUP]
                bounds[at, : left.shape[0]] = product(take(bound.right, some[i[at]]), left)
            return bounds

        _decide(side, Offer(some, every, part, open_again, bound.slack), memory)


def _decide(side: Side, offer: Offer, memory: int, floor: torch.Tensor | None = None) -> None:
    """Put the best of the offered pairs into `side.keys`. floor: (rows, 1), what the answer has already."""
    rows, maxima, slack, loss = offer.rows, offer.maxima, offer.slack, rounding(side.x)
    keys = side.keys[rows]
    k, top = keys.shape[1], min(keys.shape[1] + SPARE, maxima.shape[1])
    floor = key_scores(keys[:, -1:]).clamp_min(-2) if floor is None else floor  # -2: below any cosine

    groups = maxima.topk(top, dim=1).indices
    every = torch.arange(len(rows), device=rows.device).repeat_interleave(top)
    bounds = offer.open(every, groups.flatten()).view(len(rows), -1)
    bounds, place = bounds.topk(min(k + SPARE, bounds.shape[1]), dim=1)
    chosen = groups.gather(1, place // GROUP) * GROUP + place % GROUP
    row, slot = (bounds >= floor - slack).nonzero(as_tuple=True)
    column = chosen[row, slot]
    rough = _rough_scores(side, offer, row, column)
    known = torch.full(bounds.shape, -2.0, device=rows.device)
    known[row, slot] = rough
    known = torch.cat([key_scores(keys).clamp_min(-2), known], dim=1)
    floor = torch.maximum(floor, known.topk(k, dim=1).values[:, -1:] - loss)

    reach = maxima >= floor - slack
    width = offer.columns.stop - offer.columns.start
    undecided = reach.sum(1) > max(8 * k, width * side.x.shape[1] * AFFORDABLE)
    other, group = (reach & ~undecided[:, None]).nonzero(as_tuple=True)
    values, least = offer.open(other, group), bounds[other, -1:]
    hit, member = ((values >= (floor - slack)[other]) & (values <= least)).nonzero(as_tuple=True)
    other, more = other[hit], group[hit] * GROUP + member
    new = (chosen[other] != more[:, None]).all(1)  # bounds may be equal to the last one chosen
    other, more = other[new], more[new]

    rough = torch.cat([rough, _rough_scores(side, offer, other, more)])
    row, column = torch.cat([row, other]), torch.cat([column, more])
    near = (rough >= floor[row, 0] - loss).nonzero().ravel()
    near = near[row[near].argsort()]
    best = _merge(keys, row[near], _exact_keys(side, offer, row[near], column[near]))
    side.keys[rows] = torch.where(undecided[:, None], keys, best)
    if undecided.any():
        _search_again(side, offer, undecided.nonzero().ravel(), floor, memory)


def _search_again(side: Side, offer: Offer, which: torch.Tensor, floor: torch.Tensor, memory: int) -> None:
    """The undecided rows by the float32 product; what that does not decide, in float64."""
    rows, columns = offer.rows[which], offer.columns
    whole = float32_bound(side.x, side.y)
    if offer.slack > whole.slack:
        start = 0
        for some, bounds in _strips(whole, rows, columns, memory):
            at = which[start : start + len(some)]
            _decide(side, _offer(some, columns, bounds, whole.slack), memory, floor[at])
            start += len(some)
        return
    every, right = torch.arange(columns.start, columns.stop, device=rows.device), as_double(side.y[columns])
    for some in rows.split(GROUP):
        scores = product(as_double(take(side.x, some)), right).float()
        keys = torch.cat([side.keys[some], pair_keys(scores, every)], dim=1)
        side.keys[some] = keys.topk(side.keys.shape[1], dim=1).values


def _rough_scores(side: Side, offer: Offer, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return pair_scores(side.x, side.y, offer.rows[row], offer.columns.start + column, torch.float32)


def _exact_keys(side: Side, offer: Offer, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    column = offer.columns.start + column
    return pair_keys(pair_scores(side.x, side.y, offer.rows[row], column), column)


def _merge(keys: torch.Tensor, row: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The best of `keys` (rows, k) and of the new keys of the rows `row`, which are in order."""
    if not len(row):
        return keys
    counts = row.bincount(minlength=len(keys))
    slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    padded = torch.full((len(keys), int(counts.max())), NO_PAIR, device=keys.device)
    padded[row, slot] = new
    return torch.cat([keys, padded], dim=1).topk(keys.shape[1], dim=1).values


def _full(size: int) -> int:
    """`size` or less, in full groups; one at least."""
    return max(1, size // GROUP) * GROUP


def _filled(x: Any, value: float = 0.0) -> Any:
    """x with rows added until its last group is full."""
    missing = -x.shape[0] % GROUP
    if not missing:
        return x
    if isinstance(x, torch.Tensor):
        return torch.nn.functional.pad(x, (0, 0, 0, missing), value=value)
    x = x.copy()
    x.resize(x.shape[0] + missing, x.shape[1])
    return x
