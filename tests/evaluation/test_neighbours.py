from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.evaluation import mutual_neighbours, nearest_neighbours
from hf_echo.evaluation.neighbours import PRECISIONS, unit_rows


def families(rows: int, dimensions: int, noise: float, seed: int = 0) -> np.ndarray:
    """Families of five rows that differ by `noise`: what a sentence and its hard negatives look like."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(-(-rows // 5), dimensions))
    return (np.repeat(centres, 5, 0)[:rows] + noise * rng.normal(size=(rows, dimensions))).astype(np.float32)


def brute_force(x, y, k):
    """All cosines in float64, rounded to float32; best first, ties by lowest index."""
    x, y = (np.asarray(unit_rows(a), dtype=np.float64) for a in (x, y))
    scores = (x @ y.T).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), order


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 0.0])
def test_equals_brute_force_in_both_directions_down_to_exact_duplicates(noise, precision):
    y = families(333, 24, noise)
    x = y[np.random.default_rng(1).permutation(333)[:210]] * 3.0
    forward, backward = mutual_neighbours(x, y, 4, block_size=100, precision=precision)
    for found, truth in ((forward, brute_force(x, y, 4)), (backward, brute_force(y, x, 4))):
        np.testing.assert_array_equal(found.indices, truth[1])
        np.testing.assert_array_equal(found.scores, truth[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_block_size_changes_nothing(precision):
    x, y = families(301, 16, 0.05, seed=2), families(517, 16, 0.05, seed=3)
    whole = mutual_neighbours(x, y, 3, block_size=10_000, precision=precision)
    for block_size in (1, 33, 64, 200):
        if block_size == 1:  # one product a pair: only a corner of the data
            small = mutual_neighbours(x[:9], y[:9], 3, block_size=1, precision=precision)
            again = mutual_neighbours(x[:9], y[:9], 3, precision=precision)
            pairs = zip(small, again, strict=True)
        else:
            pairs = zip(
                mutual_neighbours(x, y, 3, block_size=block_size, precision=precision), whole, strict=True
            )
        for left, right in pairs:
            np.testing.assert_array_equal(left.indices, right.indices)
            np.testing.assert_array_equal(left.scores, right.scores)


def test_the_best_rows_may_all_come_last():
    """Each block beats the one before: the threshold of the pruning never helps."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(1, 12))
    y = np.linspace(0.0, 3.0, 400)[:, None] * direction + rng.normal(size=(400, 12))
    x = direction + 0.01 * rng.normal(size=(70, 12))
    found = nearest_neighbours(x, y, 5, block_size=64)
    np.testing.assert_array_equal(found.indices, brute_force(x, y, 5)[1])


def test_collapsed_embeddings_are_searched_exactly():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1, 32)) + 1e-5 * rng.normal(size=(150, 32))).astype(np.float32)
    y = (x + 1e-6 * rng.normal(size=x.shape)).astype(np.float32)
    for precision in PRECISIONS:
        found = nearest_neighbours(x, y, 4, precision=precision)
        np.testing.assert_array_equal(found.indices, brute_force(x, y, 4)[1])


def test_the_largest_temporary_is_one_block(monkeypatch):
    from hf_echo.evaluation import neighbours

    sizes, product = [], neighbours._product
    monkeypatch.setattr(neighbours, "_product", lambda a, b: sizes.append(out := product(a, b)) or out)
    mutual_neighbours(families(500, 8, 0.5), families(700, 8, 0.5, seed=1), 4, block_size=96)
    assert max(s.numel() for s in sizes) == 96 * 96
    assert len(sizes) == 6 * 8  # one pass gives both directions


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_and_numpy_of_any_float_type_agree(dtype):
    x, y = (torch.from_numpy(families(60, 16, 0.5, seed=s)).to(dtype) for s in (0, 1))
    expected = brute_force(x, y, 3)[1]
    np.testing.assert_array_equal(nearest_neighbours(x, y, 3).indices, expected)
    if dtype != torch.bfloat16:
        np.testing.assert_array_equal(nearest_neighbours(x.numpy(), y.numpy(), 3).indices, expected)
    x.requires_grad_()
    assert nearest_neighbours(x, y, 1).scores.dtype == np.float32


def test_sparse_rows_give_what_dense_rows_give():
    x, y = (sparse.random(40, 90, density=0.1, format="csr", random_state=s) for s in (0, 1))
    dense = mutual_neighbours(x.toarray(), y.toarray(), 4, block_size=16)
    for left, right in zip(mutual_neighbours(x, y, 4, block_size=16), dense, strict=True):
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_allclose(left.scores, right.scores, atol=1e-7)


def test_zero_rows_have_cosine_zero_and_the_lowest_indices():
    y = np.array([[-1.0, 0], [0, 0], [1, 0], [0, 1]])
    x = np.array([[0.0, 0], [1, 0]])
    found = nearest_neighbours(x, y, 4)
    assert found.indices.tolist() == [[0, 1, 2, 3], [2, 1, 3, 0]]
    assert found.scores.tolist() == [[0, 0, 0, 0], [1, 0, 0, -1]]


def test_huge_and_tiny_rows_keep_their_direction_and_the_input_is_left_alone():
    x = families(20, 8, 0.5).astype(np.float64)
    scale = np.resize([1e-200, 1e200, 1.0], (20, 1))
    scaled = x * scale
    before = scaled.copy()
    np.testing.assert_array_equal(
        nearest_neighbours(scaled, x, 2).indices, nearest_neighbours(x, x, 2).indices
    )
    nearest_neighbours(torch.from_numpy(scaled), torch.from_numpy(x), 2)
    np.testing.assert_array_equal(scaled, before)


def test_a_lower_matmul_precision_of_torch_is_allowed_for():
    x, y = families(200, 16, 1e-3), families(200, 16, 1e-3, seed=5)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        np.testing.assert_array_equal(nearest_neighbours(x, y, 3).indices, brute_force(x, y, 3)[1])
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    "x, y, k, words",
    [
        (np.ones((2, 3)), np.ones((2, 4)), 1, "x has 3 dimensions and y has 4"),
        (np.ones((2, 3)), np.ones((5, 3)), 6, "k is 6, must be from 1 to 5"),
        (np.ones((2, 3)), np.ones((5, 3)), 0, "k is 0"),
        (np.ones((0, 3)), np.ones((5, 3)), 1, r"x must be .* got shape \(0, 3\)"),
        (np.ones(3), np.ones((5, 3)), 1, r"got shape \(3,\)"),
        (np.ones((2, 3)), np.full((5, 3), np.nan), 1, "y holds NaN"),
        (torch.full((2, 3), torch.inf), torch.ones(5, 3), 1, "x holds NaN or infinite"),
        (sparse.csr_matrix(np.eye(3)), np.eye(3), 1, "sparse and the other dense"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, k, words):
    with pytest.raises(ValueError, match=words) as error:
        nearest_neighbours(x, y, k)
    assert "\n" not in str(error.value)


def test_unknown_precision_and_block_size():
    with pytest.raises(ValueError, match="'int8'"):
        nearest_neighbours(np.eye(3), np.eye(3), 1, precision="int8")
    with pytest.raises(ValueError, match="block_size is 0"):
        mutual_neighbours(np.eye(3), np.eye(3), 1, block_size=0)
