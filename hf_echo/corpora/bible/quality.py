"""Quality of a language's sources: select the best and remove bad ones (OS A.8).

Good translations of the same verses are more similar to each other than to a bad one. A source's score is its mean
chrF++ against the other sources of its language, divided by the best such mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .editions import Edition, VerseNumbers
from .verses import SPLITS

MINIMUM = 0.75


def judge(
    editions: Sequence[Edition],
    numbers: VerseNumbers,
    *,
    sample: int | None = 500,
    minimum: float = MINIMUM,
    seed: int = 0,
    on_pair: Callable[[], object] = lambda: None,
) -> None:
    """Set chrf, quality, completeness and best of the sources of one language; remove the bad ones.

    Completeness: share of the verses that any source of the language has, averaged over train, dev and test.

    Args:
        sample: number of verses for comparing two sources, the first ones of a fixed random order that both have;
            None: all.
        minimum: sources with a lower quality lose all their verses.
    """
    for edition, score in zip(editions, mutual_chrf(editions, sample=sample, seed=seed, on_pair=on_pair)):
        edition.chrf = score
    top = max((e.chrf for e in editions if e.chrf is not None), default=0.0)
    for edition in editions:
        edition.quality = edition.chrf / top if edition.chrf is not None and top > 0 else None
        if edition.quality is not None and edition.quality < minimum:
            edition.drop(np.ones(len(edition.verse), bool), "quality")
    for edition, share in zip(editions, completeness(editions, numbers)):
        edition.completeness = share
    left = [e for e in editions if e.keep.any()]
    if left:
        min(left, key=lambda e: (-e.merit, e.name)).best = True


def mutual_chrf(
    editions: Sequence[Edition],
    *,
    sample: int | None = 500,
    seed: int = 0,
    on_pair: Callable[[], object] = lambda: None,
) -> list[float | None]:
    """Mean chrF++ (0-100) of each source against the others as references; None for a source without common verses."""
    from sacrebleu.metrics import CHRF

    chrf = CHRF(word_order=2)
    scores: list[list[float]] = [[] for _ in editions]
    kept = [e.kept_verses() for e in editions]
    last = max((int(v.max(initial=0)) for v in kept), default=0)
    order = np.random.default_rng(seed).permutation(last + 1)  # rank of each verse
    for i, first in enumerate(editions):
        for j in range(i + 1, len(editions)):
            shared = np.intersect1d(kept[i], kept[j])
            if len(shared):
                shared = shared[np.argsort(order[shared])][:sample]
                a, b = first.at(shared), editions[j].at(shared)
                scores[i].append(chrf.corpus_score(a, [b]).score)
                scores[j].append(chrf.corpus_score(b, [a]).score)
            on_pair()
    return [float(np.mean(s)) if s else None for s in scores]


def completeness(editions: Sequence[Edition], numbers: VerseNumbers) -> list[float]:
    kept = [e.kept_verses() for e in editions]
    every = np.unique(np.concatenate(kept)) if kept else np.zeros(0, np.int32)
    total = np.bincount(numbers.split(every), minlength=len(SPLITS))
    there = total > 0
    return [
        float((np.bincount(numbers.split(v), minlength=len(SPLITS))[there] / total[there]).mean())
        if there.any()
        else 0.0
        for v in kept
    ]
