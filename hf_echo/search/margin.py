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

import numpy as np

from .checks import Embeddings, check_counts
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours

MARGINS = ("cosine", "ratio", "distance")
FLOOR = 0.05
SMALL_FLOOR = 0.3
SMALL = 100  # rows of a side below which the small floor holds


def checked_margin(margin: str | None) -> str:
    """The name of a margin: "cosine" for None."""
    if margin not in (None, *MARGINS):
        raise ValueError(f"margin is {margin!r}; it must be one of {', '.join(MARGINS)}")
    return margin or "cosine"


def best_matches(x: Embeddings, y: Embeddings, margin: str | None = "cosine", k: int = 4) -> np.ndarray:
    """(n,) the best row of y (m, d) for each row of x (n, d); m and n may differ. Arguments as in `xsim`."""
    margin = checked_margin(margin)
    check_counts(k=k)
    if margin == "cosine":
        return nearest_neighbours(x, y, 1).indices[:, 0]
    forward, backward = mutual_neighbours(x, y, min(k, np.shape(x)[0], np.shape(y)[0]))
    _, best_rows = best_by_margin(forward, backward, margin)
    return best_rows


def best_by_margin(forward: Neighbours, backward: Neighbours, margin: str) -> tuple[np.ndarray, np.ndarray]:
    """(score, row of the other side) of each row's best neighbour by margin score."""
    scores = margin_scores(forward, backward, margin)
    scores = np.where(forward.indices < 0, -np.inf, scores)  # an approximate index may find fewer than k
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    return scores[rows, best], forward.indices[rows, best]


def margin_scores(forward: Neighbours, backward: Neighbours, margin: str) -> np.ndarray:
    """(n, k) float64 margin score of each forward neighbour (the formulas above)."""
    cosines = forward.scores.astype(np.float64)
    if checked_margin(margin) == "cosine":
        return cosines
    mean_x = forward.scores.mean(axis=1, dtype=np.float64)
    mean_y = backward.scores.mean(axis=1, dtype=np.float64)
    rows = min(len(mean_x), len(mean_y))
    return margin_of(cosines, mean_x[:, None], mean_y[forward.indices], margin, smaller=rows)


def margin_of(
    a: np.ndarray, mean_x: np.ndarray, mean_y: np.ndarray, margin: str = "ratio", *, smaller: int
) -> np.ndarray:
    """Margin score of cosines `a` and the mean cosines of their rows with their neighbours (the formulas above).

    Args:
        smaller: rows of the smaller side, which says the floor.
    """
    b = (mean_x + mean_y) / 2
    if margin == "distance":
        return a - b
    floor = FLOOR
    if smaller < SMALL:
        floor = max(SMALL_FLOOR, 1 / smaller)
    return 1 + (a - b) / np.maximum(b, floor)
