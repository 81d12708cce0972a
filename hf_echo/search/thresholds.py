"""Score mined pairs against a gold list, and find the best threshold (BUCC shared task).

Pairs are (source, target) of any hashable names. Figures are in percent.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from ..utils.results import Result
from .mining import MinedPairs

Pair = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class PairScore(Result):
    """`precision`, `recall` and `f1` in percent; `found` pairs, `right` of them, of `gold`; `threshold` if any."""

    f1: float
    precision: float
    recall: float
    found: int
    right: int
    gold: int
    threshold: float | None = None


def bucc_f1(found: Iterable[Pair], gold: Iterable[Pair]) -> PairScore:
    """F1 of a set of pairs as in BUCC: a pair is right if it is in gold.

    Raises ValueError if gold is empty.
    """
    found, gold = set(found), _gold(gold)
    return _score(len(found), len(found & gold), len(gold))


def best_threshold(mined: MinedPairs, gold: Iterable[tuple[int, int]]) -> PairScore:
    """The threshold with the highest F1 on a development set: the mean of two neighbouring scores.

    Of equal F1 the higher threshold is taken. `mined` must be without a threshold of its own; `MinedPairs.above`
    applies the one found. Raises ValueError if no pair was mined.
    """
    gold = _gold(gold)
    if not len(mined.scores):
        raise ValueError("no mined pairs to choose a threshold from")
    right = np.cumsum([pair in gold for pair in mined.pairs()])
    found = np.arange(1, len(right) + 1)
    last = np.append(mined.scores[1:] < mined.scores[:-1], True)  # a cut cannot part equal scores
    f1 = np.where(last, 2 * right / (found + len(gold)), -1.0)
    at = int(f1.argmax())
    after = mined.scores[at + 1] if at + 1 < len(right) else mined.scores[at]
    threshold = float((mined.scores[at] + after) / 2)
    return _score(at + 1, int(right[at]), len(gold), threshold)


def _gold(gold: Iterable[Pair]) -> set[Pair]:
    gold = {tuple(pair) for pair in gold}
    if not gold:
        raise ValueError("gold is empty: without right pairs there is no F1")
    return gold


def _score(found: int, right: int, gold: int, threshold: float | None = None) -> PairScore:
    precision = 100 * right / found if found else 0.0
    return PairScore(200 * right / (found + gold), precision, 100 * right / gold, found, right, gold, threshold)
