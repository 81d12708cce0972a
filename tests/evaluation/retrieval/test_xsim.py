import numpy as np
import pytest
from scipy import sparse
from sentence_transformers.util import quantize_embeddings

from hf_echo.evaluation import text_groups, xsim


def laser_predictions(x: np.ndarray, y: np.ndarray, margin: str, k: int) -> np.ndarray:
    """LASER's xsim.py written out: k nearest each way, mean cosines, a / b or a - b, best of the k."""
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    cosine = x @ y.T
    forward = np.argsort(-cosine, axis=1)[:, :k]
    mean_x = np.sort(cosine, axis=1)[:, -k:].mean(axis=1)
    mean_y = np.sort(cosine, axis=0)[-k:].mean(axis=0)
    best = np.empty(len(x), dtype=int)
    for i in range(len(x)):
        a = cosine[i, forward[i]]
        b = (mean_x[i] + mean_y[forward[i]]) / 2
        best[i] = forward[i, np.argmax(a / b if margin == "ratio" else a - b)]
    return best


def pairs(rows: int, noise: float, seed: int = 0, spread: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """y in families of near-duplicates, x a noisy copy of it."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.normal(size=(rows // 4, 48)), 4, axis=0) + spread * rng.normal(size=(rows, 48))
    return y + noise * rng.normal(size=y.shape), y


@pytest.mark.parametrize("margin", ["ratio", "distance"])
@pytest.mark.parametrize("k", [1, 4, 7])
@pytest.mark.parametrize("noise, spread", [(2.5, 1.0), (0.6, 0.2), (0.03, 0.01)])
def test_margin_equals_laser(margin, k, noise, spread):
    x, y = pairs(240, noise, spread=spread)
    result = xsim(x, y, margin=margin, k=k)
    expected = laser_predictions(x, y, margin, k)
    np.testing.assert_array_equal(result.predictions, expected)
    assert result.errors == (expected != np.arange(240)).sum() > 0
    assert result.error_rate == pytest.approx(100 * result.errors / 240)


def test_known_rates():
    eye = np.eye(8)
    assert xsim(eye, eye).error_rate == 0.0
    assert xsim(eye, np.roll(eye, 1, axis=0)).error_rate == 100.0
    swapped = eye[[1, 0, 2, 3, 4, 5, 6, 7]]
    assert xsim(swapped, eye).error_rate == xsim(swapped, eye, gold=np.arange(8)).error_rate == 25.0
    assert xsim(eye, eye).k == 4  # LASER's
    assert xsim(eye[:1], eye[:1], margin="ratio", k=4).error_rate == 0.0  # fewer rows than k


def test_duplicate_targets_are_errors_unless_gold_says_otherwise():
    y = np.eye(4)[[0, 1, 1, 2]]
    assert xsim(y, y).predictions.tolist() == [0, 1, 1, 3]  # ties go to the lowest index
    assert xsim(y, y).errors == 1
    groups = text_groups(["a", "b", "b", "c"])
    assert groups.tolist() == [0, 1, 1, 2]
    assert xsim(y, y, gold=groups).errors == 0
    with pytest.raises(ValueError, match=r"gold has shape \(3,\); it must be \(4,\)"):
        xsim(y, y, gold=groups[:3])
    with pytest.raises(ValueError, match="x has 3 rows and y has 4"):
        xsim(y[:3], y)
    with pytest.raises(ValueError, match="x, row 0: a NaN"):  # others are in search/test_neighbours.py
        xsim(np.nan * y, y, margin="ratio")


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
def test_an_empty_sparse_row_is_a_text_without_known_features(margin):
    x, y = np.eye(5), np.eye(5)
    x[2], y[3] = 0, 0
    result = xsim(sparse.csr_matrix(x), sparse.csr_matrix(y), margin=margin, k=2)
    assert {0, 1, 4} <= set(np.flatnonzero(result.predictions == np.arange(5)))
    nothing = sparse.csr_matrix((3, 2))
    assert xsim(nothing, nothing, margin=margin).predictions.tolist() == [0, 0, 0]


def test_quantised_embeddings():
    """int8 are numbers; nothing else is guessed (`search/test_neighbours.py`)."""
    x, y = (quantize_embeddings(a.astype(np.float32), "int8") for a in pairs(200, 0.4))
    unit = [a / np.linalg.norm(a.astype(float), axis=1, keepdims=True) for a in (x, y)]
    assert (xsim(x, y).predictions == (unit[0] @ unit[1].T).argmax(1)).mean() > 0.99  # one of equal scores
