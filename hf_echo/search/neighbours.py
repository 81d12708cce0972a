"""Exact nearest neighbours by cosine, in bounded memory, in one pass for both directions.

Contract: two matrices in; for each row, the k best rows of the other matrix out. Translations are not used here.

What "exact" means. Rows are scaled to length 1 and kept in float32; the score of a pair is their dot product
in float64, rounded to float32; the best score comes first and equal scores are ordered by LOWEST INDEX. So
the answer depends neither on `memory` nor on the number of threads. How it is found: `exact`.

A zero row has no direction: its cosine with everything is 0, so its neighbours are the rows of lowest index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .checks import unit_rows
from .exact import search
from .pair_scores import key_columns, key_scores

MEMORY = 2**26  # floats: 256 MB


class Neighbours(NamedTuple):
    """`scores` (n, k) float32 cosines, best first; `indices` (n, k) int64 rows of the other matrix."""

    scores: np.ndarray
    indices: np.ndarray

    def merged(self, new: Neighbours, offset: int) -> Neighbours:
        """The best of these and of the next rows of the other matrix, whose first row is `offset`.

        Blocks come in the order of their rows, so a stable sort orders equal scores by lowest row.
        """
        scores = np.concatenate([self.scores, new.scores], axis=1)
        indices = np.concatenate([self.indices, np.where(new.indices < 0, -1, new.indices + offset)], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.scores.shape[1]]
        return Neighbours(np.take_along_axis(scores, order, axis=1), np.take_along_axis(indices, order, axis=1))

    @classmethod
    def none_yet(cls, rows: int, k: int) -> Neighbours:
        """Index -1 and score minus infinity everywhere."""
        return cls(np.full((rows, k), -np.inf, np.float32), np.full((rows, k), -1, np.int64))


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


def mutual_neighbours(
    x: Any, y: Any, k: int, k_back: int | None = None, *, memory: int = MEMORY
) -> tuple[Neighbours, Neighbours]:
    """(neighbours of x in y, neighbours of y in x) from one pass over the products: what margin scores need.

    As `nearest_neighbours`; k may not exceed the rows of y, and k_back (default: k) those of x.
    """
    x, y = unit_rows(x, "x"), unit_rows(y, "y")
    k_back = k if k_back is None else k_back
    _check(x, y, k, y.shape[0], memory)
    _check(x, y, k_back, x.shape[0], memory)
    forward, backward = search(x, _beside(y, x), k, k_back, memory)
    return _neighbours(forward), _neighbours(backward)


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
