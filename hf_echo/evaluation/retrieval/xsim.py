"""xsim: error rate of cross-lingual similarity search (OS 6.1; LASER), of embeddings.

With the margins ratio and distance (`search.margin`), only the k nearest y of x_i are candidates,
as in LASER's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...search.checks import as_rows, has_direction, log_zero_rows
from ...search.margin import best_matches, checked_margin
from ...utils.results import Result


@dataclass(frozen=True, eq=False)
class XsimResult(Result):
    """`error_rate` in percent, `errors` of `count` sentences; `predictions` (n,): the chosen row of
    y.

    `left_out`: pairs of which an embedding is zero. Their predictions are -1.
    """

    error_rate: float
    errors: int
    count: int
    predictions: np.ndarray
    margin: str
    k: int
    left_out: int = 0


def xsim(
    x: Any, y: Any, *, margin: str | None = "cosine", k: int = 4, gold: Any = None
) -> XsimResult:
    """Percentage of rows x[i] whose best scoring row of y is not y[i].

    Args:
        x: (n, d) embeddings of the sentences; numpy, torch or scipy sparse, any real dtype, any
            scale.
        y: (n, d) embeddings of the translations: x[i] translates y[i].
        margin: "cosine" (also None), "ratio" or "distance".
        k: neighbours in the margin, at most the number of rows. Cosines have none.
        gold: (n,) group of each row of y, such as `text_groups` of the texts; a prediction in the
            same group is correct, so that copies of a sentence are not errors. Default: only y[i]
            is correct.

    Equal scores go to the lowest index (`neighbours`). A pair with a zero row is left out and
    counted; empty rows of a sparse matrix have cosine 0 to every row.

    Raises:
        ValueError: x and y differ in rows or dimensions; empty input; a NaN or infinite row; only
            zero rows; unknown margin; k < 1; wrong length of gold.
    """
    margin = checked_margin(margin)
    x = as_rows(x, "x")
    y = as_rows(y, "y")
    check_pairs(x, y)
    kept = pairs_with_direction(x, y)
    rows = np.flatnonzero(kept)
    if kept.all():
        predictions = best_matches(x, y, margin, k)
    else:
        predictions = np.full(len(kept), -1)
        predictions[rows] = rows[best_matches(x[rows], y[rows], margin, k)]
    right = same_group(predictions, gold, len(predictions))[rows]
    errors = int((~right).sum())
    left_out = len(kept) - len(rows)
    return XsimResult(
        100.0 * errors / len(rows), errors, len(rows), predictions, margin, k, left_out
    )


def pairs_with_direction(x: Any, y: Any) -> np.ndarray:
    """(n,) whether neither row of a pair is all zero: such a text has no neighbours. A line of the
    log counts others.

    Raises:
        ValueError: no pair is left.
    """
    kept = has_direction(x, "x") & has_direction(y, "y")
    if not kept.any():
        raise ValueError(
            f"x and y: each of the {len(kept)} pairs has a zero embedding, which has no direction"
        )
    log_zero_rows("pairs", ~kept)
    return kept


def text_groups(texts: Sequence[str]) -> np.ndarray:
    """Group numbers (n,) int64 for `gold`: equal texts get equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def check_pairs(x: Any, y: Any) -> None:
    """Raise ValueError unless x and y have as many rows; `best_matches` checks the rest."""
    if x.shape[0] != y.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} rows and y has {y.shape[0]}: x[i] must translate y[i]"
        )


def same_group(predictions: np.ndarray, gold: Any, count: int) -> np.ndarray:
    """(n,) bool: the predicted row of y is the row's own, or is in its group."""
    if gold is None:
        return predictions == np.arange(count)
    gold = np.asarray(gold)
    return gold[predictions] == gold
