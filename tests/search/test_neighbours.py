from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.search import exact, mutual_neighbours, nearest_neighbours
from hf_echo.search.checks import unit_rows


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


def decaying(rows: int, dimensions: int, noise: float, seed: int = 0) -> np.ndarray:
    """As `families`, with variances that fall off as those of real embeddings do."""
    return families(rows, dimensions, noise, seed) * (np.arange(1, dimensions + 1) ** -0.7).astype(np.float32)


def assert_exact(found, x, y, k):
    scores, indices = brute_force(x, y, k)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.scores, scores)


@pytest.mark.parametrize("memory", [1, 40_000, 10**7])
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4, 0.0])
def test_equals_brute_force_in_both_directions_down_to_exact_duplicates(noise, memory):
    y = families(333, 24, noise)
    x = y[np.random.default_rng(1).permutation(333)[:210]] * 3.0
    forward, backward = mutual_neighbours(x, y, 4, memory=memory)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)


def spiked(rows: int, dimensions: int, noise: float) -> np.ndarray:
    """Families with a common mean, one dimension ten times as large as the others, and rows with one number only."""
    x = families(rows, dimensions, noise) + 1.0
    x[:, 3] *= 10
    x[::50] = np.eye(dimensions)[np.arange(len(x[::50])) % dimensions]
    return x


@pytest.fixture(params=["bf16_bound", "float32_bound"])
def bound(request, monkeypatch):
    """The search by this bound on any processor and any data."""
    bound = getattr(exact, request.param)
    monkeypatch.setattr(exact, "cheapest_bound", lambda x, y, k: bound(x, y))
    return bound


@pytest.mark.parametrize("memory", [300_000, 10**7])
@pytest.mark.parametrize("noise", [0.5, 0.05, 1e-4, 0.0])
@pytest.mark.parametrize("made", [decaying, spiked])
def test_either_bound_gives_the_exact_answer(bound, made, noise, memory):
    """From strangers through near-duplicates to exact duplicates, in one strip and in several, sizes not full."""
    x, y = made(1100, 160, noise), made(1000, 160, noise) + np.float32(0.01)
    forward, backward = mutual_neighbours(x, y, 4, memory=memory)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)
    assert_exact(nearest_neighbours(y, x, 2, memory=memory), y, x, 2)


@pytest.mark.parametrize("made", [np.ones_like, np.zeros_like, np.negative])
def test_data_without_variance_or_similarity(bound, made):
    """All rows the same, all zero; and no cosine above 0."""
    y = np.abs(families(1100, 64, 0.05))
    x = made(y)
    forward, backward = mutual_neighbours(x, y, 4)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)


@pytest.mark.parametrize("noise", [0.5, 0.05, 1e-4])
def test_no_score_is_above_its_bound(bound, noise):
    x, y = (unit_rows(a) for a in (spiked(1100, 160, noise), spiked(1001, 160, noise)[::-1] + np.float32(0.01)))
    made = bound(x, y)
    bounds = exact.product(made.left, made.right).double() + made.slack
    scores = x.double() @ y.double().T
    assert bool((bounds >= scores).all())
    assert bool((bounds <= scores + 0.03).all())  # and not by far: bf16 keeps 8 bits, rounded three times


def test_bf16_is_for_processors_and_data_that_it_suits(monkeypatch):
    near, y = (unit_rows(decaying(1100, 160, 0.05, seed)) for seed in (0, 0))
    narrow = unit_rows(near + 30 * torch.eye(160)[0])  # all cosines above 0.99
    choose = lambda x, y: exact.cheapest_bound(x, y, 4).left.dtype  # noqa: E731
    monkeypatch.setattr(exact, "has_fast_bf16", lambda: True)
    assert choose(near, y) == torch.bfloat16
    assert choose(narrow, narrow) == torch.float32
    monkeypatch.setattr(exact, "has_fast_bf16", lambda: False)
    assert choose(near, y) == torch.float32


@pytest.mark.parametrize("memory", [1, 3_000, 50_000])
def test_memory_changes_nothing(memory):
    x, y = families(301, 16, 0.05, seed=2), families(517, 16, 0.05, seed=3)
    for found, whole in zip(mutual_neighbours(x, y, 40, memory=memory), mutual_neighbours(x, y, 40), strict=True):
        np.testing.assert_array_equal(found.indices, whole.indices)
        np.testing.assert_array_equal(found.scores, whole.scores)


def test_all_rows_may_be_asked_for():
    x, y = families(37, 8, 0.5), families(70, 8, 0.5, seed=1)
    assert_exact(nearest_neighbours(x, y, 70, memory=1), x, y, 70)


def test_the_best_rows_may_all_come_last():
    """Each part of y beats the one before: what is known so far never helps."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(1, 12))
    y = np.linspace(0.0, 3.0, 400)[:, None] * direction + rng.normal(size=(400, 12))
    x = direction + 0.01 * rng.normal(size=(70, 12))
    assert_exact(nearest_neighbours(x, y, 5, memory=1), x, y, 5)


def test_collapsed_embeddings_are_searched_exactly():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1, 32)) + 1e-5 * rng.normal(size=(1100, 32))).astype(np.float32)
    y = (x + 1e-6 * rng.normal(size=x.shape)).astype(np.float32)
    assert_exact(nearest_neighbours(x, y, 4), x, y, 4)


def test_temporaries_stay_within_the_memory(monkeypatch):
    sizes, product = [], exact.product

    def measured(a, b, out=None):
        sizes.append((len(a), len(b)))
        return product(a, b, out=out)

    monkeypatch.setattr(exact, "product", measured)
    x, y = families(2000, 8, 0.5), families(3000, 8, 0.5, seed=1)
    mutual_neighbours(x, y, 4, memory=100_000)
    assert max(a * b for a, b in sizes) <= 100_000
    strips = [(a, b) for a, b in sizes if a == 32]
    assert sum(a * b for a, b in sizes if b > 32) < 1.2 * 2000 * 3000  # one pass gives both directions
    assert strips


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
    dense = mutual_neighbours(x.toarray(), y.toarray(), 4, memory=1)
    for left, right in zip(mutual_neighbours(x, y, 4, memory=1), dense, strict=True):
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
    np.testing.assert_array_equal(nearest_neighbours(scaled, x, 2).indices, nearest_neighbours(x, x, 2).indices)
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
        (np.ones((2, 3)), np.array([[1, 2, 3], [4, np.nan, 6.0]]), 1, "y holds NaN.* first in row 1"),
        (
            sparse.csr_matrix(np.eye(3)),
            sparse.csr_matrix(np.diag([1, 1, np.inf])),
            1,
            "y holds .* first in row 2",
        ),
        (
            torch.full((2, 3), torch.inf),
            torch.ones(5, 3),
            1,
            "x holds NaN or infinite values, first in row 0",
        ),
        (sparse.csr_matrix(np.eye(3)), np.eye(3), 1, "sparse and the other dense"),
    ],
)
def test_bad_input_is_refused_in_one_line(x, y, k, words):
    with pytest.raises(ValueError, match=words) as error:
        nearest_neighbours(x, y, k)
    assert "\n" not in str(error.value)


def test_impossible_memory():
    with pytest.raises(ValueError, match="memory is 0"):
        mutual_neighbours(np.eye(3), np.eye(3), 1, memory=0)
