"""Pair every language with five high-resource pivot languages, verse by verse (OS A.8).

A pivot language has many sources; each verse needs one of them. With a scorer, it is the text with the highest mean
score against the other pivot texts of the verse; without, the best source that has the verse. Dev and test always use
the best source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from tqdm.auto import tqdm

from hf_echo.data.schema import COLUMNS

from .editions import Edition, VerseNumbers
from .verses import SPLITS

# (texts, texts, languages, languages) -> a score for each pair, higher is better, as everywhere in hf_echo.data
Scorer = Callable[[list[str], list[str], list[str], list[str]], Sequence[float]]
BLOCK = 4096


def choose(
    editions: Sequence[Edition],
    pivots: Sequence[str],
    numbers: VerseNumbers,
    scorer: Scorer | None = None,
    *,
    progress: bool = True,
) -> dict[str, np.ndarray]:
    """Choose the source of each verse in each pivot language.

    Returns:
        language -> (verses,) indices in ``editions``; -1 if no source of the language has the verse.
    """
    rank = {e: i for i, e in enumerate(editions)}
    order = sorted((e for e in editions if e.lang in pivots), key=lambda e: (-e.best, -e.merit, e.name))
    has = np.stack([_verses(e, numbers) for e in order]) if order else np.zeros((0, len(numbers.names)), bool)
    best_only = numbers.split(np.arange(len(numbers.names))) != SPLITS.index("train")
    for i, edition in enumerate(order):
        if not edition.best:
            has[i] &= ~best_only
    langs = np.array([e.lang for e in order])
    if scorer is None or not order:
        score = np.zeros(has.shape)
    else:
        score = _mean_scores(order, langs, has, scorer, progress)
    score[~has] = -np.inf
    places = np.array([rank[e] for e in order])
    chosen = {}
    for lang in pivots:
        rows = np.flatnonzero(langs == lang)
        chosen[lang] = np.full(len(numbers.names), -1)
        if len(rows):
            winner = rows[np.argmax(score[rows], axis=0)]  # the first of equals, so the better source
            chosen[lang] = np.where(has[rows].any(axis=0), places[winner], -1)
    return chosen


def _mean_scores(
    order: Sequence[Edition], langs: np.ndarray, has: np.ndarray, scorer: Scorer, progress: bool
) -> np.ndarray:
    """(sources, verses) mean score of a text against all others of its verse.

    Computed only where a language has a choice; other texts are compared with, but get no score.
    """
    contested = np.zeros_like(has)
    for lang in np.unique(langs):
        rows = langs == lang
        contested[rows] = has[rows] & (has[rows].sum(axis=0) > 1)
    total, count = np.zeros(has.shape), np.zeros(has.shape)
    pairs = []
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            both = np.flatnonzero(has[i] & has[j] & (contested[i] | contested[j]))
            pairs += [(i, j, both[k : k + BLOCK]) for k in range(0, len(both), BLOCK)]
    for i, j, verses in tqdm(pairs, desc="pivot scores", disable=not progress):
        a, b = order[i], order[j]
        n = len(verses)
        scores = np.asarray(scorer(a.at(verses), b.at(verses), [a.lang] * n, [b.lang] * n), float)
        if scores.shape != (n,):
            raise ValueError(
                f"the scorer returned shape {scores.shape} for {n} pairs; it must return one number per pair"
            )
        for row in (i, j):
            total[row, verses] += scores
            count[row, verses] += 1
    return total / np.maximum(count, 1)


def _verses(edition: Edition, numbers: VerseNumbers) -> np.ndarray:
    mask = np.zeros(len(numbers.names), bool)
    mask[edition.kept_verses()] = True
    return mask


def pair_tables(
    editions: Sequence[Edition], chosen: dict[str, np.ndarray], numbers: VerseNumbers, progress: bool = True
) -> Iterator[tuple[str, pa.Table]]:
    """Yield (split, rows of the parallel schema): every source with every pivot of another language."""
    texts = {lang: _pivot_texts(editions, where) for lang, where in chosen.items()}
    for edition in tqdm(editions, desc="pairs", disable=not progress):
        rows = np.flatnonzero(edition.keep)
        split = numbers.split(edition.verse[rows])
        for lang, (place, pivot) in texts.items():
            if lang == edition.lang:
                continue
            for number, name in enumerate(SPLITS):
                if name != "train" and not edition.best:
                    continue
                these = rows[(split == number) & (place[edition.verse[rows]] >= 0)]
                if not len(these):
                    continue
                n = len(these)
                columns = [
                    edition.texts.take(pa.array(these)),
                    pa.repeat(pa.scalar(edition.lang), n),
                    pivot.take(pa.array(place[edition.verse[these]])),
                    pa.repeat(pa.scalar(lang), n),
                    pa.repeat(pa.scalar("primary"), n),
                ]
                yield name, pa.table(columns, names=COLUMNS)


def _pivot_texts(editions: Sequence[Edition], where: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """(verses,) indices in an array of the chosen texts, and that array."""
    place, texts = np.full(len(where), -1), []
    for source in np.unique(where[where >= 0]):
        verses = np.flatnonzero(where == source)
        place[verses] = np.arange(len(texts), len(texts) + len(verses))
        texts += editions[source].at(verses)
    return place, pa.array(texts, pa.large_string())
