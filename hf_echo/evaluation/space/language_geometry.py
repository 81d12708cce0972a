"""How the languages of one space lie to each other: EMMA-X B.2 (invariance, Calinski-Harabasz), Modular Sentence
Encoders 4.3 (RSIM, language bias).

Contract: (lang, array) pairs in, row i the same meaning in all, a result dataclass out. Means over all pairs of
languages are taken from sums over languages, so time is linear in their number and memory does not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..results import Result
from .language_arrays import Parts, read_parts, readable_twice

SHRINKAGE = 0.01
MAX_ROWS = 4096


@dataclass(frozen=True, eq=False)
class InvarianceResult(Result):
    """`invariance` in nats, 0 is best; `by_language`: the mean of a language's pairs; `shrinkage` as it was."""

    invariance: float
    by_language: dict[str, float]
    shrinkage: float


def invariance(parts: Parts, *, shrinkage: float = SHRINKAGE) -> InvarianceResult:
    """Mean over all pairs of languages of (KL(a||b) + KL(b||a)) / 2 between their Gaussians (EMMA-X Eq. 1).

    The printed sigma^2 is a sum without 1/n. We divide by n (the covariance); as printed, the part of the KL that
    comes from the means would be n times too small. The sum over l1 != l2 meets each pair twice, and L (L - 1)
    counts it twice: it is the plain mean.

    Languages of one and the same distribution do not get 0: a sample's covariance is not its neighbour's. Without
    shrinkage n independent rows give d (d + 3) / (2 (n - d - 2)), which is 266 for d = 1024 and the paper's 3001.

    Args:
        shrinkage: s in (1 - s) C + s (trace C / d) I, which gives a covariance of n <= d rows an inverse. The
            value hangs on s, n and d: compare only where they are equal. Rotating, shifting or scaling the
            whole space changes nothing.

    Raises:
        ValueError: shrinkage outside 0..1; fewer than two languages; a language whose rows are all the same, or
            without an inverse (then give shrinkage).
    """
    if not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage is {shrinkage}, must be from 0 to 1")
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
    count, found = len(names), {}
    for lang, rows in read_parts(parts):
        mean, covariance, precision = _gaussian(rows - origin, lang, shrinkage)
        traces = (precision * (covariances - covariance)).sum() + (covariance * (precisions - precision)).sum()
        # sums over the other languages k of (mean_k - mean)' P (mean_k - mean), P this language's, then k's
        own = (precision * squares).sum() - 2 * mean @ precision @ means + count * mean @ precision @ mean
        other = constant - 2 * mean @ weighted + mean @ precisions @ mean
        # the log determinants of the two directions cancel
        found[lang] = float(max((traces + own + other) / (count - 1) - 2 * size, 0.0) / 4)
    return InvarianceResult(sum(found.values()) / count, found, shrinkage)


def _gaussian(rows: np.ndarray, lang: str, shrinkage: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, covariance, its inverse)"""
    mean = rows.mean(axis=0)
    rows = rows - mean
    covariance = rows.T @ rows / len(rows)
    level = np.trace(covariance) / len(mean)
    if level <= np.finfo(float).eps * (mean @ mean):
        raise ValueError(f"all {len(rows)} rows of {lang!r} are the same: they have no distribution")
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
        raise ValueError(f"only {names[0]!r} is here: at least two languages are needed")


@dataclass(frozen=True, eq=False)
class CalinskiHarabaszResult(Result):
    """`index` as Calinski and Harabasz (and scikit-learn) define it, higher is better; `as_printed` without the
    degrees of freedom."""

    index: float
    as_printed: float
    meanings: int
    languages: int


def calinski_harabasz(parts: Parts) -> CalinskiHarabaszResult:
    """How much closer translations are to each other than to other meanings; a cluster is a meaning (EMMA-X Eq. 2).

    The printed formula sums the distances within over "s in S", the whole data set, for each cluster; it must be the
    cluster's own sentences. It also lacks the index's factor (n - K) / (K - 1), the same for all models on one set.
    One pass; memory is one (meanings, d) array.
    """
    centroids = within = None
    languages = []
    for lang, rows in read_parts(parts, parallel=True):
        if centroids is None:
            centroids, within = np.zeros_like(rows), 0.0
        languages.append(lang)
        step = rows - centroids  # Welford's update, as sums of squares would cancel
        centroids += step / len(languages)
        within += float((step * (rows - centroids)).sum())
    _at_least_two(languages)
    count, size = len(centroids), len(languages)
    if within == 0:
        raise ValueError(f"the rows of all {size} languages are the same: the index is infinite")
    between = size * float(((centroids - centroids.mean(axis=0)) ** 2).sum())
    return CalinskiHarabaszResult(
        between / within * (count * size - count) / (count - 1), between / within, count, size
    )


@dataclass(frozen=True, eq=False)
class RsimResult(Result):
    """`rsim`: mean Pearson over pairs of languages, 1 is best; `by_language`: the mean of a language's pairs;
    `rows` compared."""

    rsim: float
    by_language: dict[str, float]
    rows: int


def rsim(parts: Parts, *, max_rows: int = MAX_ROWS) -> RsimResult:
    """Relational similarity (Modular Sentence Encoders 4.3; Vulic et al. 2020): in each language the cosines of all
    pairs of sentences, then the Pearson correlation of two languages' cosines, averaged over pairs of languages.

    Two passes over (n, n) matrices. Beyond `max_rows` evenly spaced rows are taken, the same in all languages.

    Raises:
        ValueError: fewer than two languages, or than 3 rows; a language whose cosines are all the same.
    """
    if max_rows < 3:
        raise ValueError(f"max_rows is {max_rows}, must be at least 3")
    readable_twice(parts)
    total, names, found = 0.0, [], {}
    for lang, rows in read_parts(parts, unit=True, parallel=True, min_rows=3):
        total = total + _standard_cosines(rows, lang, max_rows)
        names.append(lang)
    _at_least_two(names)
    for lang, rows in read_parts(parts, unit=True, parallel=True, min_rows=3):
        mine = _standard_cosines(rows, lang, max_rows)
        found[lang] = float((np.vdot(mine, total) - 1) / (len(names) - 1))  # 1: with itself
    return RsimResult(sum(found.values()) / len(names), found, len(total))


def _standard_cosines(rows: np.ndarray, lang: str, max_rows: int) -> np.ndarray:
    """(n, n) cosines with mean 0 and norm 1 over all i != j, 0 on the diagonal: a dot product is a Pearson."""
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
    """Spearman x 100: `bilingual` the mean over pairs, `multilingual` of all pairs' sentences in one list, `bias`
    their difference, 0 is best; `by_pair` the parts of the mean."""

    bias: float
    bilingual: float
    multilingual: float
    by_pair: dict[str, float]


def language_bias(scores: Mapping[str, tuple[Any, Any]]) -> LanguageBiasResult:
    """What is lost when similarities of different language pairs must be comparable (Modular Sentence Encoders 4.3).

    Args:
        scores: for a pair ("deu_Latn-fra_Latn") the model's similarities and the human ratings, (n,) each. The
            paper uses multi-parallel sets (STSB, SICK), so that all pairs hold the same sentences.

    Raises:
        ValueError: fewer than two pairs; sides of other lengths, NaN, or all the same.
    """
    from scipy.stats import spearmanr

    if len(scores) < 2:
        raise ValueError(f"{len(scores)} language pairs: at least two are needed to join them")
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
        bad = np.flatnonzero(~np.isfinite(side))
        if len(bad):
            raise ValueError(f"{pair!r} row {bad[0]} of the {name} is {side[bad[0]]}")
        if len(side) < 2 or np.ptp(side) == 0:
            raise ValueError(f"the {len(side)} {name} of {pair!r} are all the same: nothing to rank")
    return sides
