"""Nearest neighbours by cosine: exact, by faiss.

Rows are scaled to length 1 and kept in float32; the score of a pair is their dot product in
float64, rounded to float32; the best score comes first and equal scores are ordered by LOWEST
INDEX. So the answer does not depend on the number of threads. faiss (float32) finds the candidates.
They are scored again, and a row whose candidates may not hold its whole answer, because too many
scores are within the rounding of float32, is searched again for more of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .checks import Embeddings, Matrix, unit_rows

SPARE = 4  # candidates beyond k
PAIRS = 2**23  # numbers of candidates that are scored at a time: 64 MB


class Neighbours(NamedTuple):
    """`scores` (n, k) float32 cosines, best first;
    `indices` (n, k) int64 rows of the other matrix, -1 for none."""

    scores: np.ndarray
    indices: np.ndarray

    def merged(self, new: Neighbours, offset: int) -> Neighbours:
        """The best of these and of the next rows of the other matrix, whose first row is `offset`.

        Blocks come in the order of their rows, so a stable sort orders equal scores by lowest row.
        """
        scores = np.concatenate([self.scores, new.scores], axis=1)
        indices = np.concatenate([self.indices, new.indices + offset], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.scores.shape[1]]
        return Neighbours(
            np.take_along_axis(scores, order, axis=1), np.take_along_axis(indices, order, axis=1)
        )

    @classmethod
    def none_yet(cls, rows: int, k: int) -> Neighbours:
        """Index -1 and score minus infinity everywhere."""
        return cls(np.full((rows, k), -np.inf, np.float32), np.full((rows, k), -1, np.int64))


def nearest_neighbours(x: Embeddings, y: Embeddings, k: int) -> Neighbours:
    """The k rows of `y` with the highest cosine for each row of `x`.

    Args:
        x: (n, d) numbers as numpy array, torch tensor (any device, any real dtype) or list; or a
            scipy sparse matrix.
        y: (m, d), of the same sort as x.
        k: 1 <= k <= m.

    Raises:
        ValueError: empty, not two-dimensional, complex, NaN, infinite or zero input.
    """
    unit_x = unit_rows(x, "x")
    unit_y = unit_rows(y, "y")
    return unit_neighbours(unit_x, unit_y, k)


def mutual_neighbours(x: Embeddings, y: Embeddings, k: int) -> tuple[Neighbours, Neighbours]:
    """(neighbours of x in y, neighbours of y in x): what margin scores need.
    k may not exceed the rows of either."""
    unit_x = unit_rows(x, "x")
    unit_y = unit_rows(y, "y")
    return unit_neighbours(unit_x, unit_y, k), unit_neighbours(unit_y, unit_x, k)


def unit_neighbours(x: Matrix, y: Matrix, k: int) -> Neighbours:
    """`nearest_neighbours` of rows that have length 1 already, float32."""
    if not isinstance(x, np.ndarray):
        return _sparse_neighbours(x, y, k)
    dimensions = x.shape[1]
    # most that the float32 product of unit rows can be wrong by
    rounding = dimensions * 2.0**-24 + 2.0**-22
    nearest = Neighbours.none_yet(len(x), k)
    # Rows whose answer is not sure yet; in each round they get more candidates.
    open_rows = np.arange(len(x))
    candidates = min(k + SPARE, len(y))
    while len(open_rows):
        # All candidates are scored as one product, a part of them pair by pair, with a copy of each
        # candidate.
        scored_as_product = candidates == len(y)
        numbers = len(open_rows) * candidates
        if scored_as_product:
            columns = y.T.astype(np.float64)
        else:
            numbers *= dimensions
        undecided = []
        for rows in np.array_split(open_rows, math.ceil(numbers / PAIRS)):
            if scored_as_product:
                scores = (x[rows].astype(np.float64) @ columns).astype(np.float32)
                indices = np.broadcast_to(np.arange(len(y)), scores.shape)
                best_of_others = -np.inf
            else:
                scores, indices, rough_last = _candidate_scores(x[rows], y, candidates)
                best_of_others = rough_last + 2 * rounding
            # The k best by exact scores; whether one beyond the candidates may be as good.
            order = np.lexsort((indices, -scores), axis=1)[:, :k]
            nearest.scores[rows] = np.take_along_axis(scores, order, 1)
            nearest.indices[rows] = np.take_along_axis(indices, order, 1)
            undecided.append(rows[nearest.scores[rows, -1] <= best_of_others])
        open_rows = np.concatenate(undecided)
        candidates = min(8 * candidates, len(y))
    return nearest


def _candidate_scores(
    x: np.ndarray, y: np.ndarray, candidates: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, candidates) float32 cosines, summed in float64, with their rows of y;
    (n,) the lowest as faiss rounds it."""
    import faiss

    rough_scores, indices = faiss.knn(x, y, candidates, metric=faiss.METRIC_INNER_PRODUCT)
    scores = np.einsum("rd,rcd->rc", x, y[indices], dtype=np.float64)
    return scores.astype(np.float32), indices, rough_scores[:, -1]


def _sparse_neighbours(x: Matrix, y: Matrix, k: int) -> Neighbours:
    """The k nearest rows of a sparse matrix, in blocks of rows."""
    nearest = Neighbours.none_yet(x.shape[0], k)
    rows_at_a_time = max(1, PAIRS // y.shape[0])
    columns = y.astype(np.float64).T.tocsr()
    # Scores are dense: all of them would not fit into memory.
    for start in range(0, x.shape[0], rows_at_a_time):
        rows = slice(start, start + rows_at_a_time)
        scores = (x[rows].astype(np.float64) @ columns).toarray().astype(np.float32)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        nearest.scores[rows] = np.take_along_axis(scores, order, 1)
        nearest.indices[rows] = order
    return nearest
