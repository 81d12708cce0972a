"""Margin scores over nearest neighbours, and the best match of every row; the formulas:
`numpy_search`."""

from __future__ import annotations

import numpy as np

from .checks import Embeddings
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours
from .numpy_search import checked_margin, margin_of


def best_matches(
    x: Embeddings, y: Embeddings, margin: str | None = "cosine", k: int = 4
) -> np.ndarray:
    """(n,) the best row of y (m, d) for each row of x (n, d); m and n may differ.
    Arguments as in `xsim`."""
    margin = checked_margin(margin)
    if margin == "cosine":
        return nearest_neighbours(x, y, 1).indices[:, 0]
    forward, backward = mutual_neighbours(x, y, min(k, np.shape(x)[0], np.shape(y)[0]))
    _, best_rows = best_by_margin(forward, backward, margin)
    return best_rows


def best_by_margin(
    forward: Neighbours, backward: Neighbours, margin: str
) -> tuple[np.ndarray, np.ndarray]:
    """(score, row of the other side) of each row's best neighbour by margin score."""
    scores = margin_scores(forward, backward, margin)
    # an approximate index may find fewer than k
    scores = np.where(forward.indices < 0, -np.inf, scores)
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    return scores[rows, best], forward.indices[rows, best]


def margin_scores(forward: Neighbours, backward: Neighbours, margin: str) -> np.ndarray:
    """(n, k) float64 margin score of each forward neighbour (the formulas of `numpy_search`)."""
    cosines = forward.scores.astype(np.float64)
    if checked_margin(margin) == "cosine":
        return cosines
    mean_x = forward.scores.mean(axis=1, dtype=np.float64)
    mean_y = backward.scores.mean(axis=1, dtype=np.float64)
    rows = min(len(mean_x), len(mean_y))
    return margin_of(cosines, mean_x[:, None], mean_y[forward.indices], margin, smaller=rows)
