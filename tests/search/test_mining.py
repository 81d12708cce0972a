"""Mined pairs against the definition, pair by pair; margins where neighbours are few;
pairs against a gold list."""

from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch

from hf_echo.search import MinedPairs, Neighbours, best_threshold, bucc_f1, margin_scores, mine
from hf_echo.search.margin import best_by_margin
from hf_echo.search.mining import Retrieval

from ..formulas import unit


def collections(n: int = 60, m: int = 75, common: int = 40, d: int = 12):
    """x and y share `common` meanings in different orders; the rest of each has no partner.
    Also the gold pairs."""
    rng = np.random.default_rng(0)
    meanings = rng.normal(size=(common, d))
    sources = rng.permutation(n)[:common]
    targets = rng.permutation(m)[:common]
    x = rng.normal(size=(n, d))
    y = rng.normal(size=(m, d))
    x[sources] = meanings + 0.2 * rng.normal(size=meanings.shape)
    y[targets] = meanings + 0.2 * rng.normal(size=meanings.shape)
    x *= rng.uniform(0.1, 9, (n, 1))
    return x, y, set(zip(sources.tolist(), targets.tolist(), strict=True))


def margin_score(cosine: float, mean: float, margin: str | None) -> float:
    """Equations 2 and 3 of Artetxe and Schwenk 2019; the cosine itself without a margin."""
    if margin == "ratio":
        return cosine / mean
    if margin == "distance":
        return cosine - mean
    return cosine


def brute_force(x, y, k: int, margin: str | None, retrieval: str) -> list[tuple[float, int, int]]:
    """(score, i, j) of Artetxe and Schwenk 2019, written out pair by pair."""
    cosine = unit(x) @ unit(y).T
    near_targets = np.argsort(-cosine, axis=1)[:, :k].tolist()
    near_sources = np.argsort(-cosine.T, axis=1)[:, :k].tolist()
    score = {}
    for i, j in np.ndindex(cosine.shape):
        mean_of_source = cosine[i, near_targets[i]].mean()
        mean_of_target = cosine[near_sources[j], j].mean()
        score[i, j] = margin_score(cosine[i, j], (mean_of_source + mean_of_target) / 2, margin)

    # the best of the neighbours, each way
    forward = set()
    for i, neighbours in enumerate(near_targets):
        forward.add(max(product([i], neighbours), key=score.get))
    backward = set()
    for j, neighbours in enumerate(near_sources):
        backward.add(max(product(neighbours, [j]), key=score.get))
    candidates = {
        "forward": forward,
        "backward": backward,
        "intersection": forward & backward,
        "max": forward | backward,
    }

    best_first = sorted(((score[pair], *pair) for pair in candidates[retrieval]), reverse=True)
    if retrieval != "max":
        return best_first
    return each_row_once(best_first)


def each_row_once(best_first: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Take pairs from the best on, if neither side is taken."""
    used_sources = set()
    used_targets = set()
    pairs = []
    for score, i, j in best_first:
        if i not in used_sources and j not in used_targets:
            used_sources.add(i)
            used_targets.add(j)
            pairs.append((score, i, j))
    return pairs


def nearest(cosine: np.ndarray, k: int | None) -> Neighbours:
    """The k nearest of each row with these cosines, all without k."""
    order = np.argsort(-cosine, axis=1)[:, :k]
    return Neighbours(np.take_along_axis(cosine, order, axis=1), order)


def both_ways(cosine: np.ndarray, k: int | None = None) -> tuple[Neighbours, Neighbours]:
    return nearest(cosine, k), nearest(cosine.T, k)


def neighbours_of(rows: int, cosine: float) -> Neighbours:
    """Every row has the first row of the other side as its one neighbour."""
    return Neighbours(np.full((rows, 1), cosine), np.zeros((rows, 1), int))


@pytest.mark.parametrize("retrieval", get_args(Retrieval))
@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine", None])
@pytest.mark.parametrize("k", [2, 4])
def test_equals_the_definition(retrieval, margin, k):
    x, y, _ = collections()

    pairs = mine(x, y, k=k, margin=margin, retrieval=retrieval)

    # All scores in a double loop, sorted.
    expected = brute_force(x, y, k, margin, retrieval)
    assert pairs.pairs() == [(i, j) for _, i, j in expected]
    np.testing.assert_allclose(pairs.scores, [score for score, _, _ in expected], atol=1e-5)


@pytest.mark.parametrize(
    "rows, other_rows, floor",
    [(2, 150, 1 / 2), (99, 150, 0.3), (100, 150, 0.05), (150, 2, 1 / 2), (150, 99, 0.3)],
)
def test_the_floor_is_that_of_the_smaller_side(rows, other_rows, floor):
    """Neighbours of 0.2 one way and -0.2 the other, so that the mean is 0:
    only the floor divides."""
    forward = neighbours_of(rows, 0.2)
    backward = neighbours_of(other_rows, -0.2)

    scores = margin_scores(forward, backward, "ratio")

    np.testing.assert_allclose(scores, 1 + 0.2 / floor)


def test_a_neighbour_that_an_index_missed_is_never_chosen():
    """faiss gives -1 for it, here with the better cosine."""
    forward = Neighbours(np.array([[-0.2, 0.0]]), np.array([[3, -1]]))

    _, best_targets = best_by_margin(forward, neighbours_of(4, 0.0), "distance")

    assert best_targets.tolist() == [3]


def test_a_stranger_does_not_win_by_negative_means():
    """Three lines a side: without a floor the pair of cosine 0.77 has 2.70 and a stranger 3.16."""
    cosine = np.array([[0.77, -0.2, 0.1], [-0.1, 0.12, -0.25], [-0.3, -0.15, -0.05]])

    scores = margin_scores(*both_ways(cosine), "ratio")

    assert scores.argmax() == 0


@pytest.mark.parametrize("rows", [3, 5, 150])
@pytest.mark.parametrize("shift", [-0.4, -0.1, 0.0, 0.4])
def test_the_ratio_is_lasers_wherever_the_mean_reaches_the_floor(rows, shift):
    rng = np.random.default_rng(0)
    cosine = (rng.uniform(-0.5, 0.5, (rows, rows)) + shift).astype(np.float32)
    forward, backward = both_ways(cosine, k=4)

    scores = margin_scores(forward, backward, "ratio")

    # LASER: the cosine over the mean of both sides' means
    cosines = forward.scores.astype(float)
    source_means = cosines.mean(axis=1, keepdims=True)
    target_means = backward.scores.mean(axis=1, dtype=float)[forward.indices]
    means = (source_means + target_means) / 2
    reaches_floor = means > max(0.3, 1 / rows)
    np.testing.assert_allclose(scores[reaches_floor], (cosines / means)[reaches_floor])
    np.testing.assert_array_equal(scores > 1, cosines > means)
    assert np.abs(scores).max() < 40


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_the_ratio_rises_with_the_cosine_whatever_the_neighbours_are(rows):
    """One cosine rises, all others stay: it is itself a part of the means."""
    rng = np.random.default_rng(0)
    for cosine in rng.uniform(-0.9, 0.6, (50, rows, rows)):
        scores = []
        for cosine[0, 0] in np.linspace(0.6, 1, 9):
            first_scores = margin_scores(*both_ways(cosine), "ratio")[0]
            scores.append(first_scores[0])
        assert (np.diff(scores) > 0).all()


@pytest.mark.parametrize("rows", [4, 5, 6, 7, 8])
def test_one_true_pair_among_strangers_is_first(rows):
    """As small files are: all cosines but one are near 0, so their means are near 0 or negative."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(size=(rows, 64))
        y = rng.normal(size=(rows, 64))
        y[0] = x[0] + 0.8 * rng.normal(size=64)

        assert mine(x, y).pairs()[0] == (0, 0)


def test_tensors_of_bfloat16_are_mined():
    x, y, gold = collections(d=48)

    pairs = mine(torch.tensor(x).bfloat16(), torch.tensor(y).bfloat16())

    assert gold <= set(pairs.pairs())


def test_a_threshold_cuts():
    """At the score of the last true pair the gold list is left."""
    x, y, gold = collections(d=48)
    threshold = float(mine(x, y).scores[len(gold) - 1])

    pairs = mine(x, y, threshold=threshold)

    assert set(pairs.pairs()) == gold


def test_no_pair_may_reach_the_threshold():
    x, y, _ = collections(d=48)
    assert len(mine(x, y, threshold=99.0).scores) == 0


def test_equal_scores_across_blocks_go_to_the_lowest_row():
    identity = np.eye(4)
    x = identity[[0, 1]]
    y = identity[[2, 0, 3, 0, 1, 0]]

    pairs = mine(x, y, k=1, retrieval="forward", block=1)

    assert pairs.pairs() == [(0, 1), (1, 4)]


def test_a_side_may_be_smaller_than_k():
    identity = np.eye(3)

    pairs = mine(identity, identity[[2, 0]], k=4)

    assert pairs.pairs() == [(0, 1), (2, 0)]


@pytest.fixture(scope="module")
def hundreds():
    return collections(400, 500, 300, d=24)


def test_a_flat_index_equals_the_exact_search(hundreds):
    x, y, _ = hundreds

    flat = mine(x, y, index="Flat", block=90)

    # The search without an index.
    exact = mine(x, y)
    assert flat.pairs() == exact.pairs()
    np.testing.assert_allclose(flat.scores, exact.scores, atol=1e-5)


def test_inverted_lists_that_are_all_probed_equal_the_exact_search(hundreds):
    x, y, _ = hundreds

    probed = mine(x, y, index="IVF8,Flat;nprobe=8")

    exact = mine(x, y)
    assert set(probed.pairs()) == set(exact.pairs())


def test_inverted_lists_of_which_one_is_probed_come_near(hundreds):
    x, y, gold = hundreds

    pairs = mine(x, y, index="IVF8,Flat", retrieval="intersection")

    assert len(gold.intersection(pairs.pairs())) > 0.5 * len(gold)


@pytest.mark.parametrize(
    "x, y, message",
    [
        (np.eye(3), np.eye(4), "x has 3 dimensions and y 4"),
        (np.eye(3), [np.eye(3), [[0, 0, np.inf]]], "y, row 3: a NaN, infinite or zero"),
        (np.eye(3), [], r"y must be a \(rows, dimensions\) matrix"),
        ([np.eye(3), np.eye(2)], np.eye(3), r"parts of x differ in dimensions: \[2, 3\]"),
    ],
)
def test_bad_embeddings_are_refused_in_one_line(x, y, message):
    with pytest.raises(ValueError, match=message):
        mine(x, y)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"margin": "absolute"}, "margin is 'absolute'"),
        ({"index": "Nonsense"}, "index 'Nonsense' is refused by faiss: .*could not"),
        ({"index": "IVF2,Flat;probes=2"}, "is refused by faiss: .*could not"),
        ({"index": "IVF2,Flat;nprobe=0"}, "nprobe must be at least 1"),
        ({"index": "IVF2,PQ2"}, "index 'IVF2,PQ2' is refused by faiss"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as error:
        mine(np.eye(3), np.eye(3), **options)
    assert ".cpp" not in str(error.value)  # faiss names its source


# Against a gold list

GOLD = [("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-3"), ("fr-4", "en-4")]


def test_bucc_f1_by_hand():
    """Three pairs, two of them right, four in the gold list: precision 2/3, recall 2/4, F1 4/7."""
    pairs = [*GOLD[:2], ("fr-3", "en-4"), GOLD[0]]  # the first pair twice

    score = bucc_f1(pairs, GOLD)

    assert (score.found, score.right, score.gold) == (3, 2, 4)
    assert (score.precision, score.recall, score.f1) == pytest.approx((200 / 3, 50, 400 / 7))


def test_bucc_f1_is_zero_without_pairs():
    assert bucc_f1([], GOLD).f1 == 0.0


def test_an_empty_gold_list_is_refused():
    with pytest.raises(ValueError, match="gold is empty"):
        bucc_f1(GOLD, [])


def test_best_threshold_by_hand():
    """After 1 pair F1 = 2/(1+3), after 2 4/5, after 3 4/6, after 4 6/7, after 5 6/8."""
    pairs = MinedPairs(np.array([1.5, 1.4, 1.2, 1.1, 0.9]), np.arange(5), np.array([0, 1, 9, 3, 8]))

    score = best_threshold(pairs, {(0, 0), (1, 1), (3, 3)})

    assert (score.threshold, score.f1) == pytest.approx((1.0, 600 / 7))
    assert (score.found, score.right) == (4, 3)


def test_the_threshold_is_the_best_of_all_cuts_on_random_scores():
    """Many scores are equal, and one gold pair is not among the mined ones."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=80).round(1))[::-1]
    pairs = MinedPairs(scores, np.arange(80), np.arange(80))
    is_gold = rng.random(80) < 1 / (1 + np.arange(80) / 20)
    gold = [(200, 200), *((row, row) for row in np.flatnonzero(is_gold))]

    score = best_threshold(pairs, gold)

    f1_of_cuts = []
    for cut in set(scores):
        f1_of_cuts.append(bucc_f1(pairs.above(cut).pairs(), gold).f1)
    assert score.f1 == pytest.approx(max(f1_of_cuts))
    assert bucc_f1(pairs.above(score.threshold).pairs(), gold).f1 == pytest.approx(score.f1)
