"""xsim++ by hand, against a search written out, and with embeddings of torch."""

from collections import Counter

import numpy as np
import pytest
import torch

from hf_echo.evaluation import xsimpp

from ...formulas import unit

E = np.eye(6)


def test_each_kind_of_error_by_hand():
    """Five sentences: right, own negation, own number, another's translation,
    another's negative."""
    y = E[:5]
    x = np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 2],
            [0, 0, 0.1, 0, 0, -1],
            [1, 0, 0, 0.5, 0, 0],
            [-0.9, 0, 0, 0, 0.2, 0],
        ]
    )
    negatives = np.array([[0, 1, 0, 0, 0, 2], [0, 0, 0, 0, 0, -1], [-1, 0, 0, 0, 0, 0]])

    result = xsimpp(x, y, negatives, [1, 2, 0], negative_kind=["negation", "number", "entity"])

    # By hand: one row is right, each of the others is wrong in its own way.
    assert result.predictions.tolist() == [0, 5, 6, 0, 7]
    assert result.errors_by_kind == {
        "entity": 0,
        "negation": 1,
        "number": 1,
        "other": 1,
        "other_negative": 1,
    }
    assert result.pool == 8
    assert result.error_rate == 80.0


@pytest.fixture
def case() -> dict[str, np.ndarray]:
    """90 sentences with three negatives each."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(90, 24))
    owner = np.repeat(np.arange(90), 3)
    return {
        "x": y + 0.4 * rng.normal(size=y.shape),
        "y": y,
        "negatives": y[owner] + 0.3 * rng.normal(size=(270, 24)),
        "negative_owner": owner,
        "negative_kind": np.resize(["negation", "number", "entity"], 270),
    }


def search(x: np.ndarray, pool: np.ndarray, margin: str) -> np.ndarray:
    """Each row's best row of the pool: the highest margin score of its four nearest."""
    cosine = unit(x) @ unit(pool).T
    mean_x = np.sort(cosine, axis=1)[:, -4:].mean(axis=1)
    mean_pool = np.sort(cosine, axis=0)[-4:].mean(axis=0)
    picks = []
    for i, row in enumerate(cosine):
        nearest = np.argsort(-row)[:4]
        means = (mean_x[i] + mean_pool[nearest]) / 2
        scores = {
            "cosine": row[nearest],
            "ratio": row[nearest] / means,
            "distance": row[nearest] - means,
        }
        picks.append(nearest[scores[margin].argmax()])
    return np.array(picks)


@pytest.mark.parametrize("margin", ["cosine", "ratio", "distance"])
def test_equals_a_search_written_out(case, margin):
    # A search over translations and negatives together, and a count of what it picks.
    picks = search(case["x"], np.concatenate([case["y"], case["negatives"]]), margin)
    counts = Counter(entity=0, negation=0, number=0, other=0, other_negative=0)
    for i, pick in enumerate(picks):
        negative = pick - 90
        if negative < 0:
            counts["other"] += pick != i
        elif case["negative_owner"][negative] == i:
            counts[case["negative_kind"][negative]] += 1
        else:
            counts["other_negative"] += 1

    result = xsimpp(**case, margin=margin)

    np.testing.assert_array_equal(result.predictions, picks)
    assert result.errors_by_kind == counts
    assert result.errors == counts.total() > 0


# Sentence 1 is a copy of sentence 0. The negative lies on an axis of its own.
Y = E[[0, 0, 1]]
NEGATIVE = E[[3]]


def test_a_copy_of_the_translation_is_an_error():
    result = xsimpp(Y, Y, NEGATIVE, [2])

    assert result.errors_by_kind == {"negative": 0, "other": 1, "other_negative": 0}


def test_a_copy_in_the_group_of_the_translation_is_right():
    result = xsimpp(Y, Y, NEGATIVE, [2], gold=[0, 0, 1])

    assert result.errors == 0


def test_negatives_of_a_copy_are_those_of_the_sentence():
    """Sentence 0 is translated as the negative that was made from sentence 1."""
    result = xsimpp(E[[3, 0, 1]], Y, NEGATIVE, [1], gold=[0, 0, 1])

    assert result.errors_by_kind == {"negative": 1, "other": 0, "other_negative": 0}


def test_zero_rows_are_not_in_the_pool(case):
    """Sentence 3, with its negatives, and a negative of sentence 5 are left out:
    the others are found as without them."""
    kept = np.arange(90) != 3
    kept_negatives = (np.arange(270) != 16) & (case["negative_owner"] != 3)
    zeros = {name: case[name].copy() for name in ("x", "negatives")}
    zeros["x"][3] = 0
    zeros["negatives"][16] = 0
    place = np.cumsum(kept) - 1  # of each sentence among those that are kept
    expected = xsimpp(
        case["x"][kept],
        case["y"][kept],
        case["negatives"][kept_negatives],
        place[case["negative_owner"][kept_negatives]],
        negative_kind=case["negative_kind"][kept_negatives],
    )

    result = xsimpp(**case | zeros)

    assert result.count == 89
    assert result.predictions[3] == -1
    assert result.errors_by_kind == expected.errors_by_kind


ARRAYS = ("x", "y", "negatives")


@pytest.mark.parametrize("names", [ARRAYS, ("negatives",)])
def test_tensors_of_bfloat16_give_the_result_of_their_values(case, names):
    halves = {name: torch.tensor(case[name]).bfloat16() for name in names}
    values = {name: half.float().numpy() for name, half in halves.items()}
    owner = {"negative_owner": torch.tensor(case["negative_owner"])}

    # The same values in float32.
    result = xsimpp(**case | halves | owner)

    np.testing.assert_array_equal(result.predictions, xsimpp(**case | values).predictions)


def test_an_owner_that_is_no_row_is_refused():
    with pytest.raises(ValueError, match="1 rows of y, from 0 to 3"):
        xsimpp(E[:4], E[:4], negatives=E[4:5], negative_owner=[9])
