from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from hf_echo.search import (
    block_bounds,
    block_search,
    bounds,
    mutual_neighbours,
    nearest_neighbours,
    pruned_search,
)
from hf_echo.search.neighbours import unit_rows


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
    """As `families`, with variances that fall off as those of real embeddings do: the short bound is used."""
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


@pytest.mark.parametrize("noise", [0.5, 0.05, 1e-4])
@pytest.mark.parametrize("size", [32, 64, 96])
def test_the_short_bound_changes_nothing(monkeypatch, noise, size):
    """Whatever number of axes is taken, also one that bounds badly or nearly everything."""
    monkeypatch.setattr(bounds, "SIZES", (size,))
    monkeypatch.setattr(block_search, "LEAST", float("inf"))
    monkeypatch.setattr(bounds, "PAIR", 0.0)  # pairs cost nothing: the short product always looks cheaper
    x, y = decaying(1100, 160, noise), decaying(1000, 160, noise) + 0.01
    made = bounds.short_bound(unit_rows(x), unit_rows(y), 4)
    assert made.left.shape == (1100, size)
    exact = unit_rows(x).double() @ unit_rows(y).double().T
    assert bool((made.left @ made.right.T + made.slack >= exact).all())
    forward, backward = mutual_neighbours(x, y, 4)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)
    assert_exact(nearest_neighbours(x, y, 2, memory=60_000), x, y, 2)


def test_the_short_bound_is_for_data_that_it_bounds():
    """Families close together pay from a few axes on; rows without anything near need the whole product."""
    near, far = families(1100, 256, 0.1), np.random.default_rng(0).normal(size=(1100, 256))
    assert bounds.short_bound(unit_rows(near), unit_rows(near[::-1].copy()), 4).left.shape[1] <= 96
    assert bounds.short_bound(unit_rows(far), unit_rows(far[::-1].copy()), 4) is None
    assert bounds.short_bound(unit_rows(near[:900]), unit_rows(near), 4) is None  # too few to be worth it


def spiked(rows: int, dimensions: int, noise: float) -> np.ndarray:
    """Families with a common mean, one dimension ten times as large as the others, and rows with one number only."""
    x = families(rows, dimensions, noise) + 1.0
    x[:, 3] *= 10
    x[::50] = np.eye(dimensions)[np.arange(len(x[::50])) % dimensions]
    return x


@pytest.fixture(params=["Bf16", "Int8"])
def sort(request, monkeypatch):
    """The search by this sort of bounds, also where it would not pay, on a processor that has it."""
    if request.param == "Bf16" and not block_bounds.has_fast_bf16():
        pytest.skip("this processor multiplies no bf16")
    monkeypatch.setattr(block_bounds, "has_fast_bf16", lambda: request.param == "Bf16")
    if (sort := block_bounds.bounds_here()) is None:
        pytest.skip("this torch has no fbgemm")
    monkeypatch.setattr(block_search, "_pays", lambda *_: True)
    monkeypatch.setattr(block_search, "LONG", 10**9)
    return sort


@pytest.fixture
def left(monkeypatch):
    """How many rows are left to the float32 search."""
    left, search = [], pruned_search.search
    monkeypatch.setattr(pruned_search, "search", lambda x, *a: (left.append(len(x)), search(x, *a))[1])
    return left


@pytest.mark.parametrize("memory", [300_000, 10**7])
@pytest.mark.parametrize("noise", [0.5, 0.05, 1e-4, 0.0])
@pytest.mark.parametrize("made", [decaying, spiked])
def test_bounds_of_blocks_change_nothing(sort, left, made, noise, memory):
    """From strangers through near-duplicates to exact duplicates, in one block and in several, sizes not full."""
    x, y = made(1100, 160, noise), made(1000, 160, noise) + np.float32(0.01)
    forward, backward = mutual_neighbours(x, y, 4, memory=memory)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)
    assert sum(left) < 2100 * (0.5 if noise == 0.05 else 1.1)  # it decided most rows itself
    assert_exact(nearest_neighbours(y, x, 2, memory=memory), y, x, 2)


@pytest.mark.parametrize("made", [np.ones_like, np.zeros_like, np.negative])
def test_bounds_of_blocks_on_data_without_variance_or_similarity(sort, made):
    """All rows the same, all zero; and no cosine above 0, where the bounds say nothing."""
    y = np.abs(families(1100, 64, 0.05))
    x = made(y)
    forward, backward = mutual_neighbours(x, y, 4)
    assert_exact(forward, x, y, 4)
    assert_exact(backward, y, x, 4)


@pytest.mark.parametrize("noise", [0.5, 0.05, 1e-4])
def test_what_a_pair_must_reach_is_reached_by_its_bound(sort, noise):
    x, y = (unit_rows(a) for a in (spiked(1100, 160, noise), spiked(1001, 160, noise)[::-1] + np.float32(0.01)))
    made = sort.of(x, y)
    there, back = block_search._views(made, made.packed(torch.arange(len(y))), 0, len(x), len(y))
    numbers = there.bounds.flatten(1)[: len(x), : len(y)]
    exact = x[made.order].double() @ y.double().T
    least = made.least(exact.float().flatten()).view(exact.shape)
    assert bool((numbers >= least)[least > 0].all())  # of 0, the search leaves the row to the other one
    tight = numbers < made.least((exact + 0.1).clamp_max(1).float().flatten()).view(exact.shape)
    assert tight[(exact > 0) & (exact < 0.9)].float().mean() > 0.99  # and not by far
    assert torch.equal(back.bounds.permute(0, 2, 1).flatten(1)[: len(y), : len(x)], numbers.T)
    for view, rows in ((there, len(x)), (back, len(y))):
        assert torch.equal(view.bounds.amax(1)[:rows], view.maxima)


def test_a_processor_without_such_products_finds_the_same(monkeypatch):
    x, y = decaying(1100, 96, 0.05), decaying(1000, 96, 0.05) + 0.01
    found = mutual_neighbours(x, y, 4)
    monkeypatch.setattr(block_search, "bounds_here", lambda: None)
    for one, other in zip(found, mutual_neighbours(x, y, 4), strict=True):
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.scores, other.scores)


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
    sizes, product = [], pruned_search.product

    def measured(a, b, out=None):
        sizes.append((len(a), len(b)))
        return product(a, b, out=out)

    monkeypatch.setattr(pruned_search, "product", measured)
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
