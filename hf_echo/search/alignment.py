"""Align the sentences of two documents in order, many to many, as Vecalign does (Thompson and Koehn, EMNLP 2019).

A bead is a run of source sentences with the run of target sentences that translates it. Dynamic programming finds the
beads of least total cost. A bead of a source and b target sentences costs a b (c + max(0, 4 (c - t))), where

    c = (1 - cos(x, y)) / mean(1 - mean cos(x, other targets), 1 - mean cos(y, other sources)) + 0.3 |log length ratio|

and x and y are embeddings of the runs: the first part, equation 1 of the paper, is about 1 for strangers. t is halfway
between strangers and the pairs of these two documents. A sentence without a partner costs 0.7.

What differs from the authors' code (`benchmarks/align.py` measures it): sums of the embeddings of sentences replace
those of concatenated sentences, for a sixth of the encoding; the price of strangers and a fixed penalty make two
deletions cheaper than a pair of strangers; up to a million cells are searched as a whole, larger documents coarse to
fine, as there, but in a band as wide as the path jumps. Time and memory grow with the sum of the lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..utils.vectors import unit_length

LARGEST = 5
PENALTY = 0.7
STRANGER = 4.0  # price of each unit of the cost above t
LENGTH_WEIGHT, MOST_RATIO = 0.3, 1.5  # of |log length ratio|, and where it is cut
SMOOTHING = 5  # characters that are added to both lengths
FULL = 1_000_000  # cells that are searched as a whole
BAND = 10  # sentences on each side of the coarse path
SAMPLE = 100  # sentences of the other side that stand for strangers
BLOCK = 1 << 20  # costs that are computed together
ONLY_SOURCE, ONLY_TARGET = 254, 255  # moves, beside the numbers of shapes


class Bead(NamedTuple):
    """Sentences `sources` and `targets`, one of which may be empty; then `cost` is 0, else the first part of c."""

    sources: range
    targets: range
    cost: float


def align(
    x: np.ndarray | Sequence[np.ndarray],
    y: np.ndarray | Sequence[np.ndarray],
    x_lengths: Sequence[int] | None = None,
    y_lengths: Sequence[int] | None = None,
    *,
    largest: int = LARGEST,
    penalty: float = PENALTY,
) -> list[Bead]:
    """The beads of two documents, in order; every sentence is in exactly one.

    Args:
        x, y: (n, d) and (m, d) embeddings of sentences, of any scale. Or lists of arrays: the array s - 1 is
            (n - s + 1, d), and its row i is the embedding of the concatenated sentences i to i + s - 1. Longer runs are
            sums.
        x_lengths, y_lengths: characters of each sentence; without them c has no second part.
        largest: most sentences of a bead, both sides together.
        penalty: cost of a sentence without a partner.

    Raises:
        ValueError: `largest` below 2, a penalty that is not positive, lengths of another number than sentences.
    """
    if largest < 2 or not penalty > 0:
        raise ValueError(f"largest is {largest} and penalty {penalty}: give at least 2, and a positive number")
    source, target = _Side(x, x_lengths), _Side(y, y_lengths)
    n, m = len(source), len(target)
    if not n or not m:
        return [Bead(range(i, i + 1), range(0), 0.0) for i in range(n)] + [
            Bead(range(0), range(j, j + 1), 0.0) for j in range(m)
        ]
    levels = [(source, target)]
    while len(levels[-1][0]) * len(levels[-1][1]) > FULL:
        levels.append((levels[-1][0].halved(), levels[-1][1].halved()))
    beads: list[Bead] = []
    for one, other in reversed(levels):
        everything = np.tile([0, len(other)], (len(one) + 1, 1))
        windows = _windows(_path(beads, len(one), len(other)), len(other), BAND + largest) if beads else everything
        beads = _search(one, other, windows, [(1, 1)], penalty)
    # the beads of one sentence a side say what pairs of these documents are like
    target.scale = _length_ratio(beads, source, target)
    costs = [bead.cost for bead in beads if bead.sources and bead.targets]
    threshold = (1 + np.median(costs)) / 2 if costs else np.inf
    shapes = [(a, total - a) for total in range(2, largest + 1) for a in range(1, total)]
    return _search(source, target, windows, shapes, penalty, threshold)


class _Side:
    """Unit embeddings and lengths of the runs of sentences of one document."""

    def __init__(self, parts: np.ndarray | Sequence[np.ndarray], lengths: Sequence[int] | None = None):
        self.parts = [parts] if isinstance(parts, np.ndarray) else parts
        if lengths is not None and len(lengths) != len(self):
            raise ValueError(f"{len(lengths)} lengths and {len(self)} embeddings: give one length for each sentence")
        self.sums = None if lengths is None else np.concatenate([[0], np.cumsum(lengths)])
        self.scale: float | None = None

    def __len__(self) -> int:
        return len(self.parts[0])

    def rows(self, size: int, start: int, stop: int) -> np.ndarray:
        """Unit embeddings of the runs of `size` sentences that begin with the sentences start to stop - 1."""
        if size <= len(self.parts):
            return unit_length(np.asarray(self.parts[size - 1][start:stop], np.float32))
        single = self.rows(1, start, stop + size - 1)
        return unit_length(sum(single[k : len(single) - size + 1 + k] for k in range(size)))

    def log_lengths(self, size: int, start: int, stop: int) -> np.ndarray:
        sums = self.sums[start : stop + size]
        return np.log((sums[size:] - sums[:-size]) * (self.scale or 1.0) + SMOOTHING)

    def halved(self) -> _Side:
        """Sums of neighbours, less their mean, as in the authors' code. A last sentence alone stays alone."""
        sums = np.add.reduceat(self.rows(1, 0, len(self)), np.arange(0, len(self), 2))
        return _Side(sums - sums.mean(axis=0))

    def strangeness(self, other: _Side, largest: int) -> list[np.ndarray]:
        """For the runs of each size 1 minus the mean cosine with sentences of the other side, the nearest left out."""
        picked = np.unique(np.linspace(0, len(other) - 1, SAMPLE).astype(int))
        sample = unit_length(np.asarray(other.parts[0][picked], np.float32))
        measured = []
        for size in range(1, largest + 1):
            means = [np.zeros(0, np.float32)]
            for start in range(0, len(self) - size + 1, 4096):
                cosines = self.rows(size, start, min(start + 4096, len(self) - size + 1)) @ sample.T
                means.append((cosines.sum(axis=1) - cosines.max(axis=1)) / max(1, len(sample) - 1))
            measured.append(1 - np.concatenate(means))
        return measured


def _length_ratio(beads: Sequence[Bead], source: _Side, target: _Side) -> float | None:
    """Characters of the source for one of the target: the median of pairs of sentences; None without lengths."""
    if source.sums is None or target.sums is None:
        return None
    pairs = [(bead.sources.start, bead.targets.start) for bead in beads if bead.sources and bead.targets]
    ratios = [source.log_lengths(1, i, i + 1) - target.log_lengths(1, j, j + 1) for i, j in pairs]
    return float(np.exp(np.median(ratios))) if ratios else 1.0


def _path(beads: Sequence[Bead], n: int, m: int) -> np.ndarray:
    """(n + 1, 2) least and largest target position for each source position, from the beads of half the length."""
    path = np.full((n + 1, 2), [m, 0])
    points = [(2 * bead.sources.start, 2 * bead.targets.start) for bead in beads] + [(n, m)]
    for (i, j), (k, end) in zip(points[:-1], points[1:]):
        for row in range(i, k + 1):
            at = [j, end] if i == k else [j + (end - j) * (row - i) // (k - i)] * 2
            path[row] = min(path[row, 0], at[0]), max(path[row, 1], at[1])
    return path


def _windows(path: np.ndarray, m: int, band: int) -> np.ndarray:
    """(n + 1, 2) first and last target position that is searched: all within `band` of the path, by row or column."""
    padded = np.pad(path, ((band, band), (0, 0)), mode="edge")
    views = np.lib.stride_tricks.sliding_window_view(padded, 2 * band + 1, axis=0)
    return np.clip(np.stack([views[:, 0].min(axis=1) - band, views[:, 1].max(axis=1) + band], axis=1), 0, m)


def _search(
    source: _Side, target: _Side, windows: np.ndarray, shapes: Sequence, penalty: float, threshold: float = np.inf
) -> list[Bead]:
    """Dynamic programming over the cells (i, j) of the windows: i source and j target sentences are in beads."""
    most = max(a for a, _ in shapes)
    strange = source.strangeness(target, most), target.strangeness(source, most)
    last_rows: dict[int, np.ndarray] = {}  # least cost of each cell
    moves: list[np.ndarray] = []  # the bead that ends in each cell
    for i, costs in enumerate(_costs_by_row(source, target, windows, shapes, strange, threshold)):
        low, high = windows[i]
        best = np.full((len(shapes) + 1, high - low + 1), np.inf)
        best[0, 0] = np.inf if i else 0
        for number, (a, b) in enumerate([*shapes, (1, 0)]):
            if a > i:
                continue
            first, last = windows[i - a]
            start, stop = max(low, first + b), min(high, last + b) + 1
            if start < stop:
                price = costs[number, start - low : stop - low] if b else penalty
                best[number, start - low : stop - low] = last_rows[i - a][start - b - first : stop - b - first] + price
        move = best.argmin(axis=0).astype(np.uint8)
        row = best[move, np.arange(len(move))]
        move[move == len(shapes)] = ONLY_SOURCE
        # from the cells to the left, at the price of target sentences alone
        price = penalty * np.arange(len(row))
        level = np.minimum.accumulate(row - price)
        move[level < row - price] = ONLY_TARGET
        last_rows[i] = level + price
        last_rows.pop(i - most, None)
        moves.append(move)
    return _traced(source, target, windows, moves, shapes, strange)


def _costs_by_row(
    source: _Side, target: _Side, windows: np.ndarray, shapes: Sequence, strange: tuple, threshold: float
) -> Iterator[np.ndarray]:
    """(shapes, cells) for each row: the cost of the bead that ends in the cell; inf where there is none."""
    n, start = len(source), 0
    while start <= n:
        width = int(np.ptp(windows[start])) + 1
        stop = min(n + 1, start + max(1, min(width + 16, BLOCK // (2 * width * len(shapes)))))
        low, high = int(windows[start:stop, 0].min()), int(windows[start:stop, 1].max())
        block = np.full((len(shapes), stop - start, high - low + 1), np.inf, np.float32)
        for number, (a, b) in enumerate(shapes):
            i, j = max(start - a, 0), max(low - b, 0)
            if stop - a > i and high + 1 - b > j:
                rows, columns = (i, stop - a), (j, high + 1 - b)
                cost = _cost(source, target, (a, b), rows, columns, strange)
                if target.scale is not None:
                    lengths = source.log_lengths(a, *rows)[:, None] - target.log_lengths(b, *columns)
                    cost += LENGTH_WEIGHT * np.minimum(np.abs(lengths), MOST_RATIO)
                block[number, i + a - start :, j + b - low :] = (
                    a * b * (cost + STRANGER * np.maximum(cost - threshold, 0))
                )
        for i in range(start, stop):
            yield block[:, i - start, windows[i, 0] - low : windows[i, 1] - low + 1]
        start = stop


def _cost(source: _Side, target: _Side, shape: tuple, rows: tuple, columns: tuple, strange: tuple) -> np.ndarray:
    a, b = shape
    cosines = source.rows(a, *rows) @ target.rows(b, *columns).T
    scale = strange[0][a - 1][slice(*rows), None] + strange[1][b - 1][slice(*columns)]
    # not 0, so that equal texts are pairs of single sentences rather than longer ones
    return 2 * np.maximum(1 - cosines, 1e-6) / np.maximum(scale, 1e-6)


def _traced(source: _Side, target: _Side, windows: np.ndarray, moves: Sequence, shapes: Sequence, strange: tuple):
    i, j, beads = len(source), len(target), []
    while i or j:
        move = moves[i][j - windows[i, 0]]
        a, b = (1, 0) if move == ONLY_SOURCE else (0, 1) if move == ONLY_TARGET else shapes[move]
        i, j = i - a, j - b
        cost = float(_cost(source, target, (a, b), (i, i + 1), (j, j + 1), strange)[0, 0]) if a and b else 0.0
        beads.append(Bead(range(i, i + a), range(j, j + b), cost))
    return beads[::-1]
