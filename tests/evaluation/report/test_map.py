"""The two-dimensional map: what is near stays near, whatever library draws it, and twice the same."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hf_echo.evaluation.report.space import project


def clusters():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(3, 32), 15, axis=0) + 0.05 * rng.normal(size=(45, 32))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.repeat(np.arange(3), 15)


def same_cluster_is_nearest(flat, labels) -> bool:
    distance = np.linalg.norm(flat[:, None] - flat[None], axis=2) + 1e9 * np.eye(len(flat))
    return bool((labels[distance.argmin(1)] == labels).all())


@pytest.mark.parametrize(
    ("missing", "name", "needs"),
    [
        (["umap"], "t-SNE", "sklearn"),
        (["umap", "sklearn.manifold"], "PCA", "numpy"),
        pytest.param([], "UMAP", "umap", marks=pytest.mark.slow),  # compiles for a minute
    ],
)
def test_projections(monkeypatch, missing, name, needs):
    pytest.importorskip(needs)
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    rows, labels = clusters()
    method, flat = project(rows)
    assert method == name and flat.shape == (45, 2)
    assert same_cluster_is_nearest(flat, labels)
    np.testing.assert_array_equal(project(rows)[1], flat)
