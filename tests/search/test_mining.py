"""Mined pairs against the definition, pair by pair; margins where neighbours are few; pairs against a gold list."""

from typing import get_args

import numpy as np
import pytest
import torch

from hf_echo.search import MinedPairs, Neighbours, best_threshold, bucc_f1, margin_scores, mine
from hf_echo.search.margin import best_by_margin
from hf_echo.search.mining import Retrieval


def collections(n: int = 60, m: int = 75, common: int = 40, d: int = 12, seed: int = 0):
    """x and y share `common` meanings in different orders; the rest of each has no partner. Also the gold pairs."""
    rng = np.random.default_rng(seed)
    meanings = rng.normal(size=(common, d))
    sources = rng.permutation(n)[:common]
    targets = rng.permutation(m)[:common]
    x = rng.normal(size=(n, d))
    y = rng.normal(size=(m, d))
    x[sources] = meanings + 0.2 * rng.normal(size=meanings.shape)
    y[targets] = meanings + 0.2 * rng.normal(size=meanings.shape)
    x *= rng.uniform(0.1, 9, (n, 1))
    return x, y, set(zip(sources.tolist(), targets.tolist(), strict=True))


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def brute_force(x, y, k: int, margin: str | None, retrieval: str) -> list[tuple[float, int, int]]:
    """(score, i, j) of Artetxe and Schwenk 2019, written out pair by pair."""
    cosine = unit(x) @ unit(y).T
    near_targets = np.argsort(-cosine, axis=1)[:, :k].tolist()
    near_sources = np.argsort(-cosine.T, axis=1)[:, :k].tolist()

    def score(i, j):
        mean = (cosine[i, near_targets[i]].mean() + cosine[near_sources[j], j].mean()) / 2
        if margin == "ratio":
            return cosine[i, j] / mean
        return cosine[i, j] - mean if margin == "distance" else cosine[i, j]

    forward = set()
    for i in range(len(x)):
        forward.add((i, max(near_targets[i], key=lambda j: score(i, j))))
    backward = set()
    for j in range(len(y)):
        backward.add((max(near_sources[j], key=lambda i: score(i, j)), j))
    candidates = {
        "forward": forward,
        "backward": backward,
        "intersection": forward & backward,
        "max": forward | backward,
    }[retrieval]
    ranked = sorted(((score(i, j), i, j) for i, j in candidates), reverse=True)
    if retrieval != "max":
        return ranked
    kept = []
    for value, i, j in ranked:
        if all(i != used_i and j != used_j for _, used_i, used_j in kept):
            kept.append((value, i, j))
    return kept


def both_ways(cosine: np.ndarray, k: int | None = None) -> tuple[Neighbours, Neighbours]:
    """The k nearest (all without k) of rows with these cosines, forward and backward."""
    order = np.argsort(-cosine, 1)[:, :k]
    order_back = np.argsort(-cosine.T, 1)[:, :k]
    forward = Neighbours(np.take_along_axis(cosine, order, 1), order)
    return forward, Neighbours(np.take_along_axis(cosine.T, order_back, 1), order_back)


def neighbours_of(rows: int, cosine: float) -> Neighbours:
    """Every row has the first row of the other side as its one neighbour."""
    return Neighbours(np.full((rows, 1), cosine), np.zeros((rows, 1), int))


@pytest.mark.parametrize("retrieval", get_args(Retrieval))
@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine", None])
@pytest.mark.parametrize("k", [2, 4])
def test_equals_the_definition(retrieval, margin, k):
    x, y, _ = collections()

    pairs = mine(x, y, k=k, margin=margin, retrieval=retrieval)

    expected = brute_force(x, y, k, margin, retrieval)
    assert pairs.pairs() == [(i, j) for _, i, j in expected]
    np.testing.assert_allclose(pairs.scores, [score for score, _, _ in expected], atol=1e-5)


@pytest.mark.parametrize(
    "rows, other_rows, floor", [(2, 150, 1 / 2), (99, 150, 0.3), (100, 150, 0.05)]
)
def test_the_floor_is_that_of_the_smaller_side(rows, other_rows, floor):
    """Neighbours of 0.2 one way and -0.2 the other, so that the mean is 0: only the floor divides."""
    from_small_side = margin_scores(
        neighbours_of(rows, 0.2), neighbours_of(other_rows, -0.2), "ratio"
    )
    from_large_side = margin_scores(
        neighbours_of(other_rows, 0.2), neighbours_of(rows, -0.2), "ratio"
    )
    np.testing.assert_allclose(from_small_side, 1 + 0.2 / floor)
    np.testing.assert_allclose(from_large_side, 1 + 0.2 / floor)


def test_a_neighbour_that_an_index_missed_is_never_chosen():
    forward = Neighbours(np.array([[-0.2, 0.0]]), np.array([[3, -1]]))
    _, rows = best_by_margin(forward, neighbours_of(4, 0.0), "distance")
    assert rows.tolist() == [3]


def test_a_stranger_does_not_win_by_negative_means():
    """Three lines a side: the pair of cosine 0.77 scored 2.70 and a stranger 3.16."""
    cosine = np.array([[0.77, -0.2, 0.1], [-0.1, 0.12, -0.25], [-0.3, -0.15, -0.05]])
    scores = margin_scores(*both_ways(cosine), "ratio")
    assert np.unravel_index(scores.argmax(), (3, 3)) == (0, 0)


@pytest.mark.parametrize("rows", [3, 5, 150])
@pytest.mark.parametrize("shift", [-0.4, -0.1, 0.0, 0.4])
def test_the_ratio_is_lasers_wherever_the_mean_reaches_the_floor(rows, shift):
    rng = np.random.default_rng(0)
    cosine = (rng.uniform(-0.5, 0.5, (rows, rows)) + shift).astype(np.float32)
    forward, backward = both_ways(cosine, 4)

    scores = margin_scores(forward, backward, "ratio")

    a = forward.scores.astype(float)
    b = (a.mean(1)[:, None] + backward.scores.mean(1, dtype=float)[forward.indices]) / 2
    reaches_floor = b > max(0.3, 1 / rows)
    np.testing.assert_allclose(scores[reaches_floor], (a / b)[reaches_floor])
    np.testing.assert_array_equal(scores > 1, a > b)
    assert np.abs(scores).max() < 40


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_the_ratio_rises_with_the_cosine_whatever_the_neighbours_are(rows):
    """One cosine rises, all others stay: it is itself a part of the means."""
    rng = np.random.default_rng(0)
    for cosine in rng.uniform(-0.9, 0.6, (50, rows, rows)):
        scores = []
        for cosine[0, 0] in np.linspace(0.6, 1, 9):
            scores.append(margin_scores(*both_ways(cosine), "ratio")[0, 0])
        assert (np.diff(scores) > 0).all()


def test_one_true_pair_among_strangers_is_first():
    """As small files are: all cosines but one are near 0, so their means are near 0 or negative."""
    rng = np.random.default_rng(0)
    for draw in range(100):
        x = rng.normal(size=(4 + draw % 5, 64))
        y = rng.normal(size=(4 + draw % 5, 64))
        y[0] = x[0] + 0.8 * rng.normal(size=64)
        assert mine(x, y).pairs()[0] == (0, 0)


def test_what_belongs_together_is_mined():
    x, y, gold = collections(d=48)
    assert gold <= set(mine(x, y).pairs())


def test_tensors_of_bfloat16_are_mined():
    x, y, gold = collections(d=48)
    pairs = mine(torch.tensor(x).bfloat16(), torch.tensor(y).bfloat16())
    assert gold <= set(pairs.pairs())


def test_a_threshold_cuts():
    x, y, gold = collections(d=48)
    threshold = float(mine(x, y).scores[len(gold) - 1])
    pairs = mine(x, y, threshold=threshold)
    assert sorted(pairs.pairs()) == sorted(gold)


def test_no_pair_may_reach_the_threshold():
    x, y, _ = collections(d=48)
    assert len(mine(x, y, threshold=99.0).scores) == 0


def test_equal_scores_across_blocks_go_to_the_lowest_row():
    x = np.eye(4)[[0, 1]]
    y = np.eye(4)[[2, 0, 3, 0, 1, 0]]
    assert mine(x, y, k=1, retrieval="forward", block=1).pairs() == [(0, 1), (1, 4)]


def test_a_side_may_be_smaller_than_k():
    assert mine(np.eye(3), np.eye(3)[[2, 0]], k=4).pairs() == [(0, 1), (2, 0)]


def test_a_flat_index_equals_the_exact_search():
    x, y, _ = collections(400, 500, 300, d=24)
    exact = mine(x, y)
    flat = mine(x, y, index="Flat", block=90)
    assert flat.pairs() == exact.pairs()
    np.testing.assert_allclose(flat.scores, exact.scores, atol=1e-5)


def test_inverted_lists_that_are_all_probed_equal_the_exact_search():
    x, y, _ = collections(400, 500, 300, d=24)
    probed = mine(x, y, index="IVF8,Flat;nprobe=8")
    assert set(probed.pairs()) == set(mine(x, y).pairs())


def test_inverted_lists_of_which_one_is_probed_come_near():
    x, y, gold = collections(400, 500, 300, d=24)
    pairs = mine(x, y, index="IVF8,Flat", retrieval="intersection")
    assert len(set(pairs.pairs()) & gold) > 0.5 * len(gold)


@pytest.mark.parametrize(
    "x, y, words",
    [
        (np.eye(3), np.eye(4), "x has 3 dimensions and y 4"),
        (
            np.eye(3),
            [np.eye(3), np.array([[1, 2, 3], [0, 0, np.inf]])],
            "y, row 4: a NaN, infinite or zero",
        ),
        (np.array([[1.0, np.nan]]), np.eye(2), "x, row 0: a NaN"),
        (np.eye(3), [], r"y must be a \(rows, dimensions\) matrix"),
        ([np.eye(3), np.eye(2)], np.eye(3), r"parts of x differ in dimensions: \[2, 3\]"),
    ],
)
def test_bad_embeddings_are_refused_in_one_line(x, y, words):
    with pytest.raises(ValueError, match=words):
        mine(x, y)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"margin": "absolute"}, "margin is 'absolute'"),
        ({"index": "Nonsense"}, "index 'Nonsense' is refused by faiss: .*could not"),
        ({"index": "IVF2,Flat;probes=2"}, "is refused by faiss: .*could not"),
        ({"index": "IVF2,Flat;nprobe=0"}, "nprobe must be at least 1"),
        ({"index": "IVF2,PQ2"}, "index 'IVF2,PQ2' is refused by faiss"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, words):
    with pytest.raises(ValueError, match=words) as error:
        mine(np.eye(3), np.eye(3), **options)
    assert ".cpp" not in str(error.value)  # faiss names its source


# Against a gold list

GOLD = [("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-3"), ("fr-4", "en-4")]


def test_bucc_f1_by_hand():
    """Three found, two of them right, four to find: precision 2/3, recall 2/4, F1 4/7."""
    score = bucc_f1([("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-4"), ("fr-1", "en-1")], GOLD)
    assert (score.found, score.right, score.gold) == (3, 2, 4)
    assert (score.precision, score.recall, score.f1) == pytest.approx((200 / 3, 50, 400 / 7))


def test_bucc_f1_is_zero_without_pairs():
    assert bucc_f1([], GOLD).f1 == 0.0


def test_bucc_f1_of_the_gold_list_is_100():
    assert bucc_f1(GOLD, GOLD).to_row()["f1"] == 100.0


def test_an_empty_gold_list_is_refused():
    with pytest.raises(ValueError, match="gold is empty"):
        bucc_f1(GOLD, [])


def test_best_threshold_by_hand():
    """After 1 pair F1 = 2/(1+3), after 2 4/5, after 3 4/6, after 4 6/7, after 5 6/8."""
    pairs = MinedPairs(np.array([1.5, 1.4, 1.2, 1.1, 0.9]), np.arange(5), np.array([0, 1, 9, 3, 8]))

    score = best_threshold(pairs, {(0, 0), (1, 1), (3, 3)})

    assert (score.threshold, score.f1) == pytest.approx((1.0, 600 / 7))
    assert (score.found, score.right) == (4, 3)
    assert pairs.above(score.threshold).pairs() == [(0, 0), (1, 1), (2, 9), (3, 3)]


def test_the_threshold_is_the_best_of_all_cuts_on_random_scores():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=80).round(1))[::-1]
    pairs = MinedPairs(scores, np.arange(80), np.arange(80))
    gold = [(200, 200)]
    for i in range(80):
        if rng.random() < 1 / (1 + i / 20):
            gold.append((i, i))

    score = best_threshold(pairs, gold)

    f1_of_cuts = [bucc_f1(pairs.above(cut).pairs(), gold).f1 for cut in set(scores)]
    assert score.f1 == pytest.approx(max(f1_of_cuts))
    assert bucc_f1(pairs.above(score.threshold).pairs(), gold).f1 == pytest.approx(score.f1)
