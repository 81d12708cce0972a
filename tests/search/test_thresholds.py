from __future__ import annotations

import numpy as np
import pytest

from hf_echo.search import MinedPairs, best_threshold, bucc_f1


def mined(*triples) -> MinedPairs:
    return MinedPairs(*(np.array(part) for part in zip(*triples, strict=True)))


def test_bucc_f1_by_hand():
    """Three found, two of them right, four to find: precision 2/3, recall 2/4, F1 4/7."""
    gold = [("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-3"), ("fr-4", "en-4")]
    score = bucc_f1([("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-4"), ("fr-1", "en-1")], gold)
    assert (score.found, score.right, score.gold) == (3, 2, 4)
    assert score.precision == pytest.approx(200 / 3)
    assert score.recall == pytest.approx(50)
    assert score.f1 == pytest.approx(400 / 7)
    assert bucc_f1([], gold).f1 == 0.0
    assert bucc_f1(gold, gold).to_row()["f1"] == 100.0
    with pytest.raises(ValueError, match="gold is empty"):
        bucc_f1(gold, [])


def test_best_threshold_by_hand():
    """After 1 pair F1 = 2/(1+3), after 2 4/5, after 3 4/6, after 4 6/7, after 5 6/8."""
    found = mined((1.5, 0, 0), (1.4, 1, 1), (1.2, 2, 9), (1.1, 3, 3), (0.9, 4, 8))
    score = best_threshold(found, {(0, 0), (1, 1), (3, 3)})
    assert score.threshold == pytest.approx(1.0)
    assert score.f1 == pytest.approx(600 / 7)
    assert (score.found, score.right) == (4, 3)
    assert found.above(score.threshold).pairs() == [(0, 0), (1, 1), (2, 9), (3, 3)]


def test_the_best_of_all_cuts_on_random_scores():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=80).round(1))[::-1]
    found = MinedPairs(scores, np.arange(80), np.arange(80))
    gold = [(i, i) for i in range(80) if rng.random() < 1 / (1 + i / 20)] + [(200, 200)]
    score = best_threshold(found, gold)
    every = [bucc_f1(found.above(cut).pairs(), gold).f1 for cut in set(scores)]
    assert score.f1 == pytest.approx(max(every))
    assert bucc_f1(found.above(score.threshold).pairs(), gold).f1 == pytest.approx(score.f1)
