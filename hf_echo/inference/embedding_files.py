"""Rows of embeddings in files, in order: for mining and `encode_file`, which read all rows from
first to last.

`EmbeddingStore` takes four times as long to write and read a million rows, and holds their keys in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import make_once


def encoded(
    encode: Callable[[list[str], Any], Any], texts: list[str], lang: Any, what: str | None = None
) -> Any:
    """The embeddings of texts in one language: (len(texts), d) float32, dense or CSR.
    `what` names them in an error."""
    rows = encode(texts, lang)
    if hasattr(rows, "detach"):
        rows = rows.detach().float().cpu()  # numpy has no bfloat16
    rows = rows.tocsr().astype(np.float32) if is_sparse(rows) else np.asarray(rows, np.float32)
    if rows.ndim != 2 or rows.shape[0] != len(texts):
        what = what or f"texts in {lang!r}"
        raise ValueError(
            f"the encoder gave shape {rows.shape} for {len(texts)} {what}; it must give one row per text"
        )
    return rows


def encode_shards(
    folder: Path,
    rows: int,
    shard: int,
    make: Callable[[int, int], np.ndarray],
    *,
    executor: LocalExecutor | RayExecutor | None = None,
    label: str = "Encoding",
) -> list[np.ndarray]:
    """Write `make(start, stop)` for each shard of rows that has no file yet; return memory-mapped
    arrays, in order.

    Float32, as margins compare near neighbours: float16 changes the scores of mined pairs by up to
    8e-5.
    """
    executor = executor or LocalExecutor(False)
    shards = [
        (folder / f"{number:06d}.npy", start, min(start + shard, rows))
        for number, start in enumerate(range(0, rows, shard))
    ]
    missing = [item for item in shards if not item[0].exists()]
    for _ in executor.map(partial(_make_shard, make), missing, label, executor.gpus):
        pass
    return [np.load(path, mmap_mode="r") for path, _, _ in shards]


def _make_shard(make: Callable[[int, int], np.ndarray], item: tuple[Path, int, int]) -> None:
    path, start, stop = item
    make_once(path, lambda unfinished: np.save(unfinished, make(start, stop)))


def take_rows(parts: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """(len(rows), d) float32 of arrays that follow one another; zeros for -1."""
    out = np.zeros((len(rows), parts[0].shape[1]), np.float32)
    starts = np.cumsum([0, *map(len, parts)])
    number = np.searchsorted(starts, rows, "right") - 1
    for part in np.unique(number[rows >= 0]):
        here = np.flatnonzero(number == part)
        out[here] = parts[part][rows[here] - starts[part]]
    return out


def is_sparse(rows: Any) -> bool:
    return hasattr(rows, "tocsr")
