"""The shape of an embedding space: does it use its dimensions, or has it collapsed (ECHO C.7, C.8; EMMA-X B.2)?

Contract: (lang, array) pairs in, a result dataclass out, float64 within. Memory is one language and a few
(d, d) matrices, however many languages there are. How languages lie to each other is measured in
`language_geometry`; `evaluate_geometry` asks both files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..results import Result, Table
from .language_arrays import Parts, read_parts, readable_twice
from .language_geometry import MAX_ROWS, SHRINKAGE, calinski_harabasz, invariance, rsim


class Moments(NamedTuple):
    """Sums over all rows after `shift` (d,) is taken off, so that squares do not cancel: count, total (d,),
    outer (d, d)."""

    shift: np.ndarray
    count: int
    total: np.ndarray
    outer: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.shift + self.total / self.count

    @property
    def scatter(self) -> np.ndarray:
        """(d, d) sum of outer products about the mean."""
        return self.outer - np.outer(self.total, self.total) / self.count

    @property
    def raw(self) -> np.ndarray:
        """(d, d) E^T E of the rows as they came."""
        return self.scatter + self.count * np.outer(self.mean, self.mean)


def moments(parts: Parts, *, unit: bool = False) -> Moments:
    """One pass: first and second moments of all rows, of length 1 where `unit`."""
    shift = total = outer = None
    count = 0
    for _, rows in read_parts(parts, unit=unit, min_rows=1):
        if shift is None:
            shift = rows.mean(axis=0)
            total, outer = np.zeros_like(shift), np.zeros((len(shift), len(shift)))
        rows = rows - shift
        count += len(rows)
        total += rows.sum(axis=0)
        outer += rows.T @ rows
    return Moments(shift, count, total, outer)


@dataclass(frozen=True, eq=False)
class SpreadResult(Result):
    """`mean`, `std` over all numbers of the rows as they come: ECHO Table 15. `feature_std`: of rows of length 1,
    the std of each feature over the rows, averaged over features. `spread`: that over 1/sqrt(d), from 0 (all rows
    the same) to 1 (as wide as a space of this size allows)."""

    mean: float
    std: float
    feature_std: float
    spread: float


def feature_spread(parts: Parts) -> SpreadResult:
    """Mean and std of the features, and how far they are from collapse (ECHO C.7, Table 15).

    The table's std cannot show collapse in models whose vectors have length 1: over all numbers it is
    sqrt(1/d - mean^2) whatever the vectors are (0.0312 for d = 1024: mE5 and MEXMA; 0.0358 for d = 768 and mean
    0.0049: LaBSE), and SONAR's 0.0074 says that its vectors are short. `spread` does show it.
    """
    readable_twice(parts)
    return _spread(moments(parts), moments(parts, unit=True))


def _spread(raw: Moments, unit: Moments) -> SpreadResult:
    size = len(raw.shift)
    mean = float(raw.mean.mean())
    deviation = np.trace(raw.scatter) + raw.count * ((raw.mean - mean) ** 2).sum()
    feature_std = float(np.sqrt(np.maximum(np.diag(unit.scatter), 0) / unit.count).mean())
    return SpreadResult(mean, float(np.sqrt(deviation / (raw.count * size))), feature_std, feature_std * size**0.5)


@dataclass(frozen=True, eq=False)
class SingularValuesResult(Result):
    """`singular_values` (min(rows, d),) of all rows as they come, largest first (ECHO Figure 6), `centred` the same
    about the mean. The effective rank is exp of the entropy of the values as shares (Roy and Vetterli 2007)."""

    singular_values: np.ndarray
    centred: np.ndarray
    effective_rank: float
    centred_effective_rank: float

    @property
    def normalised(self) -> np.ndarray:
        """The curve to plot: singular values as shares of the largest."""
        return self.singular_values / self.singular_values[0]


def singular_values(parts: Parts) -> SingularValuesResult:
    """Singular values of all languages' embeddings together (ECHO C.8).

    From the (d, d) matrix of products, so a value below about 1e-8 of the largest is rounding.
    """
    return _singular_values(moments(parts))


def _singular_values(found: Moments) -> SingularValuesResult:
    curves = []
    for products, rank in ((found.raw, found.count), (found.scatter, found.count - 1)):
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(products)[::-1], 0))
        curves.append(np.where(np.arange(len(values)) < rank, values, 0.0)[: found.count])
    return SingularValuesResult(*curves, *(effective_rank(curve) for curve in curves))


def effective_rank(singular_values: np.ndarray) -> float:
    """exp(entropy) of the singular values as shares of their sum: from 1 to their number; 0 where all are 0."""
    total = singular_values.sum()
    if total == 0:
        return 0.0
    shares = singular_values[singular_values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def principal_ratio(parts: Parts, *, unit: bool = True) -> float:
    """Isotropy: min over max of Z(v) = sum over rows e of exp(v.e), v the eigenvectors of E^T E (EMMA-X Eq. 3).

    From 0 to 1; 1 is isotropic. The paper says "eigenvectors of E" and means E^T E (Mu and Viswanath 2018), as E
    is not square. An eigenvector has no sign and Z(v) is not Z(-v), so both are taken: else the answer would
    hang on the linear algebra library.

    Args:
        unit: rows scaled to length 1. False takes them as they come, as printed: then short vectors look
            isotropic, and models of other lengths cannot be compared.
    """
    readable_twice(parts)
    return _principal_ratio(parts, moments(parts, unit=unit), unit)


def _principal_ratio(parts: Parts, found: Moments, unit: bool) -> float:
    vectors = np.linalg.eigh(found.raw)[1]
    largest, sums = np.full(2 * len(vectors), -np.inf), np.zeros(2 * len(vectors))
    for _, rows in read_parts(parts, unit=unit, min_rows=1):
        along = rows @ vectors
        for half, values in enumerate((along, -along)):  # a running logsumexp: exp of a long vector overflows
            mine = slice(half * len(vectors), (half + 1) * len(vectors))
            new = np.maximum(largest[mine], values.max(axis=0))
            sums[mine] = sums[mine] * np.exp(largest[mine] - new) + np.exp(values - new).sum(axis=0)
            largest[mine] = new
    log_z = largest + np.log(sums)
    return float(np.exp(log_z.min() - log_z.max()))


@dataclass(frozen=True, eq=False)
class GeometryResult(Result):
    """One row for a model; the fields are explained at `feature_spread`, `singular_values`, `principal_ratio`
    (unit rows), `invariance`, `calinski_harabasz`, `rsim`; the last three are None with one language. Arrays by
    language and the singular values stay out of the row."""

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
        """lang, invariance, rsim: each language against the mean of the others. Empty with one language."""
        columns = (self.language_names, self.language_invariance, self.language_rsim)
        rows = zip(*(column.tolist() for column in columns), strict=False)
        return Table([{"lang": lang, "invariance": kl, "rsim": r} for lang, kl, r in rows])


def evaluate_geometry(parts: Parts, *, shrinkage: float = SHRINKAGE, max_rows: int = MAX_ROWS) -> GeometryResult:
    """Every measure of the space on one n-way set; row i must mean the same in all languages.

    Args:
        parts: (lang, (n, d)) pairs that can be read several times.
        shrinkage: of `invariance`. max_rows: of `rsim`.

    Raises:
        ValueError: as `read_parts`; fewer than 3 rows; a language whose rows are all the same.
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
        dimensions=len(raw.shift),
        **_spread(raw, unit).to_row(),
        effective_rank=curve.effective_rank,
        centred_effective_rank=curve.centred_effective_rank,
        isotropy=_principal_ratio(parts, unit, unit=True),
        invariance=gaussians.invariance if gaussians else None,
        calinski_harabasz=calinski_harabasz(parts).index if many else None,
        rsim=isomorphism.rsim if isomorphism else None,
        shrinkage=shrinkage,
        singular_values=curve.singular_values,
        language_names=np.array(names, dtype=object),
        language_invariance=np.array(list(gaussians.by_language.values()) if gaussians else []),
        language_rsim=np.array(list(isomorphism.by_language.values()) if isomorphism else []),
    )
