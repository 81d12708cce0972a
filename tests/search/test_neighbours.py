"""The exact search against a product of all pairs in float64; ties; what is accepted and what is refused."""

import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.search import mutual_neighbours, nearest_neighbours


def families(rows: int, dimensions: int, noise: float, seed: int = 0) -> np.ndarray:
    """Families of five rows that differ by `noise`: what a sentence and its hard negatives look like."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(-(-rows // 5), dimensions))
    return (np.repeat(centres, 5, 0)[:rows] + noise * rng.normal(size=(rows, dimensions))).astype(np.float32)


def spiked(rows: int, dimensions: int, noise: float) -> np.ndarray:
    """Families with a common mean, one dimension ten times as large as the others, and rows with one number only."""
    x = families(rows, dimensions, noise) + 1.0
    x[:, 3] *= 10
    x[::50] = np.eye(dimensions)[np.arange(len(x[::50])) % dimensions]
    return x


def brute_force(x, y, k):
    """All cosines of the float32 unit rows in float64, rounded to float32; best first, ties by lowest index."""
    x, y = (np.asarray(a, dtype=np.float64) for a in (x, y))
    x, y = ((a / np.linalg.norm(a, axis=1, keepdims=True)).astype(np.float32).astype(np.float64) for a in (x, y))
    scores = (x @ y.T).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), order


def assert_exact(found, x, y, k):
    """Equal scores, and equal rows except where two scores are within the last bit of float32."""
    scores, indices = brute_force(x, y, k)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    apart = np.abs(np.diff(scores, axis=1)) > 1e-6
    sure = np.hstack([np.ones((len(scores), 1), bool), apart]) & np.hstack([apart, np.zeros((len(scores), 1), bool)])
    np.testing.assert_array_equal(found.indices[sure], indices[sure])


@pytest.mark.parametrize("rows", [families, spiked])
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 0.0])
def test_equals_brute_force_in_both_directions_down_to_exact_duplicates(rows, noise):
    y = rows(333, 24, noise)
    x = y[np.random.default_rng(1).permutation(333)[:210]] * 3.0
    forward, backward = mutual_neighbours(x, y, 4)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)


def test_ties_go_to_the_lowest_row():
    """Whole numbers, of which many rows are equal: every order is decided by the index."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (400, 5)) + 0.0
    y[~y.any(1)] = 1.0
    x = y[rng.permutation(400)[:90]]
    found = nearest_neighbours(x, y, 7)
    scores, indices = brute_force(x, y, 7)
    np.testing.assert_array_equal(found.scores, scores)
    np.testing.assert_array_equal(found.indices, indices)
    same = nearest_neighbours(np.ones((3, 8)), np.ones((500, 8)), 4)
    assert same.indices.tolist() == [[0, 1, 2, 3]] * 3


def test_collapsed_embeddings_are_searched_exactly():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1, 32)) + 1e-5 * rng.normal(size=(1100, 32))).astype(np.float32)
    y = (x + 1e-6 * rng.normal(size=x.shape)).astype(np.float32)
    found = nearest_neighbours(x, y, 4)
    scores, indices = brute_force(x, y, 4)
    np.testing.assert_array_equal(found.scores, scores)
    assert (found.indices == indices).mean() > 0.99


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_and_numpy_of_any_float_type_agree(dtype):
    x, y = (torch.from_numpy(families(60, 16, 0.5, seed=s)).to(dtype) for s in (0, 1))
    expected = brute_force(x.double(), y.double(), 3)[1]
    np.testing.assert_array_equal(nearest_neighbours(x.requires_grad_(), y, 3).indices, expected)
    np.testing.assert_array_equal(nearest_neighbours(x.double().detach().numpy(), y, 3).indices, expected)


def test_sparse_rows_give_what_dense_rows_give():
    x, y = (sparse.random(40, 90, density=0.1, format="csr", random_state=s) for s in (0, 1))
    dense = mutual_neighbours(x.toarray(), y.toarray(), 4)
    for left, right in zip(mutual_neighbours(x, y, 4), dense, strict=True):
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_allclose(left.scores, right.scores, atol=1e-7)
    unknown = nearest_neighbours(sparse.csr_matrix((1, 3)), sparse.csr_matrix(np.eye(3)), 3)
    assert unknown.indices.tolist() == [[0, 1, 2]] and not unknown.scores.any()  # a text without known features


def test_huge_and_tiny_rows_keep_their_direction_and_the_input_is_left_alone():
    x = families(20, 8, 0.5).astype(np.float64)
    scaled = x * np.resize([1e-200, 1e200, 1.0], (20, 1))
    before = scaled.copy()
    np.testing.assert_array_equal(nearest_neighbours(scaled, x, 2).indices, nearest_neighbours(x, x, 2).indices)
    np.testing.assert_array_equal(scaled, before)


ROW = "embedding has no direction"


@pytest.mark.parametrize(
    "x, y, k, words",
    [
        (np.ones((2, 3)), np.ones((2, 4)), 1, "x has 3 dimensions and y has 4"),
        (np.ones((2, 3)), np.ones((5, 3)), 6, "k is 6, must be from 1 to 5"),
        (np.ones((0, 3)), np.ones((5, 3)), 1, r"x must be .* got shape \(0, 3\)"),
        (np.ones(3), np.ones((5, 3)), 1, r"got shape \(3,\)"),
        (np.ones((2, 3)), np.array([[1, 2, 3], [4, np.nan, 6.0]]), 1, f"y, row 1: .*{ROW}"),
        (np.ones((2, 3)), np.array([[1, 2, 3], [0, 0, 0.0]]), 1, f"y, row 1: .*{ROW}"),
        (sparse.csr_matrix(np.eye(3)), sparse.csr_matrix(np.diag([1, 1, np.inf])), 1, f"y, row 2: .*{ROW}"),
        (torch.full((2, 3), torch.inf), torch.ones(5, 3), 1, f"x, row 0: .*{ROW}"),
        (sparse.csr_matrix(np.eye(3)), np.eye(3), 1, "sparse and the other dense"),
        (np.eye(3, dtype=complex), np.eye(3), 1, "not 'complex128'"),
        (np.eye(3, dtype=bool), np.eye(3), 1, "not 'bool'"),
        (np.eye(3, dtype=np.uint8), np.eye(24), 1, "'uint8'; unpack bits by np.unpackbits"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, k, words):
    with pytest.raises(ValueError, match=words):
        nearest_neighbours(x, y, k)
