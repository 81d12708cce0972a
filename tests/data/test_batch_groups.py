"""Groups of rows for batches: language pairs, and clusters of near targets on generated vectors."""

from __future__ import annotations

import numpy as np
import pytest

from hf_echo.data.batch_groups import language_groups, neighbour_groups
from hf_echo.inference.embedding_store import StoredRows


def bundles(n=6, each=40, rows=500, d=16, noise=0.05):
    """(targets, the bundle of each row): texts near one of n far directions, each text in several rows."""
    rng = np.random.default_rng(0)
    centres = np.linalg.qr(rng.normal(size=(d, d)))[0][:n]
    matrix = np.repeat(centres, each, axis=0) + noise * rng.normal(size=(n * each, d))
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = np.concatenate([np.arange(n * each), rng.integers(0, n * each, rows - n * each)])
    return StoredRows(matrix.astype(np.float32).__getitem__, rng.permutation(index)), each


def test_near_texts_share_a_cluster():
    """With twice as many clusters as bundles, no cluster has texts of two bundles (k-means may split one)."""
    targets, each = bundles()
    groups = neighbour_groups(targets, 24)
    assert groups.shape == (500,) and groups.min() >= 0 and groups.max() < 24
    bundle = targets.index // each
    for group in set(groups):
        assert len(set(bundle[groups == group])) == 1


def test_the_seed_decides():
    targets, _ = bundles(noise=1.0)
    first = neighbour_groups(targets, 20, seed=3)
    np.testing.assert_array_equal(neighbour_groups(targets, 20, seed=3), first)
    assert (neighbour_groups(targets, 20, seed=4) != first).any()


@pytest.mark.parametrize("clusters", [0, 4])
def test_too_many_clusters(clusters):
    targets = StoredRows(np.eye(5, dtype=np.float32).__getitem__, np.array([0, 2, 2, 4, 0, 4]))
    assert len(set(neighbour_groups(targets, 3))) == 3
    with pytest.raises(
        ValueError, match=f"neighbour_groups={clusters} must be from 1 to 3, the number of distinct targets"
    ):
        neighbour_groups(targets, clusters)


def test_pairs_of_languages():
    """Equal language pairs have equal numbers; the two directions of a pair differ."""
    groups = language_groups(["fra", "deu", "fra", "eng", "fra"], ["eng", "eng", "eng", "fra", "deu"])
    assert groups[0] == groups[2] and len(set(groups)) == 4
    with pytest.raises(ValueError):
        language_groups(["fra"], [])
