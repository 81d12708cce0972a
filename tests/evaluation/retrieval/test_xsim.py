import json

import numpy as np
import pytest
import torch
from scipy import sparse
from sentence_transformers.util import quantize_embeddings

from hf_echo.evaluation import text_groups, xsim
from hf_echo.utils.results import Table


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
    assert xsim(swapped, eye).error_rate == 25.0
    assert xsim(eye[:1], eye[:1], margin="ratio", k=4).error_rate == 0.0  # fewer rows than k


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
def test_order_and_scale_of_rows_do_not_matter(margin):
    x, y = pairs(120, 0.3)
    rng = np.random.default_rng(3)
    order, scale = rng.permutation(120), rng.uniform(0.1, 50, size=(120, 1))
    plain = xsim(x, y, margin=margin)
    assert xsim(x * scale, y / scale, margin=margin).predictions.tolist() == plain.predictions.tolist()
    moved = xsim(x[order], y[order], margin=margin)
    assert moved.errors == plain.errors
    np.testing.assert_array_equal(order[moved.predictions], plain.predictions[order])


def test_duplicate_targets_are_errors_unless_gold_says_otherwise():
    y = np.eye(4)[[0, 1, 1, 2]]
    assert xsim(y, y).predictions.tolist() == [0, 1, 1, 3]  # ties go to the lowest index
    assert xsim(y, y).errors == 1
    groups = text_groups(["a", "b", "b", "c"])
    assert groups.tolist() == [0, 1, 1, 2]
    assert xsim(y, y, gold=groups).errors == 0
    with pytest.raises(ValueError, match=r"gold has shape \(3,\); it must be \(4,\)"):
        xsim(y, y, gold=groups[:3])


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
def test_zero_rows_are_refused_and_empty_sparse_rows_count(margin):
    """A dense zero row is a broken embedding; an empty sparse row is a text without known features."""
    x, y = np.eye(5), np.eye(5)
    x[2], y[3] = 0, 0
    for convert in (np.asarray, torch.tensor):
        with pytest.raises(ValueError, match="x, row 2: a NaN, infinite or zero embedding"):
            xsim(convert(x), convert(np.eye(5)), margin=margin, k=2)
        with pytest.raises(ValueError, match="y, row 3: a NaN, infinite or zero embedding"):
            xsim(convert(np.eye(5)), convert(y), margin=margin, k=2)
    result = xsim(sparse.csr_matrix(x), sparse.csr_matrix(y), margin=margin, k=2)
    assert {0, 1, 4} <= set(np.flatnonzero(result.predictions == np.arange(5)))
    nothing = sparse.csr_matrix((3, 2))
    assert xsim(nothing, nothing, margin=margin).predictions.tolist() == [0, 0, 0]


def test_quantised_embeddings():
    """int8 are numbers; nothing else is guessed."""
    x, y = (quantize_embeddings(a.astype(np.float32), "int8") for a in pairs(200, 0.4))
    unit = [a / np.linalg.norm(a.astype(float), axis=1, keepdims=True) for a in (x, y)]
    assert (xsim(x, y).predictions == (unit[0] @ unit[1].T).argmax(1)).mean() > 0.99  # one of equal scores
    for dtype, fix in ((np.uint8, "unpack bits by np.unpackbits"), (np.uint16, "convert"), (bool, ""), (complex, "")):
        with pytest.raises(ValueError, match=f"embeddings are floats or signed integers, not .*{fix}"):
            xsim(x.astype(dtype), y.astype(dtype))


def test_row_json_and_table():
    result = xsim(np.eye(3), np.eye(3)[[1, 0, 2]], margin="ratio", k=2)
    row = {"error_rate": 200 / 3, "errors": 2, "count": 3, "margin": "ratio", "k": 2}
    assert result.to_row() == json.loads(result.to_json()) == pytest.approx(row)
    assert "| 66.67 | 2 | 3 | ratio | 2 |" in Table.of([result]).to_markdown()


@pytest.mark.parametrize(
    "x, y, options, words",
    [
        (np.ones((3, 2)), np.ones((4, 2)), {}, "x has 3 rows and y has 4"),
        (np.ones((3, 2)), np.ones(3), {}, r"y must be a \(rows, dimensions\) array, got shape \(3,\)"),
        (np.array([[np.nan, 1]]), np.ones((1, 2)), {"margin": "ratio"}, "x, row 0: a NaN"),
        (np.ones((3, 2)), np.ones((3, 2)), {"margin": "absolute"}, "margin is 'absolute'"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, options, words):
    with pytest.raises(ValueError, match=words):
        xsim(x, y, **options)
