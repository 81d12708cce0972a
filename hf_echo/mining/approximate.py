"""Nearest neighbours by any faiss index, for collections that an exact search would take too long on.

Contract: blocks of embeddings in, `Neighbours` out; a neighbour that was not found has index -1. The index is
held in memory; the embeddings are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluation.neighbours import Neighbours, unit_rows

TRAINING_ROWS = 262_144


def index_neighbours(x: Any, y: Any, k: int, index: str) -> Neighbours:
    """The k best rows of y that `faiss.index_factory(index)` finds for each row of x.

    x, y: `bitext.Blocks`. Inverted lists are probed as the index does by default, unless the string says more
    ("IVF1024,Flat;nprobe=32": what follows a semicolon are faiss parameters).
    """
    try:
        import faiss
    except ImportError as error:
        raise ImportError("an index needs faiss: pip install 'hf-echo[faiss]'") from error
    kind, _, parameters = index.partition(";")
    try:
        built = faiss.index_factory(y.width, kind, faiss.METRIC_INNER_PRODUCT)
        if not built.is_trained:
            built.train(_sample(y))
        if parameters:
            faiss.ParameterSpace().set_index_parameters(built, parameters)
    except RuntimeError as error:
        raise ValueError(
            f"index {index!r} is refused by faiss: {str(error).strip().splitlines()[-1]}"
        ) from None
    for _, rows in y:
        built.add(unit_rows(rows).numpy())
    parts = [built.search(unit_rows(rows).numpy(), k) for _, rows in x]
    scores, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Neighbours(np.where(indices < 0, 0, scores).astype(np.float32), indices)


def _sample(y: Any) -> np.ndarray:
    """Runs of rows from all over the collection."""
    runs = max(1, min(256, y.rows // 1024))
    size = min(TRAINING_ROWS, y.rows) // runs
    starts = np.linspace(0, y.rows - size, runs).astype(int)
    return unit_rows(np.concatenate([y.read(s, s + size) for s in starts])).numpy()
