"""The search behind `neighbours` on a CPU: all pairs bounded by one product of 8-bit numbers.

Contract: as `pruned_search`, which does what this file leaves: GPUs, sparse and small matrices, data on which
8 bits bound too little, and single rows of such data.

`Int8` says why its bounds are bounds. They are bytes, so those of a square block of pairs are kept, and the two
directions of a block are views of the same matrix. What is done for every row, in both directions (`_block`):
1. the best pairs of the k + 1 groups with the highest bounds are scored; the k-th score is a floor;
2. every pair whose bound reaches the floor is scored, and the others cannot be in the answer.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from . import pruned_search
from .bounds import short_bound, whole_bound
from .pair_scores import NO_PAIR, key_scores, pair_keys, pair_scores, rounding
from .pruned_search import AFFORDABLE, GROUP, _merge

STRIP = 256  # rows of a product
TURNED = 128  # dimensions that are mixed with each other
LEVELS = 255  # of a bound; from 0 to 1: what is below 0 reads 0
LEAST = 2**20  # pairs; below, preparing costs more than is gained
LONG = 512  # dimensions above which few principal axes cost less, where they bound well


class Int8(NamedTuple):
    """Upper bounds by 8-bit numbers: left . right = l . r + mean . right + what rounding l and r lost.

    Rows are turned by random rotations, so that no dimension is much larger than the others, and the mean is taken
    from `left`. With l' and r' the multiples of a step next to l and r, Cauchy and Schwarz give
    |l.r - l'.r'| <= |l - l'| |r| + |l'| |r - r'|, and that is added to every bound, by way of the zero point.
    7 bits on the left: sums of two products stay within the 16 bits that AVX2 has for them.

    `order`: rows of x by step, so that rows of a strip share one; `strips`: their quantised rows; `lost`: for each
    strip, how much is added, in levels; `right`, `right_steps`: rows of y; `bias`: their products with the mean.
    """

    order: torch.Tensor
    strips: list[torch.Tensor]
    lost: list[int]
    right: torch.Tensor
    right_steps: torch.Tensor
    bias: torch.Tensor


def search(
    x: Any, y: Any, k: int, k_back: int | None, memory: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(keys (n, k) of y's rows for x, keys (m, k_back) of x's rows for y or None)."""
    dense = isinstance(x, torch.Tensor) and x.device.type == "cpu" and len(x) * len(y) >= LEAST
    size = max(1, int((2 * memory) ** 0.5) // STRIP) * STRIP
    few = min(size, x.shape[0], y.shape[0]) // GROUP <= 2 * max(k, k_back or 0)
    if not dense or few or x.shape[1] < 64 or not _can_multiply():
        return pruned_search.search(x, y, k, k_back, memory)
    if x.shape[1] > LONG and (bound := short_bound(x, y, k)):
        return pruned_search.search(x, y, k, k_back, memory, bound)
    int8 = _quantised(x, y)
    if not _pays(x, y, k, int8):
        return pruned_search.search(x, y, k, k_back, memory)

    sides = [torch.full((len(x), k), NO_PAIR)]
    if k_back is not None:
        sides.append(torch.full((len(y), k_back), NO_PAIR))
    undecided = [torch.zeros(len(side), dtype=torch.bool) for side in sides]
    for j in range(0, len(y), size):
        columns = torch.arange(j, min(j + size, len(y)))
        right = _packed(int8, columns)
        for i in range(0, len(x), size):
            rows = int8.order[i : i + size]
            views = _views(int8, right, i, len(rows), len(columns))
            _block(x, y, (rows, columns), views, sides, undecided)
    for (a, b), keys, which in zip(((x, y), (y, x)), sides, undecided, strict=False):
        if which.any():
            keys[which] = pruned_search.search(
                a[which], b, keys.shape[1], None, memory, whole_bound(a[which], b)
            )[0]
    return sides[0], sides[1] if k_back is not None else None


def _quantised(x: torch.Tensor, y: torch.Tensor) -> Int8:
    generator = torch.Generator().manual_seed(0)
    parts = {min(TURNED, x.shape[1]), x.shape[1] % TURNED or TURNED}
    turns = {w: torch.linalg.qr(torch.randn(w, w, generator=generator))[0] for w in sorted(parts)}
    mean = _turned(x.mean(0, keepdim=True), turns)[0]
    right = _turned(y, turns)
    bias, longest = right @ mean, right.norm(dim=1).max().item()
    widths = right.abs().amax(1, keepdim=True).clamp_min_(1e-6).div_(127)
    whole = (right / widths).round_()
    right_lost = right.addcmul_(whole, widths, value=-1).norm(dim=1).max().item()
    whole = whole.to(torch.int8)
    left = _turned(x, turns).sub_(mean)
    steps, order = left.abs().amax(1).clamp_min_(1e-6).div_(63).sort()
    strips, lost = [], []
    for i in range(0, len(order), STRIP):
        rows, step = left[order[i : i + STRIP]], steps[i : i + STRIP][-1].item()
        levels = (rows / step).round_()
        slack = rows.sub_(levels, alpha=step).norm(dim=1).max().item() * longest
        slack += levels.norm(dim=1).max().item() * step * right_lost
        slack = 1.001 * slack + 2 * rounding(x) + 1e-5  # float32: of the rotation, and of these lines
        lost.append(int(slack * LEVELS + 0.51) + 1)  # a bound is rounded to a level, and never down
        with _fbgemm():
            strips.append(torch._make_per_tensor_quantized_tensor(levels.add_(64).to(torch.uint8), step, 64))
    return Int8(order, strips, lost, whole, widths[:, 0].double(), bias)


def _turned(x: torch.Tensor, turns: dict[int, torch.Tensor]) -> torch.Tensor:
    turned = torch.empty_like(x)
    for at in range(0, x.shape[1], TURNED):
        part = x[:, at : at + TURNED]
        turned[:, at : at + TURNED] = part @ turns[part.shape[1]]
    return turned


def _packed(int8: Int8, columns: torch.Tensor) -> Any:
    missing = -len(columns) % GROUP
    whole = torch.nn.functional.pad(int8.right[columns], (0, 0, 0, missing))
    steps = torch.nn.functional.pad(int8.right_steps[columns], (0, missing), value=1.0)
    bias = torch.nn.functional.pad(int8.bias[columns], (0, missing), value=-9.0)  # reads 0
    zeros = torch.zeros(len(whole), dtype=torch.long)
    with _fbgemm():
        rows = torch._make_per_channel_quantized_tensor(whole, steps, zeros, 0)
        return torch.ops.quantized.linear_prepack(rows, bias)


class View(NamedTuple):
    """One direction of a block: `bounds` (rows, 32, groups) and their `maxima` (rows, groups); member e of group g is
    column e * far + g * near. Columns of the matrix are grouped by distance, since maxima over neighbours are slow.
    """

    bounds: torch.Tensor
    maxima: torch.Tensor
    far: int
    near: int


def _views(int8: Int8, right: Any, start: int, rows: int, columns: int) -> list[View]:
    """Bounds of a block in levels, in both directions; 0 where a last group is not full."""
    high, wide = (size + -size % GROUP for size in (rows, columns))
    bounds, there, back = torch.zeros(high, wide, dtype=torch.uint8), [], []
    for i in range(0, rows, STRIP):
        strip, lost = int8.strips[(start + i) // STRIP], int8.lost[(start + i) // STRIP]
        made = torch.ops.quantized.linear(strip, right, 1 / LEVELS, lost)
        made = torch.empty(0, dtype=torch.uint8).set_(made.untyped_storage(), 0, made.shape, made.stride())
        bounds[i : i + len(strip)] = made  # `int_repr` would be one copy more
        there.append(made.view(len(made), GROUP, -1).amax(1))
        back.append(bounds[i : i + STRIP].view(-1, GROUP, wide).amax(1))
    groups = bounds.view(-1, GROUP, wide).permute(2, 1, 0)
    return [
        View(bounds.view(high, GROUP, -1), torch.cat(there), wide // GROUP, 1),
        View(groups, torch.cat(back).T[:columns].contiguous(), 1, GROUP),
    ]


def _block(x: Any, y: Any, at: tuple, views: list[View], sides: list, undecided: list) -> None:
    """The best of a block of pairs into the keys of `sides`. at: its rows of x and of y."""
    done = torch.empty(0, dtype=torch.long)
    for choose in (_best, _reaching):
        pairs = []
        for side, (view, keys, which) in enumerate(zip(views, sides, undecided, strict=False)):
            rows, columns = at[side], at[1 - side]
            most = max(8 * keys.shape[1], len(columns) * x.shape[1] * AFFORDABLE)
            row, column = choose(view, rows, keys, which, most)
            pair = rows[row], columns[column]
            pairs.append(pair[side] * len(y) + pair[1 - side])
        new = torch.cat(pairs).unique()
        new = new[~torch.isin(new, done, assume_unique=True)]
        if choose is _reaching:
            new = _near(x, y, new, sides)
        _score(x, y, new, sides)
        done = new


def _best(view: View, rows: torch.Tensor, keys: torch.Tensor, *_) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the k + 1 groups with the highest bounds their best pair, unless it cannot be in the answer any more."""
    count = min(keys.shape[1] + 1, view.maxima.shape[1])
    chosen = torch.zeros_like(view.maxima, dtype=torch.bool)
    chosen.scatter_(1, view.maxima.float().topk(count, dim=1).indices, True)
    chosen &= view.maxima >= _least(keys[rows]).clamp_min_(1)[:, None]
    row, group, values = _opened(view, chosen)
    return row, values.max(1).indices * view.far + group * view.near


def _reaching(
    view: View, rows: torch.Tensor, keys: torch.Tensor, which: torch.Tensor, most: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs whose bounds reach the floor. Rows with more than `most` groups of them, or a floor of 0, are put into
    `which`."""
    least = _least(keys[rows])
    reach = view.maxima >= least[:, None]
    which[rows] |= (least == 0) | (reach.sum(1) > most)
    reach &= ~which[rows, None]
    row, group, values = _opened(view, reach)
    hit, member = (values >= least[row, None]).nonzero(as_tuple=True)
    return row[hit], member * view.far + group[hit] * view.near


def _opened(view: View, groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(row, group, their 32 bounds) of the True places, in the order in which they lie in memory."""
    if view.near == 1:
        row, group = groups.nonzero(as_tuple=True)
    else:
        group, row = groups.T.contiguous().nonzero(as_tuple=True)
    return row, group, view.bounds[row, :, group]


def _least(keys: torch.Tensor) -> torch.Tensor:
    """The level that a pair's bound must reach to be in the answer."""
    return (key_scores(keys[:, -1]).clamp_min(0) * LEVELS).floor_().to(torch.uint8)


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


def _pays(x: Any, y: Any, k: int, int8: Int8) -> bool:
    """Whether few pairs of a sample reach the k-th score, with what 8 bits lose."""
    if max(int8.lost) >= LEVELS:
        return False
    rows = torch.randint(len(x), (48,), generator=torch.Generator().manual_seed(1))
    scores = x[rows] @ y.T
    floor = scores.topk(k, dim=1).values[:, -1:].clamp_min_(0)
    reaching = scores + sorted(int8.lost)[len(int8.lost) // 2] / LEVELS >= floor
    return reaching.float().mean().item() - k / len(y) < x.shape[1] * AFFORDABLE / 4


def _can_multiply() -> bool:
    """torch means to give up quantized tensors: then the search goes on without."""
    made = hasattr(torch, "_make_per_channel_quantized_tensor") and hasattr(torch.ops.quantized, "linear")
    return made and "fbgemm" in torch.backends.quantized.supported_engines


@contextmanager
def _fbgemm():
    before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
            yield
    finally:
        torch.backends.quantized.engine = before
