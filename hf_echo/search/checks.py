"""Checks of embeddings, and rows of length 1. Errors name the row.

A zero vector has no direction: it is that of a text without known tokens. Searches that go through
whole collections leave it out and count it; others refuse it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

# (rows, dimensions), real numbers
Embeddings: TypeAlias = ArrayLike | torch.Tensor | sparse.spmatrix
Matrix: TypeAlias = np.ndarray | sparse.csr_matrix  # the same, checked
logger = logging.getLogger(__name__)

BLOCK = 1024  # rows that are in float64 at a time


def refuse_broken(vectors: Embeddings, where: Callable[[int], str], *, zeros: bool = True) -> None:
    """Raise ValueError for the first row that is NaN, infinite or all zero; `where(row)` says whose
    it is.

    In sparse matrices a row without entries passes: it is a text without known features. Without
    `zeros`, zero rows of others pass, too.
    """
    if sparse.issparse(vectors):
        entries = vectors.tocoo()
        broken_rows = np.sort(entries.row[~np.isfinite(entries.data)])
    else:
        rows = as_array(vectors, where(0))
        is_broken = ~np.isfinite(rows).all(axis=1)
        if zeros:
            is_broken |= ~rows.any(axis=1)
        broken_rows = np.flatnonzero(is_broken)
    if len(broken_rows):
        raise ValueError(
            f"{where(int(broken_rows[0]))}: a NaN, infinite or zero embedding has no direction"
        )


def has_direction(vectors: Embeddings, name: str = "x") -> np.ndarray:
    """(rows,) whether a row is not all zero. True for each row of a sparse matrix,
    whose empty rows have cosine 0."""
    rows = as_rows(vectors, name)
    if sparse.issparse(rows):
        return np.ones(rows.shape[0], bool)
    return rows.any(axis=1)


def log_zero_rows(name: str, is_left_out: np.ndarray) -> None:
    """Say how many rows were left out of a search, if any."""
    rows = np.flatnonzero(is_left_out)
    if len(rows):
        logger.warning(
            "%s: left out %s (rows whose embedding is zero, the first is row %s)",
            name,
            len(rows),
            rows[0],
        )


def as_array(x: Embeddings, name: str = "x") -> np.ndarray:
    """The array of a tensor, list or array (memory-mapped ones stay so)."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        if x.dtype in (torch.float16, torch.bfloat16):  # numpy has no bfloat16
            x = x.float()
    array = np.asanyarray(x)
    if array.dtype.kind not in "if":
        raise ValueError(
            f"{name}: embeddings are floats or signed integers, not {str(array.dtype)!r}; unpack bits by "
            "np.unpackbits(x, axis=1) * 2.0 - 1"
        )
    return array


def as_rows(x: Embeddings, name: str = "x") -> Matrix:
    """`x` as a (rows, dimensions) array or CSR matrix with at least one of each."""
    rows = x.tocsr() if sparse.issparse(x) else as_array(x, name)
    if len(rows.shape) != 2 or 0 in rows.shape:
        raise ValueError(
            f"{name} must be a (rows, dimensions) matrix with at least one of each, got shape {rows.shape}"
        )
    return rows


def unit_rows(x: Embeddings, name: str = "x", first: int = 0) -> Matrix:
    """A new float32 array (or CSR matrix) with rows of length 1;
    `first` is the number of the first, for messages."""
    rows = as_rows(x, name)
    refuse_broken(rows, lambda row: f"{name}, row {first + row}")
    if sparse.issparse(rows):
        from sklearn.preprocessing import normalize

        return normalize(rows.astype(np.float64)).astype(np.float32)
    unit = np.empty(rows.shape, np.float32)
    # float64 for a small block, and never in the caller's memory
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK].astype(np.float64)
        block /= np.abs(block).max(axis=1, keepdims=True)  # squares neither overflow nor vanish
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        unit[start : start + BLOCK] = block
    return unit
