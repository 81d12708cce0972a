"""Checks of embeddings, and rows of length 1. Errors name the row: a zero vector has no direction and would score 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def refuse_broken(vectors: Any, where: Callable[[int], str]) -> None:
    """Raise ValueError for the first row that is NaN, infinite or all zero; `where(row)` says whose it is.

    In sparse matrices a row without entries passes: it is a text without known features.
    """
    if hasattr(vectors, "tocsr"):
        rows = vectors.tocsr()
        bad = np.zeros(rows.shape[0], bool)
        bad[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[~np.isfinite(rows.data)]] = True
    else:
        vectors = as_array(vectors, where(0))
        bad = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if bad.any():
        raise ValueError(f"{where(int(bad.argmax()))}: a NaN, infinite or zero embedding has no direction")


def check_counts(**counts: int) -> None:
    """Raise ValueError for one that is not a whole number of at least 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"{name} is {count!r}; it must be a whole number of at least 1")


def as_array(x: Any, name: str = "x") -> np.ndarray:
    """The array of a tensor, list or array (memory-mapped ones stay so)."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() and x.dtype != torch.float64 else x).numpy()
    x = np.asanyarray(x)
    if x.dtype.kind not in "if":
        fix = "unpack bits by np.unpackbits(x, axis=1) * 2.0 - 1" if x.dtype == np.uint8 else "convert them"
        raise ValueError(f"{name}: embeddings are floats or signed integers, not {str(x.dtype)!r}; {fix}")
    return x


def as_rows(x: Any, name: str = "x") -> Any:
    """`x` as a (rows, dimensions) array or CSR matrix with at least one of each."""
    x = x.tocsr() if hasattr(x, "tocsr") else as_array(x, name)
    if len(x.shape) != 2 or 0 in x.shape:
        raise ValueError(f"{name} must be a (rows, dimensions) matrix with at least one of each, got shape {x.shape}")
    return x


def unit_rows(x: Any, name: str = "x", first: int = 0) -> Any:
    """A new float32 array (or CSR matrix) with rows of length 1; `first` is the number of the first, for messages."""
    x = as_rows(x, name)
    refuse_broken(x, lambda row: f"{name}, row {first + row}")
    if not isinstance(x, np.ndarray):
        unit = x.astype(np.float64)
        norms = np.sqrt(np.asarray(unit.multiply(unit).sum(axis=1)).ravel())
        unit.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(unit.indptr))
        return unit.astype(np.float32)
    unit = np.empty(x.shape, np.float32)
    for start in range(0, len(x), 1024):  # float64 for a small block, and never in the caller's memory
        block = x[start : start + 1024].astype(np.float64)
        block /= np.abs(block).max(axis=1, keepdims=True)  # squares neither overflow nor vanish
        unit[start : start + 1024] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return unit
