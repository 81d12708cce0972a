"""xsim: error rate of cross-lingual similarity search (OS 6.1; LASER), of embeddings.

With the margins ratio and distance (`search.margin`), only the k nearest y of x_i are candidates, as in LASER's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...search.margin import best_matches, checked_margin
from ...utils.results import Result


@dataclass(frozen=True, eq=False)
class XsimResult(Result):
    """`error_rate` in percent, `errors` of `count` sentences; `predictions` (count,): the chosen row of y."""

    error_rate: float
    errors: int
    count: int
    predictions: np.ndarray
    margin: str
    k: int


def xsim(x: Any, y: Any, *, margin: str | None = "cosine", k: int = 4, gold: Any = None) -> XsimResult:
    """Percentage of rows x[i] whose best scoring row of y is not y[i].

    Args:
        x: (n, d) embeddings of the sentences; numpy, torch or scipy sparse, any real dtype, any scale.
        y: (n, d) embeddings of the translations: x[i] translates y[i].
        margin: "cosine" (also None), "ratio" or "distance".
        k: neighbours in the margin, at most the number of rows. Cosines have none.
        gold: (n,) group of each row of y, such as `text_groups` of the texts; a prediction in the same group is
            correct, so that copies of a sentence are not errors. Default: only y[i] is correct.

    Equal scores go to the lowest index (`neighbours`). Empty rows of a sparse matrix have cosine 0 to every row.

    Raises:
        ValueError: x and y differ in rows or dimensions; empty input; a NaN, infinite or zero row; unknown margin;
            k < 1; wrong length of gold.
    """
    margin = checked_margin(margin)
    check_pairs(x, y)
    predictions = best_matches(x, y, margin, k)
    right = same_group(predictions, gold, len(predictions))
    errors = int((~right).sum())
    return XsimResult(100.0 * errors / len(predictions), errors, len(predictions), predictions, margin, k)


def text_groups(texts: Sequence[str]) -> np.ndarray:
    """Group numbers (n,) int64 for `gold`: equal texts get equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def check_pairs(x: Any, y: Any) -> None:
    shapes = [tuple(getattr(a, "shape", ())) for a in (x, y)]
    for name, shape in zip("xy", shapes, strict=True):
        if len(shape) != 2:
            raise ValueError(f"{name} must be a (rows, dimensions) array, got shape {shape}")
    if shapes[0][0] != shapes[1][0]:
        raise ValueError(f"x has {shapes[0][0]} rows and y has {shapes[1][0]}: x[i] must translate y[i]")


def same_group(predictions: np.ndarray, gold: Any, count: int) -> np.ndarray:
    """(n,) bool: the predicted row of y is the row's own, or is in its group."""
    own = np.arange(count)
    if gold is None:
        return predictions == own
    gold = np.asarray(gold)
    if gold.shape != (count,):
        raise ValueError(f"gold has shape {gold.shape}; it must be ({count},), one group per row of y")
    return gold[predictions] == gold
