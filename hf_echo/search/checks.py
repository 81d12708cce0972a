"""Checks of embeddings, and rows of length 1. Errors name the row: a zero vector has no direction and would score 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def refuse_broken(vectors: Any, where: Callable[[int], str]) -> None:
    """Raise ValueError for the first row that is NaN, infinite or all zero; `where(row)` says whose it is.

    Sparse matrices pass: a row without entries is a text without known features, and `unit_rows` sees to NaN.
    """
    if hasattr(vectors, "tocsr"):
        return
    if isinstance(vectors, torch.Tensor):
        bad = (~vectors.isfinite().all(1) | ~vectors.ne(0).any(1)).cpu().numpy()
    else:
        vectors = np.asarray(vectors)
        if vectors.dtype.kind not in "biuf":
            raise ValueError(f"{where(0)}: an embedding is numbers, not {vectors.dtype}")
        bad = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if bad.any():
        raise ValueError(f"{where(int(bad.argmax()))}: a NaN, infinite or zero embedding has no direction")


def unit_rows(x: Any, name: str = "x") -> Any:
    """A float32 tensor (or CSR matrix) with rows of length 1, zero rows left alone; refuses NaN, infinity."""
    if hasattr(x, "tocsr"):
        return _unit_rows_sparse(x.tocsr().astype(np.float64), name)
    is_tensor = isinstance(x, torch.Tensor)
    x = x.detach() if is_tensor else np.asarray(x)
    _check_shape(x.shape, name)
    unit = torch.empty(tuple(x.shape), dtype=torch.float32, device=x.device if is_tensor else None)
    for start in range(0, len(x), 1024):  # float64 for a small block, and never in the caller's memory
        rows = x[start : start + 1024]
        block = rows.double() if is_tensor else torch.from_numpy(np.array(rows, dtype=np.float64))
        norms = block.norm(dim=1, keepdim=True)
        if not bool(((norms > 1e-100) & (norms < 1e100)).all()):
            block, norms = _in_range(block, start, name)
        unit[start : start + 1024] = block.div_(norms)
    return unit


def _in_range(block: torch.Tensor, start: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows scaled so that their squares neither overflow nor vanish, and their norms; zero rows get norm 1."""
    if len(broken := (~torch.isfinite(block)).any(1).nonzero()):
        _refuse_row(start + int(broken[0]), name)
    largest = block.abs().amax(1, keepdim=True)
    block = block / torch.where(largest > 0, largest, 1.0)
    norms = block.norm(dim=1, keepdim=True)
    return block, torch.where(norms > 0, norms, 1.0)


def _unit_rows_sparse(x: Any, name: str) -> Any:
    _check_shape(x.shape, name)
    if len(broken := np.flatnonzero(~np.isfinite(x.data))):
        _refuse_row(int(np.searchsorted(x.indptr, broken[0], side="right")) - 1, name)
    norms = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    x.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(x.indptr))
    return x.astype(np.float32)


def _check_shape(shape: tuple, name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name} must be a (rows, dimensions) matrix with at least one of each, got shape {tuple(shape)}"
        )


def _refuse_row(row: int, name: str) -> None:
    raise ValueError(
        f"{name} holds NaN or infinite values, first in row {row}: look for broken embeddings before scoring them"
    )
