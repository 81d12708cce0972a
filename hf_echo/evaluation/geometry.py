"""Geometry of an embedding space: spread, rank, isotropy (ECHO C.7, C.8; EMMA-X B.2), and how its
languages relate (EMMA-X B.2: invariance, Calinski-Harabasz; Modular Sentence Encoders 4.3: RSIM).

All is computed in memory, in float64: 200 languages of 1,000 sentences in 1,024 dimensions need
about 5 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import calinski_harabasz_score

from ..inference.embedding_files import encoded
from ..inference.encoders import Encode
from ..search.checks import as_array, refuse_broken
from ..utils.results import Result, Table
from .nway_texts import texts_by_language

Parts = Iterable[tuple[str, Any]] | Mapping[str, Any]
SHRINKAGE = 0.01
MAX_ROWS = 2048


@dataclass(frozen=True, eq=False)
class GeometryResult(Result):
    """All geometry measures of a model, one row.

    Fields are explained at `feature_spread`, `effective_rank`, `principal_ratio`, `invariance`,
    `calinski_harabasz` and `rsim`; the last three are None for one language. Arrays are not in the
    row: `singular_values` of all rows, and by language the mean over its pairs.
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
        """Table of lang, invariance, rsim: each language's mean over its pairs.
        Empty for one language."""
        rows = []
        for lang, kl, correlation in zip(
            self.language_names, self.language_invariance, self.language_rsim, strict=False
        ):
            rows.append({"lang": lang, "invariance": float(kl), "rsim": float(correlation)})
        return Table(rows)


def evaluate_geometry(parts: Parts) -> GeometryResult:
    """Measure the geometry of an embedding space on one n-way set.

    Raises:
        ValueError: other numbers of rows or dimensions in a language, NaN, infinity, zero rows; a
            language with identical rows.
    """
    names, space = read_space(parts)
    languages, count, dimensions = space.shape

    # How the languages relate needs more than one.
    divergences = np.array([])
    correlations = np.array([])
    means: dict[str, float | None] = dict.fromkeys(("invariance", "calinski_harabasz", "rsim"))
    if languages > 1:
        divergences = invariance(parts)
        correlations = rsim(parts)
        means["invariance"] = float(divergences.mean())
        means["calinski_harabasz"] = calinski_harabasz(parts)
        means["rsim"] = float(correlations.mean())

    # How the sentences of all languages fill the space.
    rows = space.reshape(-1, dimensions)
    values = singular_values(rows)
    centred_values = singular_values(rows - rows.mean(axis=0))
    return GeometryResult(
        languages=languages,
        rows=count,
        dimensions=dimensions,
        **feature_spread(rows),
        effective_rank=effective_rank(values),
        centred_effective_rank=effective_rank(centred_values),
        isotropy=principal_ratio(rows),
        **means,
        shrinkage=SHRINKAGE,
        singular_values=values,
        language_names=np.array(names, dtype=object),
        language_invariance=divergences,
        language_rsim=correlations,
    )


def read_space(parts: Parts) -> tuple[list[str], np.ndarray]:
    """(languages, (languages, n, d) float64); raises ValueError as `evaluate_geometry`."""
    arrays = {lang: _language_rows(lang, array) for lang, array in dict(parts).items()}
    return list(arrays), np.stack(list(arrays.values()))


def _language_rows(lang: str, array: Any) -> np.ndarray:
    """(n, d) float64; raises ValueError for rows whose geometry is not defined,
    as of a model that has collapsed."""
    rows = as_array(array, repr(lang)).astype(np.float64)
    refuse_broken(rows, lambda row: f"{lang!r} row {row}")
    # Equal rows may differ by rounding.
    widest = np.ptp(rows, axis=0).max()
    if widest <= np.finfo(float).eps * np.abs(rows).max():
        raise ValueError(f"all {len(rows)} rows of {lang!r} are the same: leave this language out")
    return rows


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def feature_spread(rows: np.ndarray) -> dict[str, float]:
    """How far the features (n, d) are from collapse (ECHO C.7, Table 15).

    `mean`, `std`: over all numbers of the unscaled rows, as in the table. Its std cannot show
    collapse for vectors of length 1: it is sqrt(1/d - mean^2) for any such vectors. SONAR's 0.0074
    only shows that its vectors are short. `feature_std`: std of each feature over the rows scaled
    to length 1, averaged over features. `spread`: this times sqrt(d), from 0 (all rows the same) to
    1 (the widest possible in d dimensions).
    """
    feature_std = float(unit(rows).std(axis=0).mean())
    return {
        "mean": float(rows.mean()),
        "std": float(rows.std()),
        "feature_std": feature_std,
        "spread": feature_std * rows.shape[1] ** 0.5,
    }


def singular_values(rows: np.ndarray) -> np.ndarray:
    """(min(n, d),) singular values of (n, d), largest first (ECHO C.8);
    below 1e-8 of it they are rounding error."""
    # The eigenvalues of the small d x d matrix are the squares; they come in rising order.
    squares = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    squares = squares[: len(rows)]
    return np.sqrt(np.maximum(squares, 0))


def effective_rank(singular_values: np.ndarray) -> float:
    """exp(entropy) of the singular values as shares of their sum (Roy and Vetterli 2007),
    from 1 to their number."""
    shares = singular_values[singular_values > 0] / singular_values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def principal_ratio(rows: np.ndarray) -> float:
    """Isotropy: min Z(v) / max Z(v), Z(v) = sum over rows e of exp(v.e), v the eigenvectors of E^T
    E (EMMA-X Eq. 3).

    From 0 to 1; 1 is isotropic. Rows (n, d) are scaled to length 1: as printed, short vectors look
    isotropic. The paper says "eigenvectors of E", which is not square (Mu and Viswanath 2018). Z(v)
    differs from Z(-v) and the sign of an eigenvector is arbitrary, so both are used.
    """
    rows = unit(rows)
    # Columns are eigenvectors of the d x d matrix E^T E, each with both signs.
    _, eigenvectors = np.linalg.eigh(rows.T @ rows)
    products = rows @ np.concatenate([eigenvectors, -eigenvectors], axis=1)  # (n, 2 d)
    z = np.exp(products).sum(axis=0)
    return float(z.min() / z.max())


def invariance(parts: Parts, *, shrinkage: float = SHRINKAGE) -> np.ndarray:
    """(languages,) mean over a language's pairs of (KL(a||b) + KL(b||a)) / 2 between Gaussians, in
    nats; 0 is best.

    EMMA-X Eq. 1 is the mean of these. The printed sigma^2 is a sum without 1/n. We divide by n (the
    covariance); as printed, the part of the KL from the means would be n times too small. Languages
    with the same distribution do not get 0, because sample covariances differ: without shrinkage n
    independent rows give d (d + 3) / (2 (n - d - 2)), which is 266 for d = 1024 and the paper's
    3001 rows.

    Args:
        shrinkage: s in (1 - s) C + s (trace C / d) I, which makes a covariance of n <= d rows
            invertible. The value depends on s, n and d: compare only where they are equal.
            Rotating, shifting or scaling the whole space does not change it.

    Raises:
        ValueError: as `evaluate_geometry`; shrinkage 0 with a covariance that has no inverse.
    """
    _, space = read_space(parts)
    languages, rows, size = space.shape
    if shrinkage == 0 and rows <= size:
        raise ValueError(
            f"{rows} rows in {size} dimensions: their covariance has no inverse; give shrinkage above 0"
        )

    # One Gaussian a language: means (languages, d), covariances C and precisions P
    # (languages, d, d).
    means = space.mean(axis=1)
    centred = space - means[:, None]
    covariances = centred.transpose(0, 2, 1) @ centred / rows
    mean_variances = np.trace(covariances, axis1=1, axis2=2) / size
    targets = mean_variances[:, None, None] * np.eye(size)
    covariances = (1 - shrinkage) * covariances + shrinkage * targets
    precisions = np.linalg.inv(covariances)

    # Entry (a, b): tr(P_a C_b) - d + (m_b - m_a) P_a (m_b - m_a). The log determinants of two
    # directions cancel.
    divergence = precisions.reshape(languages, -1) @ covariances.reshape(languages, -1).T - size
    for a, precision in enumerate(precisions):
        gaps = means - means[a]
        divergence[a] += ((gaps @ precision) * gaps).sum(axis=1)
    symmetric = (divergence + divergence.T) / 4
    return np.maximum(symmetric.sum(axis=1), 0) / (languages - 1)


def calinski_harabasz(parts: Parts) -> float:
    """Calinski-Harabasz index with one cluster per meaning, as scikit-learn's: how close
    translations are (Eq. 2).

    Higher is better. EMMA-X prints the distances within a cluster as a sum over "s in S", the whole
    data set; it must be the cluster's own sentences. It also omits the factor (n - K) / (K - 1),
    the same for all models on one set.

    Raises:
        ValueError: as `evaluate_geometry`.
    """
    _, space = read_space(parts)
    languages, count, dimensions = space.shape
    meanings = np.tile(np.arange(count), languages)
    return float(calinski_harabasz_score(space.reshape(-1, dimensions), meanings))


def rsim(parts: Parts) -> np.ndarray:
    """(languages,) mean over a language's pairs of the Pearson correlation of both languages'
    cosines; 1 is best.

    Relational similarity of Modular Sentence Encoders 4.3 and Vulic et al. 2020, which is the mean
    of these. Beyond `MAX_ROWS`, evenly spaced rows are used, the same in all languages.

    Raises:
        ValueError: as `evaluate_geometry`.
    """
    names, space = read_space(parts)
    count = space.shape[1]
    chosen = np.linspace(0, count - 1, min(count, MAX_ROWS)).round()
    chosen = chosen.astype(int)
    upper = np.triu_indices(len(chosen), 1)
    # Of each language, one number for two sentences.
    cosines = [(rows @ rows.T)[upper] for rows in unit(space[:, chosen])]
    with_itself = 1
    return (np.corrcoef(cosines).sum(axis=1) - with_itself) / (len(names) - 1)


def encode_parallel(
    encode: Encode, rows: Iterable[Mapping[str, Any]], languages: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """{language: (n, d) float32} of an n-way table (columns id, lang, text); row i has the same id
    in all.

    Only ids that every language has are encoded, in the order of the first.

    Raises:
        ValueError: a language without rows; fewer than 3 ids in common; an encoder that loses rows.
    """
    texts = texts_by_language(rows)
    if languages is not None:
        for lang in languages:
            if lang not in texts:
                raise ValueError(f"no rows in {lang!r}: found {', '.join(texts)}")
        texts = {lang: texts[lang] for lang in languages}

    # The ids that every language has, in the order of the first.
    first, *others = texts.values()
    common = set(first).intersection(*others)
    ids = [key for key in first if key in common]
    if len(ids) < 3:
        smallest = min(texts, key=lambda lang: len(texts[lang]))
        advice = f"{smallest!r} has only {len(texts[smallest])}: leave it out"
        raise ValueError(
            f"{len(texts)} languages have {len(ids)} ids in common, fewer than 3; {advice}"
        )
    arrays = {}
    for lang, text_of in texts.items():
        arrays[lang] = encoded(encode, [text_of[key] for key in ids], lang)
    return arrays
