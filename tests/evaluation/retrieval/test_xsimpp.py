import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.evaluation import xsimpp

E = np.eye(6)


def test_each_kind_of_error_by_hand():
    """Five sentences: right, own negation, own number, another's translation, another's negative."""
    y = E[:5]
    x = np.array([E[0], E[1] + 2 * E[5], 0.1 * E[2] - E[5], E[0] + 0.5 * E[3], 0.2 * E[4] - 0.9 * E[0]])
    negatives = np.array([E[1] + 2 * E[5], -E[5], -E[0]])
    result = xsimpp(x, y, negatives, [1, 2, 0], negative_kind=["negation", "number", "entity"])
    assert result.predictions.tolist() == [0, 5, 6, 0, 7]
    assert result.errors_by_kind == {"entity": 0, "negation": 1, "number": 1, "other": 1, "other_negative": 1}
    assert (result.errors, result.count, result.pool, result.error_rate) == (4, 5, 8, 80.0)


def random_case(seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(90, 24))
    owner = np.repeat(np.arange(90), 3)
    negatives = y[owner] + 0.3 * rng.normal(size=(270, 24))
    kinds = np.resize(["negation", "number", "entity"], 270)
    return y + 0.4 * rng.normal(size=y.shape), y, negatives, owner, kinds


@pytest.mark.parametrize("margin", ["cosine", "ratio", "distance"])
def test_equals_a_search_written_out(margin):
    x, y, negatives, owner, kinds = random_case()
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, np.concatenate([y, negatives]))]
    score = unit[0] @ unit[1].T
    if margin != "cosine":
        forward = np.argsort(-score, axis=1)[:, :4]
        means = np.sort(score, 1)[:, -4:].mean(1)[:, None] + np.sort(score, 0)[-4:].mean(0)[None]
        adjusted = score / (means / 2) if margin == "ratio" else score - means / 2
        score = np.full_like(score, -np.inf)
        np.put_along_axis(score, forward, np.take_along_axis(adjusted, forward, 1), 1)
    picks = score.argmax(1)
    counts = dict.fromkeys(["entity", "negation", "number", "other", "other_negative"], 0)
    for i, pick in enumerate(picks):
        if pick >= 90:
            counts[kinds[pick - 90] if owner[pick - 90] == i else "other_negative"] += 1
        elif pick != i:
            counts["other"] += 1
    result = xsimpp(x, y, negatives, owner, negative_kind=kinds, margin=margin)
    np.testing.assert_array_equal(result.predictions, picks)
    assert result.errors_by_kind == counts
    assert result.errors == sum(counts.values()) > 0


def test_gold_makes_copies_right_and_their_negatives_own():
    y = E[[0, 0, 1]]
    x = np.array([E[0], E[0], E[3]])
    negatives = np.array([E[3]])
    plain = xsimpp(x, y, negatives, [2], negative_kind=["number"])
    assert plain.errors_by_kind == {"number": 1, "other": 1, "other_negative": 0}
    assert xsimpp(x, y, negatives, [2], negative_kind=["number"], gold=[0, 0, 1]).errors == 1
    shared = xsimpp(x[[2, 0, 0]], y, negatives, [1], negative_kind=["number"], gold=[0, 0, 1])
    assert shared.errors_by_kind["number"] == 1  # made from row 1, which is the same sentence as row 0


def test_torch_and_sparse_input_give_the_same():
    x, y, negatives, owner, kinds = random_case()
    expected = xsimpp(x, y, negatives, owner, negative_kind=kinds).to_row()
    tensors = [torch.tensor(a) for a in (x, y, negatives, owner)]
    assert xsimpp(*tensors, negative_kind=kinds).to_row() == expected
    half = [torch.tensor(a).bfloat16() for a in (x, y, negatives)]
    of_half = [a.float().numpy() for a in half]
    for one in (half, [*of_half[:2], half[2]]):  # bf16 everywhere, or of the negatives alone
        found = xsimpp(*one, owner, negative_kind=kinds)
        np.testing.assert_array_equal(found.predictions, xsimpp(*of_half, owner, negative_kind=kinds).predictions)
    rows = [sparse.csr_matrix(a) for a in (x, y, negatives)]
    assert xsimpp(*rows, owner, negative_kind=list(kinds)).to_row() == expected
    assert expected["errors_by_kind/number"] > 0


@pytest.mark.parametrize(
    "change, words",
    [
        ({"negatives": np.ones((0, 6)), "negative_owner": []}, "negatives is empty: give hard negatives, or call xsim"),
        ({"negatives": np.ones((1, 4))}, r"negatives has shape \(1, 4\); it must be \(M, 6\)"),
        ({"negative_owner": [9]}, "from 0 to 3, got 9 to 9"),
        ({"negative_kind": ["a", "b"]}, "owners and kinds"),
        ({"negative_kind": ["other"]}, "reserved"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, words):
    arguments = {"x": E[:4], "y": E[:4], "negatives": E[4:5], "negative_owner": [0]} | change
    with pytest.raises(ValueError, match=words):
        xsimpp(**arguments)
