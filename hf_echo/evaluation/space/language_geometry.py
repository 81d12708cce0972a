"""Geometry between the languages of a space: EMMA-X B.2 (invariance, Calinski-Harabasz), Modular Sentence Encoders
4.3 (RSIM, language bias).

Contract: (lang, array) pairs in, rows with the same index are translations, a result dataclass out. Means over pairs
of languages are computed from sums over languages: time is linear in the number of languages, memory constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...utils.results import Result
from .language_arrays import Parts, read_parts, readable_twice

SHRINKAGE = 0.01
MAX_ROWS = 4096


@dataclass(frozen=True, eq=False)
class InvarianceResult(Result):
    """`invariance` in nats, 0 is best; `by_language`: mean over a language's pairs; `shrinkage` as given."""

    invariance: float
    by_language: dict[str, float]
    shrinkage: float


def invariance(parts: Parts, *, shrinkage: float = SHRINKAGE) -> InvarianceResult:
    """Mean over all pairs of languages of (KL(a||b) + KL(b||a)) / 2 between their Gaussians (EMMA-X Eq. 1).

    The printed sigma^2 is a sum without 1/n. We divide by n (the covariance); as printed, the part of the KL from the
    means would be n times too small. The sum over l1 != l2 counts each pair twice, and so does L (L - 1): the result
    is the mean over pairs.

    Languages with the same distribution do not get 0, because sample covariances differ. Without shrinkage n
    independent rows give d (d + 3) / (2 (n - d - 2)), which is 266 for d = 1024 and the paper's 3001 rows.

    Args:
        shrinkage: s in (1 - s) C + s (trace C / d) I, which makes a covariance of n <= d rows invertible. The value
            depends on s, n and d: compare only where they are equal. Rotating, shifting or scaling the whole space
            does not change it.

    Raises:
        ValueError: shrinkage outside 0..1; fewer than two languages; a language with identical rows, or with a
            singular covariance (then give shrinkage).
    """
    if not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage is {shrinkage}; it must be from 0 to 1")
    readable_twice(parts)
    origin = names = None
    for lang, rows in read_parts(parts):
        if origin is None:
            origin, size, names = rows.mean(axis=0), rows.shape[1], []
            covariances, precisions, squares = (np.zeros((size, size)) for _ in range(3))
            means, weighted, constant = np.zeros(size), np.zeros(size), 0.0
        mean, covariance, precision = _gaussian(rows - origin, lang, shrinkage)
        names.append(lang)
        covariances += covariance
        precisions += precision
        squares += np.outer(mean, mean)
        means += mean
        weighted += precision @ mean
        constant += mean @ precision @ mean
    _at_least_two(names)
    count, by_language = len(names), {}
    for lang, rows in read_parts(parts):
        mean, covariance, precision = _gaussian(rows - origin, lang, shrinkage)
        traces = (precision * (covariances - covariance)).sum() + (covariance * (precisions - precision)).sum()
        # sums over other languages k of (mean_k - mean)' P (mean_k - mean), with P of this language, then of k
        own = (precision * squares).sum() - 2 * mean @ precision @ means + count * mean @ precision @ mean
        other = constant - 2 * mean @ weighted + mean @ precisions @ mean
        # the log determinants of the two directions cancel
        by_language[lang] = float(max((traces + own + other) / (count - 1) - 2 * size, 0.0) / 4)
    return InvarianceResult(sum(by_language.values()) / count, by_language, shrinkage)


def _gaussian(rows: np.ndarray, lang: str, shrinkage: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, covariance, its inverse)"""
    mean = rows.mean(axis=0)
    rows = rows - mean
    covariance = rows.T @ rows / len(rows)
    level = np.trace(covariance) / len(mean)
    if level <= np.finfo(float).eps * (mean @ mean):
        raise ValueError(f"all {len(rows)} rows of {lang!r} are the same: leave this language out")
    if shrinkage == 0 and len(rows) <= len(mean):
        raise ValueError(
            f"{lang!r} has {len(rows)} rows in {len(mean)} dimensions, so its covariance has no inverse: give "
            "shrinkage above 0"
        )
    covariance = (1 - shrinkage) * covariance + shrinkage * level * np.eye(len(mean))
    try:
        return mean, covariance, np.linalg.inv(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(f"the covariance of {lang!r} has no inverse: give shrinkage above 0") from None


def _at_least_two(names: list[str]) -> None:
    if len(names) < 2:
        raise ValueError(f"only one language ({names[0]!r}): give at least two")


@dataclass(frozen=True, eq=False)
class CalinskiHarabaszResult(Result):
    """`index` as Calinski and Harabasz (and scikit-learn) define it, higher is better."""

    index: float
    meanings: int
    languages: int


def calinski_harabasz(parts: Parts) -> CalinskiHarabaszResult:
    """Calinski-Harabasz index with one cluster per meaning: how close translations are (EMMA-X Eq. 2).

    The printed formula sums the distances within a cluster over "s in S", the whole data set; it must be the cluster's
    own sentences. It also omits the factor (n - K) / (K - 1), which is the same for all models on one set. One pass;
    memory is one (meanings, d) array: scikit-learn's function gives the same number from the joined matrix of all
    languages, with 36 times the memory for 100 languages (docs/log.md).

    Raises:
        ValueError: fewer than two languages; identical rows in all languages.
    """
    centroids = within = None
    languages = []
    for lang, rows in read_parts(parts, parallel=True):
        if centroids is None:
            centroids, within = np.zeros_like(rows), 0.0
        languages.append(lang)
        step = rows - centroids  # Welford's update, because sums of squares would cancel
        centroids += step / len(languages)
        within += float((step * (rows - centroids)).sum())
    _at_least_two(languages)
    count, size = len(centroids), len(languages)
    if within == 0:
        raise ValueError(f"the rows of all {size} languages are the same: the index is infinite; check the encoder")
    between = size * float(((centroids - centroids.mean(axis=0)) ** 2).sum())
    return CalinskiHarabaszResult(between / within * (count * size - count) / (count - 1), count, size)


@dataclass(frozen=True, eq=False)
class RsimResult(Result):
    """`rsim`: mean Pearson correlation over language pairs, 1 is best; `by_language`: mean over a language's pairs;
    `rows`: number of rows compared."""

    rsim: float
    by_language: dict[str, float]
    rows: int


def rsim(parts: Parts, *, max_rows: int = MAX_ROWS) -> RsimResult:
    """Relational similarity (RSIM): mean over language pairs of the Pearson correlation of their sentences' cosines.

    From Modular Sentence Encoders 4.3 and Vulic et al. 2020. Two passes over (n, n) matrices. Beyond `max_rows`,
    evenly spaced rows are used, the same in all languages.

    Raises:
        ValueError: fewer than two languages or three rows; a language whose cosines are all equal.
    """
    if max_rows < 3:
        raise ValueError(f"max_rows is {max_rows}; it must be at least 3")
    readable_twice(parts)
    total, names, by_language = 0.0, [], {}
    for lang, rows in read_parts(parts, unit=True, parallel=True, min_rows=3):
        total = total + _standard_cosines(rows, lang, max_rows)
        names.append(lang)
    _at_least_two(names)
    for lang, rows in read_parts(parts, unit=True, parallel=True, min_rows=3):
        cosines = _standard_cosines(rows, lang, max_rows)
        by_language[lang] = float((np.vdot(cosines, total) - 1) / (len(names) - 1))  # 1: the language with itself
    return RsimResult(sum(by_language.values()) / len(names), by_language, len(total))


def _standard_cosines(rows: np.ndarray, lang: str, max_rows: int) -> np.ndarray:
    """(n, n) cosines with mean 0 and norm 1 over i != j, diagonal 0; their dot product is a Pearson correlation."""
    if len(rows) > max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, max_rows).round().astype(int)]
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0)
    cosines -= cosines.sum() / (len(rows) * (len(rows) - 1))
    np.fill_diagonal(cosines, 0)
    norm = np.linalg.norm(cosines)
    if norm < 1e-12 * len(rows):
        raise ValueError(f"all sentences of {lang!r} are equally similar: their correlation is not defined")
    return cosines / norm


@dataclass(frozen=True, eq=False)
class LanguageBiasResult(Result):
    """Spearman x 100: `bilingual`, the mean over language pairs; `multilingual`, of all pairs' sentences in one list;
    `bias`, their difference, 0 is best; `by_pair`, the value of each pair."""

    bias: float
    bilingual: float
    multilingual: float
    by_pair: dict[str, float]


def language_bias(scores: Mapping[str, tuple[Any, Any]]) -> LanguageBiasResult:
    """Language bias: correlation lost when similarities of different language pairs are ranked in one list.

    Source: Modular Sentence Encoders 4.3.

    Args:
        scores: language pair ("deu_Latn-fra_Latn") -> the model's similarities and the human ratings, (n,) each. The
            paper uses multi-parallel sets (STSB, SICK), so that all pairs have the same sentences.

    Raises:
        ValueError: fewer than two pairs; different lengths, NaN, or constant values in a pair.
    """
    from scipy.stats import spearmanr

    if len(scores) < 2:
        raise ValueError(f"{len(scores)} language pairs: give at least two")
    checked = {pair: _ratings(pair, *sides) for pair, sides in scores.items()}
    by_pair = {pair: 100 * float(spearmanr(*sides).statistic) for pair, sides in checked.items()}
    joined = [np.concatenate(side) for side in zip(*checked.values(), strict=True)]
    bilingual = sum(by_pair.values()) / len(by_pair)
    multilingual = 100 * float(spearmanr(*joined).statistic)
    return LanguageBiasResult(bilingual - multilingual, bilingual, multilingual, by_pair)


def _ratings(pair: str, similarities: Any, gold: Any) -> list[np.ndarray]:
    sides = [np.asarray(side, dtype=np.float64).ravel() for side in (similarities, gold)]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"{pair!r} has {len(sides[0])} similarities and {len(sides[1])} ratings")
    for name, side in zip(("similarities", "ratings"), sides, strict=True):
        if not np.isfinite(side).all() or np.unique(side).size < 2:
            raise ValueError(f"the {len(side)} {name} of {pair!r} must be numbers, not all the same")
    return sides
