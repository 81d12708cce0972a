import numpy as np
import pytest
import torch

from hf_echo.search import MinedPairs, Neighbours, best_threshold, bucc_f1, margin_scores, mine
from hf_echo.search.margin import best_by_margin
from hf_echo.search.mining import RETRIEVALS


def collections(n: int = 60, m: int = 75, common: int = 40, d: int = 12, seed: int = 0):
    """x and y share `common` meanings in different orders; the rest of each has no partner. Also the gold pairs."""
    rng = np.random.default_rng(seed)
    meanings = rng.normal(size=(common, d))
    own, own_back = rng.permutation(n)[:common], rng.permutation(m)[:common]
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    x[own] = meanings + 0.2 * rng.normal(size=meanings.shape)
    y[own_back] = meanings + 0.2 * rng.normal(size=meanings.shape)
    return x * rng.uniform(0.1, 9, (n, 1)), y, set(zip(own.tolist(), own_back.tolist(), strict=True))


def brute_force(x, y, k, margin, retrieval):
    """Artetxe and Schwenk 2019, written out pair by pair."""
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    cosine = x @ y.T
    near = [sorted(range(len(y)), key=lambda j: -cosine[i, j])[:k] for i in range(len(x))]
    near_back = [sorted(range(len(x)), key=lambda i: -cosine[i, j])[:k] for j in range(len(y))]

    def score(i, j):
        mean = (np.mean(cosine[i, near[i]]) + np.mean(cosine[near_back[j], j])) / 2
        return {"ratio": cosine[i, j] / mean, "distance": cosine[i, j] - mean}.get(margin, cosine[i, j])

    forward = {(i, max(near[i], key=lambda j: score(i, j))) for i in range(len(x))}
    backward = {(max(near_back[j], key=lambda i: score(i, j)), j) for j in range(len(y))}
    chosen = dict(forward=forward, backward=backward, intersection=forward & backward, max=forward | backward)
    ranked = sorted(((score(i, j), i, j) for i, j in chosen[retrieval]), reverse=True)
    if retrieval != "max":
        return ranked
    used, used_back, kept = set(), set(), []
    for value, i, j in ranked:
        if i not in used and j not in used_back:
            used.add(i)
            used_back.add(j)
            kept.append((value, i, j))
    return kept


@pytest.mark.parametrize("retrieval", RETRIEVALS)
@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine", None])
@pytest.mark.parametrize("k", [2, 4])
def test_equals_the_definition(retrieval, margin, k):
    x, y, _ = collections()
    found = mine(x, y, k=k, margin=margin, retrieval=retrieval)
    expected = brute_force(x, y, k, margin, retrieval)
    assert found.pairs() == [(i, j) for _, i, j in expected]
    np.testing.assert_allclose(found.scores, [value for value, _, _ in expected], atol=1e-5)


def test_the_floor_is_that_of_the_smaller_side_and_what_was_not_found_is_never_chosen():
    for small, large, floor in ((2, 150, 1 / 2), (99, 150, 0.3), (100, 150, 0.05)):
        near = [Neighbours(np.full((n, 1), a), np.zeros((n, 1), int)) for n, a in ((small, 0.2), (large, -0.2))]
        for pair in (near, [Neighbours(-side.scores, side.indices) for side in near[::-1]]):  # all means are 0
            np.testing.assert_allclose(margin_scores(*pair, "ratio"), 1 + 0.2 / floor)
    forward = Neighbours(np.array([[-0.2, 0.0]]), np.array([[3, -1]]))  # as an approximate index answers
    assert best_by_margin(forward, Neighbours(np.zeros((4, 1)), np.zeros((4, 1), int)), "distance")[1].tolist() == [3]


def test_the_ratio_rises_with_the_cosine_whatever_the_neighbours_are():
    """Three lines a side: the pair of cosine 0.77 scored 2.70 and a stranger 3.16, because of negative means."""
    cosine = np.array([[0.77, -0.2, 0.1], [-0.1, 0.12, -0.25], [-0.3, -0.15, -0.05]])
    near = [Neighbours(-np.sort(-c, 1), np.argsort(-c, 1)) for c in (cosine, cosine.T)]
    scores = margin_scores(*near, "ratio")
    assert np.unravel_index(scores.argmax(), (3, 3)) == (0, 0)
    rng = np.random.default_rng(0)
    for rows in (3, 5, 150):
        for shift in (-0.4, -0.1, 0.0, 0.4):
            cosine = (rng.uniform(-0.5, 0.5, (rows, rows)) + shift).astype(np.float32)
            near = [Neighbours(-np.sort(-c, 1)[:, :4], np.argsort(-c, 1)[:, :4]) for c in (cosine, cosine.T)]
            a, scores = near[0].scores.astype(float), margin_scores(*near, "ratio")
            b = (a.mean(1)[:, None] + near[1].scores.mean(1, dtype=float)[near[0].indices]) / 2
            assert ((scores > 1) == (a > b)).all() and np.abs(scores).max() < 40
            usual = b > max(0.3, 1 / rows)  # the floor
            np.testing.assert_allclose(scores[usual], (a / b)[usual])  # as LASER scores
    for rows in (2, 3, 4):  # one cosine rises, all others stay: it is itself a part of the means
        for cosine in rng.uniform(-0.9, 0.6, (50, rows, rows)):
            found = []
            for cosine[0, 0] in np.linspace(0.6, 1, 9):
                near = [Neighbours(-np.sort(-c, 1), np.argsort(-c, 1)) for c in (cosine, cosine.T)]
                found.append(margin_scores(*near, "ratio")[0, 0])
            assert (np.diff(found) > 0).all()


def test_one_true_pair_among_strangers_is_first():
    """As small files are: all cosines but one are near 0, so their means are near 0 or negative."""
    rng, wrong = np.random.default_rng(0), 0
    for draw in range(100):
        x, y = (rng.normal(size=(4 + draw % 5, 64)) for _ in "xy")
        y[0] = x[0] + 0.8 * rng.normal(size=64)
        wrong += mine(x, y).pairs()[0] != (0, 0)
    assert wrong == 0


def test_finds_what_belongs_together_and_a_threshold_cuts():
    x, y, gold = collections(d=48)
    found = mine(x, y)
    assert gold <= set(found.pairs()) and gold <= set(mine(*(torch.tensor(side).bfloat16() for side in (x, y))).pairs())
    best = mine(x, y, threshold=float(found.scores[len(gold) - 1]))
    assert set(best.pairs()) == gold and len(best.scores) == len(gold)
    assert len(mine(x, y, threshold=99.0).scores) == 0


def test_equal_scores_across_blocks_go_to_the_lowest_row():
    x, y = np.eye(4)[[0, 1]], np.eye(4)[[2, 0, 3, 0, 1, 0]]
    assert mine(x, y, k=1, retrieval="forward", block=1).pairs() == [(0, 1), (1, 4)]
    assert mine(np.eye(3), np.eye(3)[[2, 0]], k=4).pairs() == [(0, 1), (2, 0)]  # a side smaller than k


def test_faiss_flat_equals_the_exact_search_and_inverted_lists_come_near():
    x, y, gold = collections(400, 500, 300, d=24)
    exact, flat = mine(x, y), mine(x, y, index="Flat", block=90)
    assert flat.pairs() == exact.pairs()
    np.testing.assert_allclose(flat.scores, exact.scores, atol=1e-5)
    probed = mine(x, y, index="IVF8,Flat;nprobe=8")
    assert set(probed.pairs()) == set(exact.pairs())
    few = mine(x, y, index="IVF8,Flat", retrieval="intersection")
    assert len(set(few.pairs()) & gold) > 0.5 * len(gold)


@pytest.mark.parametrize(
    "x, y, options, words",
    [
        (np.eye(3), np.eye(4), {}, "x has 3 dimensions and y 4"),
        (np.eye(3), [np.eye(3), np.array([[1, 2, 3], [0, 0, 0.0]])], {}, "y, row 4: a NaN, infinite or zero"),
        (np.array([[1.0, np.nan]]), np.eye(2), {}, "x, row 0: a NaN"),
        (np.eye(3), [], {}, r"y must be a \(rows, dimensions\) matrix"),
        ([np.eye(3), np.eye(2)], np.eye(3), {}, r"parts of x differ in dimensions: \[2, 3\]"),
        (np.eye(3), np.eye(3), {"margin": "absolute"}, "margin is 'absolute'"),
        (np.eye(3), np.eye(3), {"retrieval": "both"}, "retrieval is 'both'"),
        (np.eye(3), np.eye(3), {"threshold": float("nan")}, "threshold is nan"),
        *((np.eye(3), np.eye(3), {"k": k}, f"k is {k!r}; it must be a whole number") for k in (0, 2.5, np.nan, "4")),
        (np.eye(3), np.eye(3), {"index": "Nonsense"}, "index 'Nonsense' is refused by faiss: .*could not"),
        (np.eye(3), np.eye(3), {"index": "IVF2,Flat;probes=2"}, "is refused by faiss: .*could not"),
        (np.eye(3), np.eye(3), {"index": "IVF2,Flat;nprobe=0"}, "nprobe must be at least 1"),
        (np.eye(3), np.eye(3), {"index": "IVF2,PQ2"}, "index 'IVF2,PQ2' is refused by faiss"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, options, words):
    with pytest.raises(ValueError, match=words) as error:
        mine(x, y, **options)
    assert ".cpp" not in str(error.value)  # faiss names its source


# Against a gold list


def test_bucc_f1_by_hand():
    """Three found, two of them right, four to find: precision 2/3, recall 2/4, F1 4/7."""
    gold = [("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-3"), ("fr-4", "en-4")]
    score = bucc_f1([("fr-1", "en-1"), ("fr-2", "en-2"), ("fr-3", "en-4"), ("fr-1", "en-1")], gold)
    assert (score.found, score.right, score.gold) == (3, 2, 4)
    assert (score.precision, score.recall, score.f1) == pytest.approx((200 / 3, 50, 400 / 7))
    assert bucc_f1([], gold).f1 == 0.0 and bucc_f1(gold, gold).to_row()["f1"] == 100.0
    with pytest.raises(ValueError, match="gold is empty"):
        bucc_f1(gold, [])


def test_best_threshold_by_hand():
    """After 1 pair F1 = 2/(1+3), after 2 4/5, after 3 4/6, after 4 6/7, after 5 6/8."""
    found = MinedPairs(np.array([1.5, 1.4, 1.2, 1.1, 0.9]), np.arange(5), np.array([0, 1, 9, 3, 8]))
    score = best_threshold(found, {(0, 0), (1, 1), (3, 3)})
    assert (score.threshold, score.f1) == pytest.approx((1.0, 600 / 7))
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
