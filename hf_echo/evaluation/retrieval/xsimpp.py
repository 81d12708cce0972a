"""xsim++: xsim with hard negatives of every target sentence in the pool (Chen et al. 2023; OS 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...search.checks import as_array
from ...search.margin import best_matches, checked_margin
from ...utils.results import Result
from .xsim import check_pairs, same_group

RESERVED_KINDS = ("other", "other_negative")


@dataclass(frozen=True, eq=False)
class XsimppResult(Result):
    """`error_rate` in percent of `count` sentences; `pool`: number of translations and negatives searched.

    `errors_by_kind` sums to `errors`: KIND, a hard negative of the own translation was chosen; "other", another
    sentence's translation; "other_negative", another sentence's hard negative.
    `predictions` (count,): row of the pool; below `count` a translation, else negative number `prediction - count`.
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
        negatives: (M, d), M >= 1: embeddings of sentences similar to a row of y that do not translate its x.
        negative_owner: (M,) int, the row of y that each negative was made from.
        negative_kind: (M,) names; default "negative" for all.
        margin, k: as in `xsim`; the neighbours of the margin come from the whole pool.
        gold: (n,) groups of y as in `xsim`; the negatives of a group belong to each of its sentences.

    Raises:
        ValueError: as `xsim`; no negatives; an owner outside y; a length other than M; a kind with the name
            "other" or "other_negative".
    """
    margin = checked_margin(margin)
    check_pairs(x, y)
    count, total = y.shape[0], negatives.shape[0]
    owner = np.asarray(negative_owner.cpu() if isinstance(negative_owner, torch.Tensor) else negative_owner)
    kinds = np.asarray(["negative"] * total if negative_kind is None else list(negative_kind), dtype=object)
    if total == 0:
        raise ValueError("negatives is empty: give hard negatives, or call xsim")
    if negatives.ndim != 2 or negatives.shape[1] != y.shape[1]:
        raise ValueError(f"negatives has shape {tuple(negatives.shape)}; it must be (M, {y.shape[1]}), as y")
    if owner.shape != (total,) or kinds.shape != (total,):
        raise ValueError(f"{total} negatives need as many owners and kinds, got {owner.shape} and {kinds.shape}")
    if owner.dtype.kind not in "iu" or owner.min() < 0 or owner.max() >= count:
        raise ValueError(f"negative_owner must be integers from 0 to {count - 1}, got {owner.min()} to {owner.max()}")
    if reserved := set(kinds) & set(RESERVED_KINDS):
        raise ValueError(f"negative_kind {sorted(reserved)} is reserved for errors on other sentences: rename it")

    predictions = best_matches(x, stack(y, negatives), margin, k)
    is_negative = predictions >= count
    # the prediction as a row of y: the translation itself, or the sentence that the negative was made from
    picked = np.where(is_negative, owner[np.maximum(predictions - count, 0)], predictions)
    own = same_group(picked, gold, count)
    wrong = is_negative | ~own
    labels = np.where(own, kinds[np.maximum(predictions - count, 0)], np.where(is_negative, *RESERVED_KINDS[::-1]))
    number_of = Counter(labels[wrong].tolist())
    errors = int(wrong.sum())
    return XsimppResult(
        error_rate=100.0 * errors / count,
        errors=errors,
        count=count,
        pool=count + total,
        errors_by_kind={kind: number_of[kind] for kind in [*sorted(set(kinds)), *RESERVED_KINDS]},
        predictions=predictions,
        margin=margin,
        k=k,
    )


def stack(a: Any, b: Any) -> Any:
    """Concatenate the rows of a and b: both sparse, or both numbers."""
    if hasattr(a, "tocsr"):
        from scipy.sparse import vstack

        return vstack([a, b], format="csr")
    return np.concatenate([as_array(a, "y"), as_array(b, "negatives")])
