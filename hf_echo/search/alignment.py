"""Align the sentences of two documents in order, many to many, as Vecalign does
(Thompson and Koehn, EMNLP 2019).

A bead is a run of source sentences with the run of target sentences that translates it. Dynamic
programming finds the beads of least total cost. A bead of a source and b target sentences costs a b
(c + max(0, 4 (c - t))), where

    c = (1 - cos(x, y)) / mean(1 - mean cos(x, other targets), 1 - mean cos(y, other sources)) + 0.3
    |log length ratio|

and x and y are embeddings of the runs: the first part, equation 1 of the paper, is about 1 for
strangers. t is halfway between strangers and the pairs of these two documents. A sentence without a
partner costs 0.7.

What differs from the authors' code (`benchmarks/align.py` measures it): sums of the embeddings of
sentences replace those of concatenated sentences, for a sixth of the encoding; the price of
strangers and a fixed penalty make two deletions cheaper than a pair of strangers; up to a million
cells are searched as a whole, larger documents coarse to fine, as there, but in a band as wide as
the path jumps. Time and memory grow with the sum of the lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..utils.vectors import unit_length

LARGEST = 5  # most sentences of a bead, both sides together
PENALTY = 0.7  # cost of a sentence without a partner
STRANGER = 4.0  # price of each unit of the cost above t
LENGTH_WEIGHT = 0.3  # of |log length ratio|
MOST_RATIO = 1.5  # where |log length ratio| is cut
SMOOTHING = 5  # characters that are added to both lengths
FULL = 1_000_000  # cells that are searched as a whole
BAND = 10  # sentences on each side of the coarse path
SAMPLE = 100  # sentences of the other side that stand for strangers
ROWS = 4096  # runs that are compared with strangers together
BLOCK = 1 << 20  # costs that are computed together
# moves, beside the numbers of shapes
ONLY_SOURCE = 254
ONLY_TARGET = 255

Shape = tuple[int, int]  # sentences of a bead: of the source, of the target
Span = tuple[int, int]  # the first run, and the one after the last


class Bead(NamedTuple):
    """Sentences `sources` and `targets`, one of which may be empty;
    then `cost` is 0, else the first part of c."""

    sources: Sequence[int]
    targets: Sequence[int]
    cost: float

    @property
    def is_pair(self) -> bool:
        """Whether both sides have sentences."""
        return bool(self.sources and self.targets)


def align(
    x: np.ndarray | Sequence[np.ndarray],
    y: np.ndarray | Sequence[np.ndarray],
    x_lengths: Sequence[int] | None = None,
    y_lengths: Sequence[int] | None = None,
    *,
    largest: int = LARGEST,
) -> list[Bead]:
    """The beads of two documents, in order; every sentence is in exactly one.

    Args:
        x, y: (n, d) and (m, d) embeddings of sentences, of any scale. Or lists of arrays: the array
            s - 1 is (n - s + 1, d), and its row i is the embedding of the concatenated sentences i
            to i + s - 1. Longer runs are sums.
        x_lengths, y_lengths: characters of each sentence; without them c has no second part.
        largest: most sentences of a bead, both sides together.
    """
    source = _Side(x, x_lengths)
    target = _Side(y, y_lengths)
    if not len(source) or not len(target):
        lonely_sources = [Bead(range(i, i + 1), range(0), 0.0) for i in range(len(source))]
        lonely_targets = [Bead(range(0), range(j, j + 1), 0.0) for j in range(len(target))]
        return lonely_sources + lonely_targets

    # The beads of one sentence a side say what pairs of these documents are like.
    windows = _windows(source, target, BAND + largest)
    single_beads = _search(source, target, windows, [(1, 1)])
    target.scale = _length_ratio(single_beads, source, target)
    costs = [bead.cost for bead in single_beads if bead.is_pair]
    threshold = np.inf
    if costs:
        threshold = (1 + np.median(costs)) / 2

    shapes = []
    for total in range(2, largest + 1):
        for source_count in range(1, total):
            shapes.append((source_count, total - source_count))
    return _search(source, target, windows, shapes, threshold)


class _Side:
    """Unit embeddings and lengths of the runs of sentences of one document."""

    def __init__(
        self, parts: np.ndarray | Sequence[np.ndarray], lengths: Sequence[int] | None = None
    ):
        self.parts = [parts] if isinstance(parts, np.ndarray) else parts
        # (n + 1,) characters in front of each sentence; empty where lengths are not known
        self.sums = np.zeros(0)
        # characters of the other side for one of this side, once they are known
        self.scale: float | None = None
        if lengths is not None:
            self.sums = np.concatenate([[0], np.cumsum(lengths)])

    def __len__(self) -> int:
        return len(self.parts[0])

    def rows(self, size: int, start: int, stop: int) -> np.ndarray:
        """(stop - start, d) unit embeddings of the runs of `size` sentences that begin with these
        sentences."""
        if size <= len(self.parts):
            return unit_length(np.ascontiguousarray(self.parts[size - 1][start:stop], np.float32))
        sentences = self.rows(1, start, stop + size - 1)
        total = sentences[: stop - start].copy()
        for offset in range(1, size):
            total += sentences[offset : offset + stop - start]
        return unit_length(total)

    def log_lengths(self, size: int, start: int, stop: int) -> np.ndarray:
        """(stop - start,) logarithms of the characters of the same runs."""
        sums = self.sums[start : stop + size]
        characters = sums[size:] - sums[:-size]
        return np.log(characters * (self.scale or 1.0) + SMOOTHING)

    def halved(self) -> _Side:
        """Sums of neighbours, less their mean, as in the authors' code.
        A last sentence alone stays alone."""
        first_of_two = np.arange(0, len(self), 2)
        sums = np.add.reduceat(self.rows(1, 0, len(self)), first_of_two)
        return _Side(sums - sums.mean(axis=0))

    def strangeness(self, other: _Side, size: int) -> np.ndarray:
        """(runs of `size`,) 1 minus the mean cosine with sentences of the other side,
        the nearest left out."""
        sampled = np.unique(np.linspace(0, len(other) - 1, SAMPLE).astype(int))
        strangers = unit_length(np.ascontiguousarray(other.parts[0][sampled], np.float32))
        runs = max(0, len(self) - size + 1)
        # In blocks of runs: the products with all strangers need not fit into memory.
        means = np.zeros(runs, np.float32)
        for start in range(0, runs, ROWS):
            stop = min(start + ROWS, runs)
            cosines = self.rows(size, start, stop) @ strangers.T  # (rows, strangers)
            without_nearest = cosines.sum(axis=1) - cosines.max(axis=1)
            means[start:stop] = without_nearest / max(1, len(strangers) - 1)
        return 1 - means


def _length_ratio(beads: Sequence[Bead], source: _Side, target: _Side) -> float | None:
    """Characters of the source for one of the target: the median of pairs of sentences;
    None without lengths."""
    if not len(source.sums) or not len(target.sums):
        return None
    # Pairs of single sentences say how long translations are here.
    log_ratios = []
    for bead in beads:
        if bead.is_pair:
            i = bead.sources.start
            j = bead.targets.start
            log_ratios.append(source.log_lengths(1, i, i + 1) - target.log_lengths(1, j, j + 1))
    return float(np.exp(np.median(log_ratios))) if log_ratios else 1.0


def _windows(source: _Side, target: _Side, band: int) -> np.ndarray:
    """(n + 1, 2) first and last target position that is searched for each source position.

    A small table is searched as a whole. Else all within `band` of the path of the halved
    documents, by row or column.
    """
    n = len(source)
    m = len(target)
    if n * m <= FULL:
        return np.tile([0, m], (n + 1, 1))
    # The path of documents of half the length, twice as large, and a band around it.
    half_source = source.halved()
    half_target = target.halved()
    half_windows = _windows(half_source, half_target, band)
    half_beads = _search(half_source, half_target, half_windows, [(1, 1)])
    padded = np.pad(_path(half_beads, n, m), ((band, band), (0, 0)), mode="edge")
    # (n + 1, 2, rows)
    near_rows = np.lib.stride_tricks.sliding_window_view(padded, 2 * band + 1, axis=0)
    first = near_rows[:, 0].min(axis=1) - band
    last = near_rows[:, 1].max(axis=1) + band
    return np.clip(np.stack([first, last], axis=1), 0, m)


def _path(half_beads: Sequence[Bead], n: int, m: int) -> np.ndarray:
    """(n + 1, 2) least and largest target position for each source position,
    from the beads of half the length."""
    points = []
    for bead in half_beads:
        # Twice the half of an odd number of sentences is one more than there are.
        points.append((min(2 * bead.sources.start, n), 2 * bead.targets.start))
    points.append((n, m))
    path = np.full((n + 1, 2), [m, 0])
    for (row, column), (next_row, next_column) in pairwise(points):
        rows = np.arange(row, next_row + 1)
        if row == next_row:
            first = column
            last = next_column
        else:
            first = last = column + (next_column - column) * (rows - row) // (next_row - row)
        path[rows, 0] = np.minimum(path[rows, 0], first)
        path[rows, 1] = np.maximum(path[rows, 1], last)
    return path


def _search(
    source: _Side,
    target: _Side,
    windows: np.ndarray,
    shapes: Sequence[Shape],
    threshold: float = np.inf,
) -> list[Bead]:
    """Dynamic programming over the cells (i, j) of the windows:
    i source and j target sentences are in beads."""
    largest_run = max(source_count for source_count, _ in shapes)
    distances = _Distances(source, target, largest_run)
    # of each cell, in the last rows alone: beads that end in this row begin there
    least_costs: dict[int, np.ndarray] = {}
    moves = []  # for each row the shape of the bead that ends in each of its cells
    for i, bead_costs in enumerate(_bead_costs(distances, windows, shapes, threshold)):
        # the cheapest way into each cell from the rows above
        totals = _totals(i, least_costs, windows, bead_costs, shapes)
        move = totals.argmin(axis=0).astype(np.uint8)
        cost = totals[move, np.arange(len(move))]
        move[move == len(shapes)] = ONLY_SOURCE

        # from the cells to the left, at the price of target sentences alone
        price = PENALTY * np.arange(len(cost))
        least_to_the_left = np.minimum.accumulate(cost - price)
        move[least_to_the_left < cost - price] = ONLY_TARGET
        least_costs[i] = least_to_the_left + price
        least_costs.pop(i - largest_run, None)
        moves.append(move)
    return _traced(distances, windows, moves, shapes)


def _totals(
    i: int,
    least_costs: dict[int, np.ndarray],
    windows: np.ndarray,
    bead_costs: np.ndarray,
    shapes: Sequence[Shape],
) -> np.ndarray:
    """(shapes + 1, cells of row i) cost of the way whose last bead has each shape,
    and is one source sentence alone."""
    low, high = windows[i]
    totals = np.full((len(shapes) + 1, high - low + 1), np.inf)
    if i == 0:
        totals[0, 0] = 0
    for number, (a, b) in enumerate([*shapes, (1, 0)]):
        if a > i:
            continue
        # The bead comes from the cell (i - a, j - b), which must be in the window of its row.
        first, last = windows[i - a]
        start = max(low, first + b)
        stop = min(high, last + b) + 1
        if start < stop:
            cells = slice(start - low, stop - low)
            beginnings = slice(start - b - first, stop - b - first)
            price = PENALTY if b == 0 else bead_costs[number, cells]
            totals[number, cells] = least_costs[i - a][beginnings] + price
    return totals


class _Distances:
    """The first part of c for the runs of two sides."""

    def __init__(self, source: _Side, target: _Side, largest_run: int):
        self.source = source
        self.target = target
        self.source_strangeness = [
            source.strangeness(target, size) for size in range(1, largest_run + 1)
        ]
        self.target_strangeness = [
            target.strangeness(source, size) for size in range(1, largest_run + 1)
        ]

    def table(self, shape: Shape, rows: Span, columns: Span) -> np.ndarray:
        """(rows, columns) for the beads of a shape that begin with these source and target
        sentences."""
        a, b = shape
        # (rows, columns): as alike as they are, relative to how alike strangers are
        cosines = self.source.rows(a, *rows) @ self.target.rows(b, *columns).T
        row_strangeness = self.source_strangeness[a - 1][slice(*rows)]
        column_strangeness = self.target_strangeness[b - 1][slice(*columns)]
        mean_strangeness = (row_strangeness[:, None] + column_strangeness) / 2
        # not 0, so that equal texts are pairs of single sentences rather than longer ones
        return np.maximum(1 - cosines, 1e-6) / np.maximum(mean_strangeness, 5e-7)

    def with_lengths(self, shape: Shape, rows: Span, columns: Span) -> np.ndarray:
        """(rows, columns) c with both parts, if lengths are known."""
        cost = self.table(shape, rows, columns)
        if self.target.scale is None:
            return cost
        source_lengths = self.source.log_lengths(shape[0], *rows)
        target_lengths = self.target.log_lengths(shape[1], *columns)
        log_ratios = np.abs(source_lengths[:, None] - target_lengths)
        return cost + LENGTH_WEIGHT * np.minimum(log_ratios, MOST_RATIO)


def _bead_costs(
    distances: _Distances, windows: np.ndarray, shapes: Sequence[Shape], threshold: float
) -> Iterator[np.ndarray]:
    """(shapes, cells) for each row: the cost of the bead that ends in the cell;
    inf where there is none."""
    rows = len(windows)
    start = 0
    while start < rows:
        # Neighbouring rows have nearly the same window: their costs are one product of matrices.
        width = int(np.ptp(windows[start])) + 1
        rows_that_fit = BLOCK // (2 * width * len(shapes))
        stop = min(rows, start + max(1, min(width + 16, rows_that_fit)))
        low = int(windows[start:stop, 0].min())
        end = int(windows[start:stop, 1].max()) + 1
        block = _block_costs(distances, (start, stop), (low, end), shapes, threshold)
        for i in range(start, stop):
            first, last = windows[i]
            yield block[:, i - start, first - low : last - low + 1]
        start = stop


def _block_costs(
    distances: _Distances, rows: Span, columns: Span, shapes: Sequence[Shape], threshold: float
) -> np.ndarray:
    """(shapes, rows, columns) the cost of the bead that ends in the cell;
    inf where there is none."""
    start, stop = rows
    low, end = columns
    costs = np.full((len(shapes), stop - start, end - low), np.inf, np.float32)
    for number, (a, b) in enumerate(shapes):
        # A bead that ends in the cell (i, j) begins with the sentences i - a and j - b.
        source_span = (max(start - a, 0), stop - a)
        target_span = (max(low - b, 0), end - b)
        if source_span[0] < source_span[1] and target_span[0] < target_span[1]:
            c = distances.with_lengths((a, b), source_span, target_span)
            strange = STRANGER * np.maximum(c - threshold, 0)
            first_row = source_span[0] + a - start
            first_column = target_span[0] + b - low
            costs[number, first_row:, first_column:] = a * b * (c + strange)
    return costs


def _traced(
    distances: _Distances, windows: np.ndarray, moves: Sequence[np.ndarray], shapes: Sequence[Shape]
) -> list[Bead]:
    """The beads on the cheapest way, from the last cell back to the first."""
    i = len(distances.source)
    j = len(distances.target)
    beads = []
    while i or j:
        move = moves[i][j - windows[i, 0]]
        cost = 0.0
        if move == ONLY_SOURCE:
            a, b = 1, 0
        elif move == ONLY_TARGET:
            a, b = 0, 1
        else:
            a, b = shapes[move]
            cost = float(distances.table((a, b), (i - a, i - a + 1), (j - b, j - b + 1))[0, 0])
        i -= a
        j -= b
        beads.append(Bead(range(i, i + a), range(j, j + b), cost))
    beads.reverse()
    return beads
