"""xsim against LASER's program written out, and rates that are known."""

import numpy as np
import pytest
from scipy import sparse
from sentence_transformers.util import quantize_embeddings

from hf_echo.evaluation import text_groups, xsim

from ...formulas import unit


def laser_predictions(x: np.ndarray, y: np.ndarray, margin: str, k: int) -> np.ndarray:
    """LASER's xsim.py written out: k nearest each way, mean cosines, a / b or a - b,
    best of the k."""
    cosine = unit(x) @ unit(y).T
    mean_x = np.sort(cosine, axis=1)[:, -k:].mean(axis=1)
    mean_y = np.sort(cosine, axis=0)[-k:].mean(axis=0)
    predictions = []
    for i, row in enumerate(cosine):
        nearest = np.argsort(-row)[:k]
        a = row[nearest]
        b = (mean_x[i] + mean_y[nearest]) / 2
        scores = a / b if margin == "ratio" else a - b
        predictions.append(nearest[scores.argmax()])
    return np.array(predictions)


def pairs(rows: int, noise: float, spread: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """y in families of near-duplicates, x a noisy copy of it."""
    rng = np.random.default_rng(0)
    families = np.repeat(rng.normal(size=(rows // 4, 48)), 4, axis=0)
    y = families + spread * rng.normal(size=families.shape)
    return y + noise * rng.normal(size=y.shape), y


@pytest.mark.parametrize("margin", ["ratio", "distance"])
@pytest.mark.parametrize("k", [1, 4, 7])
@pytest.mark.parametrize("noise, spread", [(2.5, 1.0), (0.6, 0.2), (0.03, 0.01)])
def test_margin_equals_laser(margin, k, noise, spread):
    x, y = pairs(240, noise, spread)
    # LASER's program, written out.
    expected = laser_predictions(x, y, margin, k)

    result = xsim(x, y, margin=margin, k=k)

    np.testing.assert_array_equal(result.predictions, expected)
    assert result.errors == np.count_nonzero(expected != np.arange(240))
    assert result.errors > 0
    assert result.error_rate == pytest.approx(100 * result.errors / 240)


EYE = np.eye(8)


@pytest.mark.parametrize(
    ("order", "error_rate"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 0.0),
        ([1, 0, 2, 3, 4, 5, 6, 7], 25.0),
        ([1, 2, 3, 4, 5, 6, 7, 0], 100.0),
    ],
)
def test_known_rates(order, error_rate):
    assert xsim(EYE[order], EYE).error_rate == error_rate


def test_neighbours_are_at_most_the_rows():
    assert xsim(EYE[:1], EYE[:1], margin="ratio", k=4).error_rate == 0.0


def test_the_margin_has_lasers_four_neighbours():
    assert xsim(EYE, EYE).k == 4


COPIES = EYE[[0, 1, 1, 2]]


def test_equal_scores_go_to_the_lowest_row():
    result = xsim(COPIES, COPIES)

    assert result.predictions.tolist() == [0, 1, 1, 3]
    assert result.errors == 1


def test_a_copy_is_right_in_its_group():
    assert xsim(COPIES, COPIES, gold=[0, 1, 1, 2]).errors == 0


def test_equal_texts_are_a_group():
    assert text_groups(["a", "b", "b", "c"]).tolist() == [0, 1, 1, 2]


def test_sides_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="x has 3 rows and y has 4"):
        xsim(COPIES[:3], COPIES)


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
def test_an_empty_sparse_row_is_a_text_without_known_features(margin):
    x = np.eye(5)
    y = np.eye(5)
    x[2] = 0
    y[3] = 0

    result = xsim(sparse.csr_matrix(x), sparse.csr_matrix(y), margin=margin, k=2)

    assert result.predictions[[0, 1, 4]].tolist() == [0, 1, 4]


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
def test_without_features_the_first_row_is_found(margin):
    nothing = sparse.csr_matrix((3, 2))

    assert xsim(nothing, nothing, margin=margin).predictions.tolist() == [0, 0, 0]


def test_quantised_embeddings():
    """int8 are numbers; nothing else is guessed (`search/test_neighbours.py`).
    One of equal scores is found."""
    x, y = pairs(200, 0.4)
    x = quantize_embeddings(x.astype(np.float32), "int8")
    y = quantize_embeddings(y.astype(np.float32), "int8")
    cosine = unit(x.astype(float)) @ unit(y.astype(float)).T

    predictions = xsim(x, y).predictions

    assert np.mean(predictions == cosine.argmax(1)) > 0.99
