"""Exact scores of pairs of rows, and the keys that put them in order.

Contract: unit rows (float32 tensors or CSR matrices) in; their dot products in float64, rounded to float32, out.
A key is one int64 that orders by score and then by lowest index: topk alone promises nothing about ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

NO_PAIR = torch.iinfo(torch.int64).min


def product(x: Any, y: Any, out: torch.Tensor | None = None) -> torch.Tensor:
    """(n, m) x @ y.T in float32 or wider, into `out` if given."""
    if isinstance(x, torch.Tensor) and x.dtype != torch.bfloat16:
        return torch.mm(x, y.T, out=out)
    scores = x @ y.T
    scores = scores.float() if isinstance(scores, torch.Tensor) else torch.from_numpy(scores.toarray())
    return scores if out is None else out.copy_(scores)


def as_double(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) else x.astype(np.float64)


def rounding(x: Any) -> float:
    """Largest |float32 product - exact score| of unit rows, as torch's matrix product is set."""
    terms = x.shape[1] if isinstance(x, torch.Tensor) else int(np.diff(x.indptr).max())
    coarse = torch.get_float32_matmul_precision() != "highest"  # inputs are rounded to bfloat16, or its like
    return terms * 2.0**-24 + 2.0**-22 + coarse * 2.0**-6


def pair_scores(
    x: Any, y: Any, rows: torch.Tensor, columns: torch.Tensor, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Dot products of x[rows] and y[columns], in chunks that fit the cache. In float32 they are off by
    `rounding` at most (sparse matrices: exact as well)."""
    if not isinstance(x, torch.Tensor):
        return _sparse_pair_scores(x, y, rows.numpy(), columns.numpy())
    scores = torch.empty(len(rows), device=x.device)
    chunk = max(1, (2**16 if x.device.type == "cpu" else 2**26) // x.shape[1])
    for i in range(0, len(rows), chunk):
        left = x.index_select(0, rows[i : i + chunk]).to(dtype)
        scores[i : i + chunk] = left.mul_(y.index_select(0, columns[i : i + chunk])).sum(1)
    return scores


def _sparse_pair_scores(x: Any, y: Any, rows: np.ndarray, columns: np.ndarray) -> torch.Tensor:
    scores = torch.empty(len(rows))
    for i in range(0, len(rows), 2**16):
        left, right = (a[at[i : i + 2**16]].astype(np.float64) for a, at in ((x, rows), (y, columns)))
        scores[i : i + 2**16] = torch.from_numpy(np.asarray(left.multiply(right).sum(axis=1)).ravel())
    return scores


def pair_keys(scores: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """High half: the float32's bits, made monotone (negative floats order backwards). Low half: the index,
    counted down."""
    bits = (scores + 0.0).view(torch.int32)  # + 0.0 makes -0.0 equal 0.0
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    return (bits << 32) | (0xFFFFFFFF - columns)


def key_scores(keys: torch.Tensor) -> torch.Tensor:
    """float32; minus infinity for NO_PAIR."""
    bits = (keys >> 32).int()
    scores = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).view(torch.float32)
    return torch.where(keys == NO_PAIR, -torch.inf, scores)


def key_columns(keys: torch.Tensor) -> torch.Tensor:
    return 0xFFFFFFFF - (keys & 0xFFFFFFFF)


def take(x: Any, rows: torch.Tensor) -> Any:
    return x.index_select(0, rows) if isinstance(x, torch.Tensor) else x[rows.numpy()]
