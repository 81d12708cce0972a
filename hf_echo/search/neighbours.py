"""Exact nearest neighbours by cosine, in bounded memory, in one pass for both directions.

Contract: two matrices in, the k best rows of the other one out. Which rows are translations of which is not
known here.

What "exact" means. Rows are scaled to length 1 and kept in float32; the score of a pair is their dot product
in float64, rounded to float32; the best score comes first and equal scores are ordered by LOWEST INDEX. So
the answer depends neither on `memory` nor on the number of threads. How it is found: `block_search`,
`pruned_search`.

A zero row has no direction: its cosine with everything is 0, so its neighbours are the rows of lowest index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .block_search import search
from .pair_scores import key_columns, key_scores

MEMORY = 2**26  # floats: 256 MB


class Neighbours(NamedTuple):
    """`scores` (n, k) float32 cosines, best first; `indices` (n, k) int64 rows of the other matrix."""

    scores: np.ndarray
    indices: np.ndarray


def nearest_neighbours(x: Any, y: Any, k: int, *, memory: int = MEMORY) -> Neighbours:
    """The k rows of `y` with the highest cosine for each row of `x`.

    Args:
        x: (n, d) numpy array, torch tensor (any device, any real dtype) or scipy sparse matrix.
        y: (m, d), of the same sort as x.
        k: 1 <= k <= m.
        memory: about so many float32 numbers are held beside the unit rows (on a CPU, beside two copies of them
            for a moment); it changes the time, never the answer.

    Raises:
        ValueError: empty, not two-dimensional, NaN or infinite input, different d, impossible k.
    """
    x, y = unit_rows(x, "x"), unit_rows(y, "y")
    _check(x, y, k, y.shape[0], memory)
    return _neighbours(search(x, _beside(y, x), k, None, memory)[0])


def mutual_neighbours(x: Any, y: Any, k: int, *, memory: int = MEMORY) -> tuple[Neighbours, Neighbours]:
    """(neighbours of x in y, neighbours of y in x) from one pass over the products: what margin scores need.

    As `nearest_neighbours`; k may not exceed the smaller of n and m.
    """
    x, y = unit_rows(x, "x"), unit_rows(y, "y")
    _check(x, y, k, min(x.shape[0], y.shape[0]), memory)
    forward, backward = search(x, _beside(y, x), k, k, memory)
    return _neighbours(forward), _neighbours(backward)


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


def _check(x: Any, y: Any, k: int, largest: int, memory: int) -> None:
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x has {x.shape[1]} dimensions and y has {y.shape[1]}: they must come from one space")
    if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
        raise ValueError("one of x and y is sparse and the other dense: convert one of them")
    if not 1 <= k <= largest:
        raise ValueError(f"k is {k}, must be from 1 to {largest}, the number of rows to choose from")
    if memory < 1:
        raise ValueError(f"memory is {memory}, must be at least 1")


def _beside(y: Any, x: Any) -> Any:
    return y.to(x.device) if isinstance(x, torch.Tensor) else y


def _neighbours(keys: torch.Tensor) -> Neighbours:
    return Neighbours(key_scores(keys).cpu().numpy(), key_columns(keys).cpu().numpy())
