"""Neighbours of collections that do not fit into memory: block by block, on disk, resumable, also on a cluster."""

from __future__ import annotations

import hashlib
import json
import re
import time
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import make_once
from .checks import as_rows, unit_rows
from .neighbours import Neighbours, unit_neighbours

BLOCK = 65_536  # rows of one side that are in memory at a time
TRAINING_ROWS = 262_144  # of an index: 1 GiB of 1,024 dimensions
WIDTH_TO_TRY = 3840  # many sizes of product quantisers divide it
AT_LEAST_ONE = re.compile(r"\b(nprobe|efSearch|k_factor\w*)=(?!0*[1-9])")


class Rows:
    """Embeddings in one array, or in several that follow one another (shards), read in parts as unit rows.

    A pickle of it holds the names of memory-mapped .npy files, not their rows; every machine must see these files.
    """

    def __init__(self, parts: Any, name: str):
        shards = isinstance(parts, (list, tuple)) and len(parts) and np.ndim(parts[0]) == 2
        self.parts, self.name = [as_rows(part, name) for part in (parts if shards else [parts])], name
        self.width, *others = sorted({part.shape[1] for part in self.parts})
        if others:
            raise ValueError(f"the parts of {name} differ in dimensions: {[self.width, *others]}")
        self.starts = np.cumsum([0, *(len(part) for part in self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Unit rows, float32; raises ValueError for a NaN, infinite or zero row."""
        return unit_rows(self._raw(start, stop), self.name, start)

    def digest(self) -> str:
        """Digest of all numbers; it does not depend on the files or on how many there are."""
        digest = hashlib.blake2b(f"{len(self)} {self.width} {self.parts[0].dtype}".encode(), digest_size=16)
        for start in range(0, len(self), BLOCK):
            digest.update(np.ascontiguousarray(self._raw(start, start + BLOCK)))
        return digest.hexdigest()

    def _raw(self, start: int, stop: int) -> np.ndarray:
        pieces = [
            part[max(start - first, 0) : stop - first]
            for first, part in zip(self.starts, self.parts, strict=False)
            if first < stop and first + len(part) > start
        ]
        return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def __getstate__(self) -> dict[str, Any]:
        """A slice of a mapped array has another base than the file: it is sent with its rows."""
        mapped = [isinstance(part, np.memmap) and isinstance(part.base, mmap) for part in self.parts]
        parts = [str(part.filename) if whole else part for whole, part in zip(mapped, self.parts, strict=True)]
        return {**vars(self), "parts": parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = [np.load(part, mmap_mode="r") if isinstance(part, str) else part for part in state["parts"]]
        vars(self).update(state, parts=parts)


def search_folder(work: str | Path | None, x: Rows, y: Rows, **options: Any) -> Path | None:
    """The folder in `work` for this search: its name depends on every bit of the embeddings and on the options."""
    if work is None:
        return None
    key = json.dumps([x.digest(), y.digest(), sorted(options.items())])
    return Path(work) / hashlib.blake2b(key.encode(), digest_size=8).hexdigest()


def neighbours_in_blocks(
    x: Rows,
    y: Rows,
    k: int,
    *,
    index: str | None = None,
    block: int = BLOCK,
    folder: Path | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
) -> Neighbours:
    """The k nearest rows of y for each row of x; a neighbour that an index did not find has index -1.

    Args:
        index: None searches y exactly, `block` rows at a time; a faiss index_factory string searches that index, which
            is in memory as a whole. What follows a semicolon are its parameters ("IVF1024,Flat;nprobe=32").
        folder: for the index and for the neighbours of each block of x, where a stopped search resumes.
        executor: where blocks are searched (default: in this process); a cluster needs a folder.
    """
    executor = executor or LocalExecutor(False)
    starts = range(0, len(x), block)
    if folder is None:
        built = None if index is None else _built(y, index, block)
        search = partial(_search_block, x=x, y=y, k=k, block=block, index=index, built=built)
        parts = [part for _, part in executor.map(search, starts, f"Searching {y.name}")]
        return Neighbours(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    files = {start: folder / f"{x.name}-{start:012d}.npz" for start in starts}
    missing = [start for start in starts if not files[start].exists()]
    stored = None
    if index is not None and missing:
        stored = make_once(folder / f"{y.name}.faiss", partial(_write_index, y, index, block))
    search = partial(_write_block, files=files, x=x, y=y, k=k, block=block, index=index, stored=stored)
    for _ in executor.map(search, missing, f"Searching {y.name}"):
        pass
    (folder / f"{y.name}.faiss").unlink(missing_ok=True)
    nearest = Neighbours.none_yet(len(x), k)
    for start, file in files.items():
        with np.load(file) as content:
            nearest.scores[start : start + block] = content["scores"]
            nearest.indices[start : start + block] = content["indices"]
    return nearest


def check_index(index: str) -> None:
    """Raise ValueError for an index that faiss cannot read. What depends on the width of embeddings comes later."""
    if bad := AT_LEAST_ONE.search(index):
        raise ValueError(f"index {index!r}: {bad[1]} must be at least 1")
    try:
        _empty_index(WIDTH_TO_TRY, index)
    except ValueError as error:
        if "could not" in str(error):
            raise


def _search_block(start: int, x: Rows, y: Rows, k: int, block: int, index: str | None, built: Any = None) -> Neighbours:
    queries = x.read(start, start + block)
    if built is not None:
        scores, indices = built.search(queries, k)
        return Neighbours(np.where(indices < 0, 0, scores).astype(np.float32), indices)
    nearest = Neighbours.none_yet(len(queries), k)
    for first in range(0, len(y), block):
        rows = y.read(first, first + block)
        nearest = nearest.merged(unit_neighbours(queries, rows, min(k, len(rows))), first)
    return nearest


def _write_block(start: int, files: dict[int, Path], stored: Path | None, index: str | None, **options: Any) -> None:
    built = None
    if stored is not None:
        import faiss

        built = faiss.read_index(str(stored), faiss.IO_FLAG_MMAP)
        _set_parameters(built, index)
    nearest = _search_block(start, index=index, built=built, **options)
    make_once(files[start], lambda unfinished: np.savez(unfinished, **nearest._asdict()))


def _write_index(y: Rows, index: str, block: int, unfinished: Path) -> None:
    import faiss

    faiss.write_index(_built(y, index, block), str(unfinished))


def _built(y: Rows, index: str, block: int) -> Any:
    built = _empty_index(y.width, index)
    if not built.is_trained:  # on runs of rows from all over the collection
        runs = max(1, min(256, len(y) // 1024))
        size = min(TRAINING_ROWS, len(y)) // runs
        starts = np.linspace(0, len(y) - size, runs).astype(int)
        _faiss(index, built.train, np.concatenate([y.read(start, start + size) for start in starts]))
    for start in range(0, len(y), block):
        _faiss(index, built.add, y.read(start, start + block))
    return built


def search_cost(rows: int, width: int, k: int, index: str | None) -> tuple[float, float]:
    """(seconds for each query and row, bytes of the index for each row), measured on at most BLOCK random rows."""
    import faiss

    y = Rows(np.random.default_rng(0).normal(size=(min(rows, BLOCK), width)).astype(np.float32), "rows")
    queries, built = Rows(y.parts[0][:512], "rows"), None if index is None else _built(y, index, BLOCK)
    start = time.perf_counter()
    _search_block(0, queries, y, k, BLOCK, index, built)
    seconds = (time.perf_counter() - start) / (len(queries) * len(y))
    return seconds, 0.0 if built is None else faiss.serialize_index(built).nbytes / len(y)


def _empty_index(width: int, index: str) -> Any:
    import faiss

    built = _faiss(index, faiss.index_factory, width, index.partition(";")[0], faiss.METRIC_INNER_PRODUCT)
    _set_parameters(built, index)  # a wrong parameter is refused before the index is filled
    return built


def _set_parameters(built: Any, index: str) -> None:
    import faiss

    if parameters := index.partition(";")[2]:
        _faiss(index, faiss.ParameterSpace().set_index_parameters, built, parameters)


def _faiss(index: str, call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except RuntimeError as error:  # "Error in virtual void faiss::... at /.../AutoTune.cpp:624: REASON"
        reason = str(error).strip().splitlines()[-1].rpartition(".cpp:")[2].partition(": ")[2]
        raise ValueError(f"index {index!r} is refused by faiss: {reason or error}") from None
