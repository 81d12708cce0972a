"""Refusals that name the place: an embedding that is no direction would score as a silent zero."""

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
