"""Nearest neighbours by any faiss index, for collections that an exact search would take too long on.

Contract: blocks of embeddings in, the neighbours of one side out; a neighbour that was not found has index -1. The
index is held in memory; the embeddings are not. Where finished blocks are kept, so is the index until its last block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..utils.files import write_whole
from .blocks import Best, Blocks
from .checks import unit_rows
from .neighbours import Neighbours

TRAINING_ROWS = 262_144


def index_neighbours(best: Best, y: Blocks, index: str, *, progress: bool = False) -> Neighbours:
    """The best rows of y that `faiss.index_factory(index)` finds for each row of `best.side`.

    Inverted lists are probed as the index does by default, unless the string sets more
    ("IVF1024,Flat;nprobe=32": what follows a semicolon are faiss parameters).
    """
    try:
        import faiss
    except ImportError as error:
        raise ImportError("an index needs faiss: pip install 'hf-echo[faiss]'") from error
    x, found = best.side, best.neighbours
    missing = [number for number, done in enumerate(best.done) if not done]
    file = best.folder and best.folder / f"{y.name}.faiss"
    if missing:
        kind, _, parameters = index.partition(";")
        try:
            built = _read_or_build(faiss, kind, y, file)
            if parameters:
                faiss.ParameterSpace().set_index_parameters(built, parameters)
        except RuntimeError as error:
            raise ValueError(f"index {index!r} is refused by faiss: {str(error).strip().splitlines()[-1]}") from None
    for number in tqdm(missing, desc=f"Searching {y.name}", unit="block", disable=not progress):
        scores, indices = built.search(unit_rows(x.read_block(number)).numpy(), found.scores.shape[1])
        best.add(number, Neighbours(np.where(indices < 0, -np.inf, scores).astype(np.float32), indices))
    if file:
        file.unlink(missing_ok=True)
    return Neighbours(np.where(found.indices < 0, 0, found.scores), found.indices)


def _read_or_build(faiss: Any, kind: str, y: Blocks, file: Path | None) -> Any:
    if file and file.exists():
        return faiss.read_index(str(file))
    built = faiss.index_factory(y.width, kind, faiss.METRIC_INNER_PRODUCT)
    if not built.is_trained:
        built.train(_sample(y))
    for _, rows in y:
        built.add(unit_rows(rows).numpy())
    if file:
        with write_whole(file) as unfinished:
            faiss.write_index(built, str(unfinished))
    return built


def _sample(y: Blocks) -> np.ndarray:
    """Runs of rows from all over the collection."""
    runs = max(1, min(256, y.rows // 1024))
    size = min(TRAINING_ROWS, y.rows) // runs
    starts = np.linspace(0, y.rows - size, runs).astype(int)
    return unit_rows(np.concatenate([y.read(s, s + size) for s in starts])).numpy()
