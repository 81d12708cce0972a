"""Margins, neighbours and best matches in NumPy alone: short, so that it travels with metrics of
the Hub.

The package searches faster (`neighbours`, by faiss) and takes the margin from here.

a is the cosine of x_i and y_j, m the mean cosine of a row with its k nearest neighbours on the
other side, b = (m(x_i) + m(y_j)) / 2:
    margin "cosine"    a                            the papers' own (OS 6.1), top 1 of all; None is the same
    margin "ratio"     1 + (a - b) / max(b, floor)  a / b wherever b reaches the floor: LASER's, MEXMA's
    margin "distance"  a - b

As published (Artetxe and Schwenk 2019), a / b is meant for collections in which every row has near
neighbours. It falls with the cosine where b is negative, and where b is close to 0 a stranger
scores hundreds. The floor makes the score rise with the cosine everywhere and leaves other scores
as published. It is 0.05; if a side has fewer than 100 rows 0.3, and one over its rows if it has 3
or fewer, because a itself is so large a share of b. With 4 to 20 rows a side a / b put a stranger
before the one true pair in 15 to 75 percent of draws, the ratio with a floor in 0.5 to 4.5
(NTREX, echo-nano).
"""

from __future__ import annotations

import numpy as np

MARGINS = ("cosine", "ratio", "distance")
FLOOR = 0.05
SMALL_FLOOR = 0.3
SMALL = 100  # rows of a side below which the small floor holds
BLOCK = 256  # rows whose cosines are in memory at a time


def checked_margin(margin: str | None) -> str:
    """The name of a margin: "cosine" for None."""
    if margin not in (None, *MARGINS):
        raise ValueError(f"margin is {margin!r}; it must be one of {', '.join(MARGINS)}")
    return margin or "cosine"


def margin_of(
    a: np.ndarray, mean_x: np.ndarray, mean_y: np.ndarray, margin: str = "ratio", *, smaller: int
) -> np.ndarray:
    """Margin score of cosines `a` and the mean cosines of their rows with their neighbours
    (formulas above).

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


def unit_vectors(rows: np.ndarray, name: str, dimensions: int | None = None) -> np.ndarray:
    """(n, d) float64 rows of length 1, rounded to float32.

    Raises:
        ValueError: no (n, d) numbers, d is not `dimensions`, a row without a direction.
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"{name} must be vectors, at least one; got an array of shape {rows.shape}"
        )
    if dimensions not in (None, rows.shape[1]):
        raise ValueError(
            f"{name} have {rows.shape[1]} dimensions, not {dimensions}: use one model for all"
        )
    has_direction = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    if not has_direction.all():
        row = int(has_direction.argmin())
        raise ValueError(f"{name}, row {row}: a NaN, infinite or zero embedding has no direction")
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)  # squares neither overflow nor vanish
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32).astype(np.float64)


def nearest_rows(x: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines (n, k) of unit rows x (n, d) with their k nearest of y (m, d), and these rows of y
    (n, k).

    The best comes first. Cosines are rounded to float32; equal ones are ordered by lowest row.
    """
    scores = np.empty((len(x), k))
    rows_of_y = np.empty((len(x), k), np.int64)
    for start in range(0, len(x), BLOCK):
        cosines = (x[start : start + BLOCK] @ y.T).astype(np.float32)
        rows = np.arange(len(cosines))
        # argmax takes the lowest of equal rows; a partition, which is faster for large k, takes
        # any.
        for rank in range(k):
            best = cosines.argmax(axis=1)
            scores[start + rows, rank] = cosines[rows, best]
            rows_of_y[start + rows, rank] = best
            cosines[rows, best] = -np.inf  # the next round finds the next best
    return scores, rows_of_y


def best_rows(x: np.ndarray, y: np.ndarray, margin: str | None = None, k: int = 4) -> np.ndarray:
    """(n,) the row of y (m, d) with the best score for each row of x (n, d), both of
    `unit_vectors`.

    Args:
        margin: None or "cosine", "ratio", "distance"; a margin chooses among the k nearest rows by
            cosine.
        k: neighbours of the margin, at most the rows of the smaller side.

    Raises:
        ValueError: unknown margin; k < 1.
    """
    if checked_margin(margin) == "cosine":
        return nearest_rows(x, y, 1)[1][:, 0]
    k = _possible(k, x, y)
    # The margin chooses among the nearest by cosine.
    cosines, candidates = nearest_rows(x, y, k)
    mean_x = cosines.mean(axis=1)
    mean_y = nearest_rows(y, x, k)[0].mean(axis=1)
    smaller = min(len(x), len(y))
    scores = margin_of(cosines, mean_x[:, None], mean_y[candidates], margin, smaller=smaller)
    return candidates[np.arange(len(x)), scores.argmax(axis=1)]


def ratio_margins(x: np.ndarray, y: np.ndarray, k: int = 4) -> np.ndarray:
    """(n,) the ratio margin of each pair x[i], y[i]; neighbours come from all rows of the other
    side.

    Args:
        x, y: (n, d) of `unit_vectors`.
        k: as in `best_rows`.
    """
    k = _possible(k, x, y)
    # as `nearest_rows` rounds
    cosines = np.einsum("nd,nd->n", x, y).astype(np.float32).astype(np.float64)
    mean_x = nearest_rows(x, y, k)[0].mean(axis=1)
    mean_y = nearest_rows(y, x, k)[0].mean(axis=1)
    return margin_of(cosines, mean_x, mean_y, smaller=len(x))


def _possible(k: int, x: np.ndarray, y: np.ndarray) -> int:
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    return min(k, len(x), len(y))
