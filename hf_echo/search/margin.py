"""Margin scores over nearest neighbours (Artetxe and Schwenk 2019), and the best match of every row.

a is the cosine of x_i and y_j, m the mean cosine of a row with its k nearest neighbours on the other side,
b = (m(x_i) + m(y_j)) / 2:
    margin "cosine"    a                            the papers' own (OS 6.1), top 1 of all; None is the same
    margin "ratio"     1 + (a - b) / max(b, floor)  a / b wherever b reaches the floor: LASER's default, MEXMA's
    margin "distance"  a - b

As published, a / b is meant for collections in which every row has near neighbours. It falls with the cosine where b
is negative, and where b is close to 0 a stranger scores hundreds. The floor makes the score rise with the cosine
everywhere and leaves other scores as published. It is 0.05; if a side has fewer than 100 rows 0.3, and one over its
rows if it has 3 or fewer, because a itself is so large a share of b. With 4 to 20 rows a side a / b put a stranger
before the one true pair in 15 to 75 percent of draws, the ratio with a floor in 0.5 to 4.5 (NTREX, echo-nano).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import check_counts
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours

MARGINS = ("cosine", "ratio", "distance")
FLOOR, SMALL_FLOOR, SMALL = 0.05, 0.3, 100


def checked_margin(margin: str | None) -> str:
    """The name of a margin: "cosine" for None."""
    if margin not in (None, *MARGINS):
        raise ValueError(f"margin is {margin!r}; it must be one of {', '.join(MARGINS)}")
    return margin or "cosine"


def best_matches(x: Any, y: Any, margin: str | None = "cosine", k: int = 4) -> np.ndarray:
    """(n,) the best row of y (m, d) for each row of x (n, d); m and n may differ. Arguments as in `xsim`."""
    margin = checked_margin(margin)
    check_counts(k=k)
    if margin == "cosine":
        return nearest_neighbours(x, y, 1).indices[:, 0]
    k = min(k, np.shape(x)[0], np.shape(y)[0])
    forward, backward = mutual_neighbours(x, y, k)
    return best_by_margin(forward, backward, margin)[1]


def best_by_margin(forward: Neighbours, backward: Neighbours, margin: str) -> tuple[np.ndarray, np.ndarray]:
    """(score, row of the other side) of each row's best neighbour by margin score."""
    scores = margin_scores(forward, backward, margin)
    scores = np.where(forward.indices < 0, -np.inf, scores)  # an approximate index may find fewer than k
    rows, at = np.arange(len(scores)), scores.argmax(axis=1)
    return scores[rows, at], forward.indices[rows, at]


def margin_scores(forward: Neighbours, backward: Neighbours, margin: str) -> np.ndarray:
    """(n, k) float64 margin score of each forward neighbour (the formulas above)."""
    a = forward.scores.astype(np.float64)
    if checked_margin(margin) == "cosine":
        return a
    mean_x, mean_y = (side.scores.mean(axis=1, dtype=np.float64) for side in (forward, backward))
    return margin_of(a, mean_x[:, None], mean_y[forward.indices], margin, smaller=min(len(mean_x), len(mean_y)))


def margin_of(a: Any, mean_x: Any, mean_y: Any, margin: str = "ratio", *, smaller: int) -> Any:
    """Margin score of cosines `a` and the mean cosines of their rows with their neighbours (the formulas above).

    Args:
        smaller: rows of the smaller side, which says the floor.
    """
    b = (mean_x + mean_y) / 2
    if margin == "distance":
        return a - b
    floor = max(SMALL_FLOOR, 1 / smaller) if smaller < SMALL else FLOOR
    return 1 + (a - b) / np.maximum(b, floor)
