"""Margin scores over nearest neighbours (Artetxe and Schwenk 2019), and the best match of every row.

a is the cosine of x_i and y_j, m the mean cosine of a row with its k nearest neighbours on the other side,
b = (m(x_i) + m(y_j)) / 2:
    margin "cosine"    a            the papers' own (OS 6.1), top 1 of all; None is the same
    margin "ratio"     a / b        LASER's default, MEXMA's
    margin "distance"  a - b
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import refuse_broken
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours

MARGINS = ("cosine", "ratio", "distance")


def checked_margin(margin: str | None) -> str:
    """The name of a margin: "cosine" for None.

    Raises:
        ValueError: there is no such margin.
    """
    if margin not in (None, *MARGINS):
        raise ValueError(f"margin is {margin!r}; it must be one of {', '.join(MARGINS)}")
    return margin or "cosine"


def best_matches(x: Any, y: Any, margin: str | None = "cosine", k: int = 4) -> np.ndarray:
    """(n,) the best row of y (m, d) for each row of x (n, d); m and n may differ. Arguments as in `xsim`."""
    margin = checked_margin(margin)
    if k < 1:
        raise ValueError(f"k is {k}, must be at least 1")
    refuse_broken(x, lambda row: f"x, row {row}")
    refuse_broken(y, lambda row: f"y, row {row}")
    if margin == "cosine":
        return nearest_neighbours(x, y, 1).indices[:, 0]
    forward, backward = mutual_neighbours(x, y, min(k, x.shape[0], y.shape[0]))
    return best_by_margin(forward, backward, margin)[1]


def best_by_margin(forward: Neighbours, backward: Neighbours, margin: str) -> tuple[np.ndarray, np.ndarray]:
    """(score, row of the other side) of each row's best neighbour by margin score."""
    scores = margin_scores(forward, backward, margin)
    scores = np.where(forward.indices < 0, -np.inf, scores)  # an approximate index may find fewer than k
    rows, at = np.arange(len(scores)), scores.argmax(axis=1)
    return scores[rows, at], forward.indices[rows, at]


def margin_scores(forward: Neighbours, backward: Neighbours, margin: str) -> np.ndarray:
    """(n, k) float64 margin score of each forward neighbour (the formula above).

    As in LASER nothing is done about a negative b, where the ratio changes sign; where b is exactly 0 the
    ratio is 0.
    """
    if checked_margin(margin) == "cosine":
        return forward.scores.astype(np.float64)
    mean_x = forward.scores.mean(axis=1, dtype=np.float64)
    mean_y = backward.scores.mean(axis=1, dtype=np.float64)
    a = forward.scores.astype(np.float64)
    b = (mean_x[:, None] + mean_y[forward.indices]) / 2
    return a - b if margin == "distance" else np.divide(a, b, out=np.zeros_like(a), where=b != 0)
