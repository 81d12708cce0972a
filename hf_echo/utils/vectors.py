"""Arithmetic of embeddings that several folders need."""

from __future__ import annotations

import numpy as np


def unit_length(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Divide each vector of `x` (its last axis) by its L2 norm, into `out` if given;
    a zero vector stays zero."""
    return np.divide(x, np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12), out=out)
