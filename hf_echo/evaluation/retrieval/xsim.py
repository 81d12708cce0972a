"""xsim: the error rate of finding each sentence's translation among all of them (OS 6.1; LASER).

Contract: embeddings in, an XsimResult out. Which model made them, and in which languages, is not known here.

Scores (a is the cosine of x_i and y_j, m the mean cosine of a row with its k nearest neighbours on the other
side, b = (m(x_i) + m(y_j)) / 2; Artetxe and Schwenk 2019):
    margin None        a            the paper's own (OS 6.1), top 1 of all
    margin "ratio"     a / b        LASER's default, MEXMA's
    margin "distance"  a - b
With a margin only the k nearest y of x_i are candidates, as in LASER's xsim.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...search.margin import best_matches
from ..results import Result


@dataclass(frozen=True, eq=False)
class XsimResult(Result):
    """`error_rate` in percent, `errors` of `count` sentences; `predictions` (count,): the row of y chosen."""

    error_rate: float
    errors: int
    count: int
    predictions: np.ndarray
    margin: str | None
    k: int


def xsim(x: Any, y: Any, *, margin: str | None = None, k: int = 4, gold: Any = None) -> XsimResult:
    """Error rate of picking for each x[i] the best scoring row of y; y[i] is right.

    Args:
        x: (n, d) embeddings of the sentences; numpy, torch or scipy sparse, any real dtype, any scale.
        y: (n, d) embeddings of their translations: x[i] translates y[i].
        margin: None, "ratio" or "distance".
        k: neighbours in the margin; fewer where there are fewer rows. Ignored without a margin.
        gold: (n,) group of each row of y (`text_groups` of the texts): a pick of the same group is right, so
            that two copies of one sentence are not an error. Default: only y[i] itself, as the papers do.

    Equal scores go to the lowest index (`neighbours`). Rows without entries of a sparse matrix have cosine 0
    with everything.

    Raises:
        ValueError: x and y differ in rows or dimensions; empty; a NaN, infinite or zero row; unknown margin;
            k < 1; gold's length.
    """
    check_pairs(x, y)
    predictions = best_matches(x, y, margin, k)
    right = same_group(predictions, gold, len(predictions))
    errors = int((~right).sum())
    return XsimResult(100.0 * errors / len(predictions), errors, len(predictions), predictions, margin, k)


def text_groups(texts: Sequence[str]) -> np.ndarray:
    """(n,) int64: equal texts get equal numbers. For `gold`."""
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
    """(n,) bool: the predicted row of y is x's own or of its group."""
    own = np.arange(count)
    if gold is None:
        return predictions == own
    gold = np.asarray(gold)
    if gold.shape != (count,):
        raise ValueError(f"gold has shape {gold.shape}, must be ({count},): one group for each row of y")
    return gold[predictions] == gold
