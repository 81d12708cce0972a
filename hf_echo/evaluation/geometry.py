"""Geometry of an embedding space: spread, rank, isotropy (ECHO C.7, C.8; EMMA-X B.2), and how its languages relate
(EMMA-X B.2: invariance, Calinski-Harabasz; Modular Sentence Encoders 4.3: RSIM).

All is computed in memory, in float64: 200 languages of 1,000 sentences in 1,024 dimensions need about 5 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import calinski_harabasz_score

from ..inference.embedding_files import encoded
from ..inference.encoders import Encode
from ..search.checks import as_array
from ..utils.results import Result, Table
from .nway_texts import texts_by_language

Parts = Iterable[tuple[str, Any]] | Mapping[str, Any]
SHRINKAGE = 0.01
MAX_ROWS = 2048


@dataclass(frozen=True, eq=False)
class GeometryResult(Result):
    """All geometry measures of a model, one row.

    Fields are explained at `feature_spread`, `effective_rank`, `principal_ratio`, `invariance`, `calinski_harabasz`
    and `rsim`; the last three are None for one language. Arrays are not in the row: `singular_values` of all rows, and
    by language the mean over its pairs.
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


def evaluate_geometry(parts: Parts, *, shrinkage: float = SHRINKAGE) -> GeometryResult:
    """Measure the geometry of an embedding space on one n-way set; `shrinkage` as in `invariance`.

    Raises:
        ValueError: fewer than 3 rows, other numbers of rows or dimensions in a language, NaN, infinity, zero rows; a
            language with identical rows.
    """
    names, space = read_space(parts)
    many = len(names) > 1
    divergences = invariance(parts, shrinkage=shrinkage) if many else None
    correlations = rsim(parts) if many else None
    rows = space.reshape(-1, space.shape[2])
    values, centred = singular_values(rows), singular_values(rows - rows.mean(axis=0))
    return GeometryResult(
        languages=len(names),
        rows=space.shape[1],
        dimensions=space.shape[2],
        **feature_spread(rows),
        effective_rank=effective_rank(values),
        centred_effective_rank=effective_rank(centred),
        isotropy=principal_ratio(rows),
        invariance=float(divergences.mean()) if many else None,
        calinski_harabasz=calinski_harabasz(parts) if many else None,
        rsim=float(correlations.mean()) if many else None,
        shrinkage=shrinkage,
        singular_values=values,
        language_names=np.array(names, dtype=object),
        language_invariance=divergences if many else np.array([]),
        language_rsim=correlations if many else np.array([]),
    )


def read_space(parts: Parts, fewest: int = 1) -> tuple[list[str], np.ndarray]:
    """(languages, (languages, n, d) float64); raises ValueError as `evaluate_geometry`, and for fewer than `fewest`."""
    arrays: dict[str, np.ndarray] = {}
    for lang, array in parts.items() if isinstance(parts, Mapping) else parts:
        if hasattr(array, "tocsr"):
            raise ValueError(f"{lang!r} has sparse embeddings: geometry needs dense arrays")
        rows = as_array(array, repr(lang)).astype(np.float64)
        if lang in arrays:
            raise ValueError(f"{lang!r} comes twice: put its rows into one array")
        if rows.ndim != 2 or len(rows) < 3 or not rows.shape[1]:
            raise ValueError(f"{lang!r} has shape {rows.shape}; it must be (at least 3 rows, dimensions)")
        for problem, bad in (("NaN or infinity", ~np.isfinite(rows).all(1)), ("only zeros", ~rows.any(1))):
            if bad.any():
                raise ValueError(f"{lang!r} row {bad.argmax()} has {problem} ({bad.sum()} such rows)")
        if np.ptp(rows, axis=0).max() <= np.finfo(float).eps * np.abs(rows).max():
            raise ValueError(f"all {len(rows)} rows of {lang!r} are the same: leave this language out")
        first, other = next(iter(arrays.items()), (lang, rows))
        if rows.shape != other.shape:
            raise ValueError(f"{lang!r} has shape {rows.shape} and {first!r} {other.shape}: row i is sentence i in all")
        arrays[lang] = rows
    if len(arrays) < fewest:
        raise ValueError(f"{len(arrays)} languages ({', '.join(arrays) or 'none'}): give at least {fewest}")
    return list(arrays), np.stack(list(arrays.values()))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def feature_spread(rows: np.ndarray) -> dict[str, float]:
    """How far the features (n, d) are from collapse (ECHO C.7, Table 15).

    `mean`, `std`: over all numbers of the unscaled rows, as in the table. Its std cannot show collapse for vectors of
    length 1: it is sqrt(1/d - mean^2) for any such vectors. SONAR's 0.0074 only shows that its vectors are short.
    `feature_std`: std of each feature over the rows scaled to length 1, averaged over features. `spread`: this times
    sqrt(d), from 0 (all rows the same) to 1 (the widest possible in d dimensions).
    """
    feature_std = float(unit(rows).std(axis=0).mean())
    spread = feature_std * rows.shape[1] ** 0.5
    return {"mean": float(rows.mean()), "std": float(rows.std()), "feature_std": feature_std, "spread": spread}


def singular_values(rows: np.ndarray) -> np.ndarray:
    """(min(n, d),) singular values of (n, d), largest first (ECHO C.8); below 1e-8 of it they are rounding error."""
    squares = np.linalg.eigvalsh(rows.T @ rows)[::-1][: len(rows)]
    return np.sqrt(np.maximum(squares, 0))


def effective_rank(singular_values: np.ndarray) -> float:
    """exp(entropy) of the singular values as shares of their sum (Roy and Vetterli 2007), from 1 to their number."""
    shares = singular_values[singular_values > 0] / singular_values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def principal_ratio(rows: np.ndarray) -> float:
    """Isotropy: min Z(v) / max Z(v), Z(v) = sum over rows e of exp(v.e), v the eigenvectors of E^T E (EMMA-X Eq. 3).

    From 0 to 1; 1 is isotropic. Rows (n, d) are scaled to length 1: as printed, short vectors look isotropic. The paper
    says "eigenvectors of E", which is not square (Mu and Viswanath 2018). Z(v) differs from Z(-v) and the sign of an
    eigenvector is arbitrary, so both are used.
    """
    rows = unit(rows)
    products = rows @ np.linalg.eigh(rows.T @ rows)[1]
    z = np.concatenate([np.exp(products).sum(axis=0), np.exp(-products).sum(axis=0)])
    return float(z.min() / z.max())


def invariance(parts: Parts, *, shrinkage: float = SHRINKAGE) -> np.ndarray:
    """(languages,) mean over a language's pairs of (KL(a||b) + KL(b||a)) / 2 between Gaussians, in nats; 0 is best.

    EMMA-X Eq. 1 is the mean of these. The printed sigma^2 is a sum without 1/n. We divide by n (the covariance); as
    printed, the part of the KL from the means would be n times too small. Languages with the same distribution do not
    get 0, because sample covariances differ: without shrinkage n independent rows give d (d + 3) / (2 (n - d - 2)),
    which is 266 for d = 1024 and the paper's 3001 rows.

    Args:
        shrinkage: s in (1 - s) C + s (trace C / d) I, which makes a covariance of n <= d rows invertible. The value
            depends on s, n and d: compare only where they are equal. Rotating, shifting or scaling the whole space
            does not change it.

    Raises:
        ValueError: as `evaluate_geometry`; shrinkage outside 0..1, or 0 with a covariance that has no inverse.
    """
    if not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage is {shrinkage}; it must be from 0 to 1")
    names, space = read_space(parts, fewest=2)
    count, rows, size = space.shape
    if shrinkage == 0 and rows <= size:
        raise ValueError(f"{rows} rows in {size} dimensions: their covariance has no inverse; give shrinkage above 0")
    means = space.mean(axis=1)
    covariances = np.stack([np.cov(part.T, bias=True).reshape(size, size) for part in space])
    level = np.trace(covariances, axis1=1, axis2=2)[:, None, None] / size
    covariances = (1 - shrinkage) * covariances + shrinkage * level * np.eye(size)
    precisions = np.linalg.inv(covariances)
    divergence = precisions.reshape(count, -1) @ covariances.reshape(count, -1).T - size  # tr(P_a C_b) - d
    for a in range(count):
        gaps = means - means[a]
        divergence[a] += ((gaps @ precisions[a]) * gaps).sum(axis=1)
    symmetric = (divergence + divergence.T) / 4  # the log determinants of the two directions cancel
    return np.maximum(symmetric.sum(axis=1), 0) / (count - 1)


def calinski_harabasz(parts: Parts) -> float:
    """Calinski-Harabasz index with one cluster per meaning, as scikit-learn's: how close translations are (Eq. 2).

    Higher is better. EMMA-X prints the distances within a cluster as a sum over "s in S", the whole data set; it must
    be the cluster's own sentences. It also omits the factor (n - K) / (K - 1), the same for all models on one set.

    Raises:
        ValueError: as `evaluate_geometry`; fewer than two languages; identical rows in all languages.
    """
    names, space = read_space(parts, fewest=2)
    if (space == space[0]).all():
        raise ValueError(f"the rows of all {len(names)} languages are the same: the index is infinite")
    meanings = np.tile(np.arange(space.shape[1]), len(names))
    return float(calinski_harabasz_score(space.reshape(-1, space.shape[2]), meanings))


def rsim(parts: Parts, *, max_rows: int = MAX_ROWS) -> np.ndarray:
    """(languages,) mean over a language's pairs of the Pearson correlation of both languages' cosines; 1 is best.

    Relational similarity of Modular Sentence Encoders 4.3 and Vulic et al. 2020, which is the mean of these. Beyond
    `max_rows`, evenly spaced rows are used, the same in all languages.

    Raises:
        ValueError: as `evaluate_geometry`; fewer than two languages; a language whose cosines are all equal.
    """
    names, space = read_space(parts, fewest=2)
    chosen = np.linspace(0, space.shape[1] - 1, min(space.shape[1], max_rows)).round().astype(int)
    upper = np.triu_indices(len(chosen), 1)
    cosines = np.stack([(rows @ rows.T)[upper] for rows in unit(space[:, chosen])])
    for lang, spread in zip(names, cosines.std(axis=1), strict=True):
        if spread < 1e-12:
            raise ValueError(f"all sentences of {lang!r} are equally similar: their correlation is not defined")
    return (np.corrcoef(cosines).sum(axis=1) - 1) / (len(names) - 1)  # 1: the language with itself


def encode_parallel(
    encode: Encode, rows: Iterable[Mapping[str, Any]], languages: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """{language: (n, d) float32} of an n-way table (columns id, lang, text); row i has the same id in all.

    Only ids that every language has are encoded, in the order of the first.

    Raises:
        ValueError: a language without rows; fewer than 3 ids in common; an encoder that loses rows.
    """
    texts = texts_by_language(rows)
    wanted = list(texts) if languages is None else list(languages)
    missing = [lang for lang in wanted if lang not in texts]
    if missing or not wanted:
        raise ValueError(f"no rows in {missing[0] if missing else 'any language'!r}: found {', '.join(texts)}")
    ids = [key for key in texts[wanted[0]] if all(key in texts[lang] for lang in wanted)]
    if len(ids) < 3:
        least = min(wanted, key=lambda lang: len(texts[lang]))
        own = f"{least!r} has only {len(texts[least])}: leave it out"
        raise ValueError(f"{len(wanted)} languages have {len(ids)} ids in common, fewer than 3; {own}")
    return {lang: encoded(encode, [texts[lang][key] for key in ids], lang) for lang in wanted}
