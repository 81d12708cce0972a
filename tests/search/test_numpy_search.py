"""The search in NumPy that travels with metrics finds what the package's own search finds."""

import numpy as np
import pytest

from hf_echo.search import margin_scores, mutual_neighbours, nearest_neighbours
from hf_echo.search.margin import best_matches
from hf_echo.search.numpy_search import BLOCK, best_rows, nearest_rows, ratio_margins, unit_vectors


def pairs(rows: int, dimensions: int = 16, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """x and y (rows, dimensions) float32; x[i] is y[i] with noise."""
    rng = np.random.default_rng(rows)
    y = rng.normal(size=(rows, dimensions))
    x = y + noise * rng.normal(size=y.shape)
    return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize("rows", [3, 60, BLOCK + 44])
def test_neighbours_are_those_of_the_fast_search(rows):
    x, y = pairs(rows)

    scores, indices = nearest_rows(unit_vectors(x, "x"), unit_vectors(y, "y"), 3)

    # The package's search by faiss.
    fast = nearest_neighbours(x, y, 3)
    np.testing.assert_array_equal(indices, fast.indices)
    np.testing.assert_array_equal(scores, fast.scores)


def test_equal_cosines_are_ordered_by_lowest_row():
    x = unit_vectors([[1.0, 0.0]], "x")
    y = unit_vectors([[0.0, 1.0], [2.0, 0.0], [1.0, 0.0], [5.0, 0.0]], "y")

    _, indices = nearest_rows(x, y, 3)

    assert indices.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("margin", [None, "cosine", "ratio", "distance"])
@pytest.mark.parametrize("rows", [3, 60, BLOCK + 44])
def test_best_rows_are_those_of_the_fast_search(rows, margin):
    x, y = pairs(rows)
    pool = np.concatenate([y, y[::-1] + np.float32(0.5)])

    best = best_rows(unit_vectors(x, "x"), unit_vectors(pool, "y"), margin, k=4)

    # The package's search, for the same margin.
    np.testing.assert_array_equal(best, best_matches(x, pool, margin, k=4))


@pytest.mark.parametrize("rows", [3, 60, BLOCK + 44])
def test_ratio_margins_are_those_of_mining(rows):
    x, y = pairs(rows, noise=0.2)

    margins = ratio_margins(unit_vectors(x, "x"), unit_vectors(y, "y"), k=3)

    forward, backward = mutual_neighbours(x, y, 3)
    is_pair = forward.indices == np.arange(rows)[:, None]
    mined = margin_scores(forward, backward, "ratio")[is_pair]
    assert len(mined) == rows  # each translation is among the three neighbours
    np.testing.assert_allclose(margins, mined, rtol=1e-12)


def test_ratio_margin_is_the_published_quotient():
    """Artetxe and Schwenk 2019: cosine over the mean of both sides' mean cosines with k
    neighbours."""
    x, y = pairs(200, dimensions=4, noise=0.1)  # four dimensions: every row has near neighbours
    unit_x = unit_vectors(x, "x")
    unit_y = unit_vectors(y, "y")

    margins = ratio_margins(unit_x, unit_y, k=4)

    cosines = unit_x @ unit_y.T
    around_x = np.sort(cosines, axis=1)[:, -4:].mean(axis=1)
    around_y = np.sort(cosines, axis=0)[-4:].mean(axis=0)
    published = np.diag(cosines) / ((around_x + around_y) / 2)
    np.testing.assert_allclose(margins, published, rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 0], [0, 0]], "refs, row 1: a NaN, infinite or zero embedding has no direction"),
        ([1, 2], r"refs must be vectors, at least one; got an array of shape \(2,\)"),
        ([[1, 2, 3]], "refs have 3 dimensions, not 2: use one model for all"),
    ],
)
def test_what_is_no_vector_is_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        unit_vectors(rows, "refs", dimensions=2)
