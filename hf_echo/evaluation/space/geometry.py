"""Geometry of an embedding space: spread, rank and isotropy show collapse (ECHO C.7, C.8; EMMA-X B.2).

Contract: (lang, array) pairs in, a result dataclass out, computed in float64. Memory is one language and a few (d, d)
matrices, for any number of languages. `language_geometry` compares languages; `evaluate_geometry` uses both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...utils.results import Result, Table
from .language_arrays import Parts, read_parts, readable_twice
from .language_geometry import MAX_ROWS, SHRINKAGE, calinski_harabasz, invariance, rsim


class Moments(NamedTuple):
    """Of all rows: their number, mean (d,), scatter (d, d) around the mean, and products E^T E (d, d)."""

    count: int
    mean: np.ndarray
    scatter: np.ndarray
    products: np.ndarray


def moments(parts: Parts, *, unit: bool = False) -> Moments:
    """Compute the moments of all rows in one pass; `unit` scales the rows to length 1 first."""
    count, shift, total, outer = 0, None, 0.0, 0.0
    for _, rows in read_parts(parts, unit=unit, min_rows=1):
        shift = rows.mean(axis=0) if shift is None else shift
        rows = rows - shift  # so that the sums of squares do not cancel
        count, total, outer = count + len(rows), total + rows.sum(axis=0), outer + rows.T @ rows
    mean, scatter = shift + total / count, outer - np.outer(total, total) / count
    return Moments(count, mean, scatter, scatter + count * np.outer(mean, mean))


@dataclass(frozen=True, eq=False)
class SpreadResult(Result):
    """Spread of the features.

    `mean`, `std`: over all numbers of the unscaled rows (ECHO Table 15). `feature_std`: std of each feature over the
    rows scaled to length 1, averaged over features. `spread`: `feature_std` * sqrt(d), from 0 (all rows the same) to
    1 (the widest possible in d dimensions).
    """

    mean: float
    std: float
    feature_std: float
    spread: float


def feature_spread(parts: Parts) -> SpreadResult:
    """Mean and std of the features, and how far they are from collapse (ECHO C.7, Table 15).

    The table's std cannot show collapse for vectors of length 1: over all numbers it is sqrt(1/d - mean^2) for any
    vectors (0.0312 for d = 1024: mE5 and MEXMA; 0.0358 for d = 768 and mean 0.0049: LaBSE). SONAR's 0.0074 only shows
    that its vectors are short. `spread` does show collapse.
    """
    readable_twice(parts)
    return _spread(moments(parts), moments(parts, unit=True))


def _spread(raw: Moments, unit: Moments) -> SpreadResult:
    size = len(raw.mean)
    mean = float(raw.mean.mean())
    deviation = np.trace(raw.scatter) + raw.count * ((raw.mean - mean) ** 2).sum()
    feature_std = float(np.sqrt(np.maximum(np.diag(unit.scatter), 0) / unit.count).mean())
    return SpreadResult(mean, float(np.sqrt(deviation / (raw.count * size))), feature_std, feature_std * size**0.5)


@dataclass(frozen=True, eq=False)
class SingularValuesResult(Result):
    """Singular values (min(rows, d),) of all unscaled rows, largest first (ECHO Figure 6).

    `centred`: the same after subtracting the mean. The effective rank is exp(entropy) of the values as shares of
    their sum (Roy and Vetterli 2007).
    """

    singular_values: np.ndarray
    centred: np.ndarray
    effective_rank: float
    centred_effective_rank: float

    @property
    def normalised(self) -> np.ndarray:
        """Singular values divided by the largest, for plots."""
        return self.singular_values / self.singular_values[0]


def singular_values(parts: Parts) -> SingularValuesResult:
    """Singular values of all languages' embeddings together (ECHO C.8).

    Computed from the (d, d) matrix of products, so values below about 1e-8 of the largest are rounding error.
    """
    return _singular_values(moments(parts))


def _singular_values(sums: Moments) -> SingularValuesResult:
    curves = []
    for products, rank in ((sums.products, sums.count), (sums.scatter, sums.count - 1)):
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(products)[::-1], 0))
        curves.append(np.where(np.arange(len(values)) < rank, values, 0.0)[: sums.count])
    return SingularValuesResult(*curves, *(effective_rank(curve) for curve in curves))


def effective_rank(singular_values: np.ndarray) -> float:
    """exp(entropy) of the singular values as shares of their sum, from 1 to their number; 0 if all are 0."""
    total = singular_values.sum()
    if total == 0:
        return 0.0
    shares = singular_values[singular_values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def principal_ratio(parts: Parts) -> float:
    """Isotropy: min Z(v) / max Z(v), Z(v) = sum over rows e of exp(v.e), v the eigenvectors of E^T E (EMMA-X Eq. 3).

    From 0 to 1; 1 is isotropic. Rows are scaled to length 1: as printed, short vectors look isotropic, and models with
    other vector lengths cannot be compared. The paper says "eigenvectors of E", which means E^T E (Mu and Viswanath
    2018), because E is not square. The sign of an eigenvector is arbitrary and Z(v) differs from Z(-v), so both signs
    are used; otherwise the result would depend on the linear algebra library.
    """
    readable_twice(parts)
    return _principal_ratio(parts, moments(parts, unit=True))


def _principal_ratio(parts: Parts, sums: Moments) -> float:
    vectors = np.linalg.eigh(sums.products)[1]
    vectors = np.hstack([vectors, -vectors])
    z = sum(np.exp(rows @ vectors).sum(axis=0) for _, rows in read_parts(parts, unit=True, min_rows=1))
    return float(z.min() / z.max())


@dataclass(frozen=True, eq=False)
class GeometryResult(Result):
    """All geometry measures of a model, one row.

    Fields are explained at `feature_spread`, `singular_values`, `principal_ratio` (unit rows), `invariance`,
    `calinski_harabasz` and `rsim`; the last three are None for one language. Arrays are not in the row.
    """

    languages: int
    rows: int
    dimensions: int
    mean: float
    std: float
    feature_std: float
    spread: float
    effective_rank: float
    centred_effective_rank: float
    isotropy: float
    invariance: float | None
    calinski_harabasz: float | None
    rsim: float | None
    shrinkage: float
    singular_values: np.ndarray
    language_names: np.ndarray
    language_invariance: np.ndarray
    language_rsim: np.ndarray

    def by_language(self) -> Table:
        """Table of lang, invariance, rsim: each language's mean over its pairs. Empty for one language."""
        columns = (self.language_names, self.language_invariance, self.language_rsim)
        rows = zip(*(column.tolist() for column in columns), strict=False)
        return Table([{"lang": lang, "invariance": kl, "rsim": r} for lang, kl, r in rows])


def evaluate_geometry(parts: Parts, *, shrinkage: float = SHRINKAGE, max_rows: int = MAX_ROWS) -> GeometryResult:
    """Measure the geometry of an embedding space on one n-way set.

    Args:
        parts: (lang, (n, d)) pairs, readable several times; rows with the same index are translations.
        shrinkage: as in `invariance`. max_rows: as in `rsim`.

    Raises:
        ValueError: as `read_parts`; fewer than 3 rows; a language with identical rows.
    """
    readable_twice(parts)
    names = [lang for lang, _ in read_parts(parts, unit=True, parallel=True, min_rows=3)]
    raw, unit = moments(parts), moments(parts, unit=True)
    curve = _singular_values(raw)
    many = len(names) > 1
    gaussians = invariance(parts, shrinkage=shrinkage) if many else None
    isomorphism = rsim(parts, max_rows=max_rows) if many else None
    return GeometryResult(
        languages=len(names),
        rows=raw.count // len(names),
        dimensions=len(raw.mean),
        **_spread(raw, unit).to_row(),
        effective_rank=curve.effective_rank,
        centred_effective_rank=curve.centred_effective_rank,
        isotropy=_principal_ratio(parts, unit),
        invariance=gaussians.invariance if gaussians else None,
        calinski_harabasz=calinski_harabasz(parts).index if many else None,
        rsim=isomorphism.rsim if isomorphism else None,
        shrinkage=shrinkage,
        singular_values=curve.singular_values,
        language_names=np.array(names, dtype=object),
        language_invariance=np.array(list(gaussians.by_language.values()) if gaussians else []),
        language_rsim=np.array(list(isomorphism.by_language.values()) if isomorphism else []),
    )
