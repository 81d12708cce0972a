"""xsim++: xsim with hard negatives of every target sentence in the pool
(Chen et al. 2023; OS 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...search.checks import as_array, has_direction
from ...search.margin import best_matches, checked_margin
from ...utils.results import Result
from .xsim import check_pairs, pairs_with_direction, same_group

RESERVED_KINDS = ("other", "other_negative")


@dataclass(frozen=True, eq=False)
class XsimppResult(Result):
    """`error_rate` in percent of `count` sentences; `pool`: number of translations and negatives
    searched.

    `errors_by_kind` sums to `errors`: KIND, a hard negative of the own translation was chosen;
    "other", another sentence's translation; "other_negative", another sentence's hard negative.
    `predictions` (count,): row of the pool; below `count` a translation, else negative number
    `prediction - count`.
    """

    error_rate: float
    errors: int
    count: int
    pool: int
    errors_by_kind: dict[str, int]
    predictions: np.ndarray
    margin: str
    k: int


def xsimpp(
    x: Any,
    y: Any,
    negatives: Any,
    negative_owner: Any,
    *,
    negative_kind: Sequence[str] | None = None,
    margin: str | None = "cosine",
    k: int = 4,
    gold: Any = None,
) -> XsimppResult:
    """Percentage of rows x[i] whose best scoring row, of all y and ALL negatives, is not y[i].

    Args:
        x, y: (n, d); x[i] translates y[i].
        negatives: (M, d), M >= 1: embeddings of sentences similar to a row of y that do not
            translate its x.
        negative_owner: (M,) int, the row of y that each negative was made from.
        negative_kind: (M,) names; default "negative" for all.
        margin, k: as in `xsim`; the neighbours of the margin come from the whole pool.
        gold: (n,) groups of y as in `xsim`; the negatives of a group belong to each of its
            sentences.

    Raises:
        ValueError: as `xsim`; owners that are no rows of y, or not one for each negative.
    """
    margin = checked_margin(margin)
    check_pairs(x, y)
    count = y.shape[0]
    total = negatives.shape[0]
    if isinstance(negative_owner, torch.Tensor):
        negative_owner = negative_owner.cpu()
    owner = np.asarray(negative_owner)
    kinds = np.full(total, "negative", dtype=object)
    if negative_kind is not None:
        kinds = np.asarray(list(negative_kind), dtype=object)
    if owner.shape != (total,) or not np.isin(owner, np.arange(count)).all():
        raise ValueError(f"negative_owner must be {total} rows of y, from 0 to {count - 1}")
    predictions = _predictions(x, y, negatives, margin, k)
    kept = predictions >= 0
    is_negative = predictions >= count
    # The row of y behind each prediction: the translation itself, or the sentence that the negative
    # was made from.
    sentences = np.concatenate([np.arange(count), owner])[predictions]
    is_right_sentence = same_group(sentences, gold, count)
    wrong = kept & (is_negative | ~is_right_sentence)
    # The kind of each error: of a negative of the right sentence its own, else one of two others.
    pool_kinds = np.concatenate([np.full(count, "other", dtype=object), kinds])
    kinds_of_others = np.where(is_negative, "other_negative", "other")
    labels = np.where(is_right_sentence, pool_kinds[predictions], kinds_of_others)
    number_of = Counter(labels[wrong].tolist())
    errors_by_kind = {kind: number_of[kind] for kind in [*sorted(set(kinds)), *RESERVED_KINDS]}
    errors = int(wrong.sum())
    compared = int(kept.sum())
    return XsimppResult(
        error_rate=100.0 * errors / compared,
        errors=errors,
        count=compared,
        pool=count + total,
        errors_by_kind=errors_by_kind,
        predictions=predictions,
        margin=margin,
        k=k,
    )


def _predictions(x: Any, y: Any, negatives: Any, margin: str, k: int) -> np.ndarray:
    """(n,) rows of the pool; -1 for pairs of which an embedding is zero, which are not in the pool,
    either."""
    kept = pairs_with_direction(x, y)
    has_negative = has_direction(negatives, "negatives")
    if kept.all() and has_negative.all():
        return best_matches(x, stack(y, negatives), margin, k)
    # Rows without a direction leave the search; predictions stay numbers of the whole pool.
    rows = np.flatnonzero(kept)
    negatives_kept = np.flatnonzero(has_negative)
    pool_rows = np.concatenate([rows, y.shape[0] + negatives_kept])
    predictions = np.full(len(kept), -1)
    pool = stack(y[rows], negatives[negatives_kept])
    predictions[rows] = pool_rows[best_matches(x[rows], pool, margin, k)]
    return predictions


def stack(a: Any, b: Any) -> Any:
    """Concatenate the rows of a and b: both sparse, or both numbers."""
    if hasattr(a, "tocsr"):
        from scipy.sparse import vstack

        return vstack([a, b], format="csr")
    return np.concatenate([as_array(a, "y"), as_array(b, "negatives")])
