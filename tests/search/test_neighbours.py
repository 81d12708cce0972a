"""The exact search against a product of all pairs in float64; ties;
what is accepted and what is refused."""

import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.search import Neighbours, mutual_neighbours, nearest_neighbours


def families(rows: int, dimensions: int, noise: float, seed: int = 0) -> np.ndarray:
    """Families of five rows that differ by `noise`:
    what a sentence and its hard negatives look like."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(rows // 5 + 1, dimensions))
    members = np.repeat(centres, 5, axis=0)[:rows]
    members += noise * rng.normal(size=members.shape)
    return members.astype(np.float32)


def spiked(rows: int, dimensions: int, noise: float) -> np.ndarray:
    """Families with a common mean, one dimension ten times as large as the others,
    and rows with one number only."""
    x = families(rows, dimensions, noise) + 1.0
    x[:, 3] *= 10
    x[::50] = np.resize(np.eye(dimensions), x[::50].shape)
    return x


def unit_float32(x) -> np.ndarray:
    """Rows of length 1, rounded to float32."""
    rows = np.asarray(x, dtype=np.float64)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit.astype(np.float32).astype(np.float64)


def brute_force(x, y, k: int) -> Neighbours:
    """All cosines of the float32 unit rows in float64, rounded to float32;
    best first, ties by lowest index."""
    cosines = unit_float32(x) @ unit_float32(y).T
    scores = cosines.astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Neighbours(np.take_along_axis(scores, order, axis=1), order)


def assert_exact(neighbours: Neighbours, x, y, k: int) -> None:
    """Equal scores, and equal rows except where two scores are within the last bit of float32."""
    expected = brute_force(x, y, k)
    np.testing.assert_allclose(neighbours.scores, expected.scores, atol=1e-6)
    # a row is sure where neither its better nor its worse neighbour has its score; the last may
    # have an equal
    differs = np.diff(expected.scores, axis=1) < -1e-6
    is_sure = np.zeros(expected.indices.shape, bool)
    is_sure[:, :-1] = differs
    is_sure[:, 1:-1] &= differs[:, :-1]
    np.testing.assert_array_equal(neighbours.indices[is_sure], expected.indices[is_sure])


@pytest.mark.parametrize("rows", [families, spiked])
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 0.0])
def test_both_directions_equal_brute_force_down_to_exact_duplicates(rows, noise):
    y = rows(333, 24, noise)
    order = np.random.default_rng(1).permutation(333)
    x = 3.0 * y[order[:210]]

    forward, backward = mutual_neighbours(x, y, 4)

    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)


def test_ties_go_to_the_lowest_row():
    """Whole numbers, of which many rows are equal: every order is decided by the index."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (400, 5)).astype(float)
    y[y.sum(axis=1) == 0] = 1.0
    x = rng.permutation(y)[:90]

    neighbours = nearest_neighbours(x, y, 7)

    expected = brute_force(x, y, 7)
    np.testing.assert_array_equal(neighbours.scores, expected.scores)
    np.testing.assert_array_equal(neighbours.indices, expected.indices)


def test_of_equal_rows_the_first_are_nearest():
    equal_rows = np.ones((500, 8))

    neighbours = nearest_neighbours(equal_rows[:2], equal_rows, 4)

    assert neighbours.indices.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_collapsed_embeddings_are_searched_exactly():
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(1, 32))
    x = (centre + 1e-5 * rng.normal(size=(1100, 32))).astype(np.float32)
    y = (x + 1e-6 * rng.normal(size=x.shape)).astype(np.float32)

    neighbours = nearest_neighbours(x, y, 4)

    # All cosines in float64; equal ones may come in another order.
    expected = brute_force(x, y, 4)
    np.testing.assert_array_equal(neighbours.scores, expected.scores)
    assert (neighbours.indices == expected.indices).mean() > 0.99


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_of_any_float_type_gives_what_numpy_gives(dtype):
    x = torch.from_numpy(families(60, 16, 0.5, seed=0)).to(dtype)
    y = torch.from_numpy(families(60, 16, 0.5, seed=1)).to(dtype)
    x_numbers = x.double().numpy()

    of_torch = nearest_neighbours(x.requires_grad_(), y, 3)
    of_numpy = nearest_neighbours(x_numbers, y, 3)

    # All cosines in float64, of the values that the dtype holds.
    expected = brute_force(x_numbers, y.double(), 3)
    np.testing.assert_array_equal(of_torch.indices, expected.indices)
    np.testing.assert_array_equal(of_numpy.indices, expected.indices)


def test_sparse_rows_give_what_dense_rows_give():
    x = sparse.random(40, 90, density=0.1, format="csr", random_state=0)
    y = sparse.random(40, 90, density=0.1, format="csr", random_state=1)

    of_sparse = mutual_neighbours(x, y, 4)

    # The same rows as a dense matrix.
    of_dense = mutual_neighbours(x.toarray(), y.toarray(), 4)
    for neighbours, expected in zip(of_sparse, of_dense, strict=True):
        np.testing.assert_array_equal(neighbours.indices, expected.indices)
        np.testing.assert_allclose(neighbours.scores, expected.scores, atol=1e-7)


def test_a_sparse_row_without_entries_has_cosine_zero():
    """It is a text without known features."""
    empty = sparse.csr_matrix((1, 3))

    neighbours = nearest_neighbours(empty, sparse.csr_matrix(np.eye(3)), 3)

    assert neighbours.indices.tolist() == [[0, 1, 2]]
    assert not neighbours.scores.any()


def test_rows_of_any_size_keep_their_direction():
    x = families(20, 8, 0.5).astype(np.float64)
    scale = np.resize([1e-200, 1e200, 1.0], (20, 1))

    neighbours = nearest_neighbours(scale * x, x, 2)

    # The rows before they were scaled.
    expected = nearest_neighbours(x, x, 2)
    np.testing.assert_array_equal(neighbours.indices, expected.indices)


def test_the_input_is_left_alone():
    x = families(20, 8, 0.5)
    before = x.copy()

    nearest_neighbours(x, x, 2)

    np.testing.assert_array_equal(x, before)


NO_DIRECTION = "embedding has no direction"


ONES = np.ones((2, 3))
NAN_ROW = np.array([[1, 2, 3], [4, np.nan, 6]])
ZERO_ROW = np.array([[1, 2, 3], [0, 0, 0.0]])
INFINITE_DIAGONAL = np.diag([1, 1, np.inf])


@pytest.mark.parametrize(
    "x, y, message",
    [
        (ONES[:0], ONES, r"x must be .* got shape \(0, 3\)"),
        (ONES[0], ONES, r"got shape \(3,\)"),
        (ONES, NAN_ROW, f"y, row 1: .*{NO_DIRECTION}"),
        (ONES, ZERO_ROW, f"y, row 1: .*{NO_DIRECTION}"),
        (ONES, sparse.csr_matrix(INFINITE_DIAGONAL), f"y, row 2: .*{NO_DIRECTION}"),
        (torch.full((2, 3), torch.inf), ONES, f"x, row 0: .*{NO_DIRECTION}"),
        (ONES.astype(complex), ONES, "not 'complex128'"),
        (ONES.astype(bool), ONES, "not 'bool'"),
        (ONES.astype(np.uint8), np.ones((2, 24)), "'uint8'; unpack bits by"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, message):
    with pytest.raises(ValueError, match=message):
        nearest_neighbours(x, y, 1)
