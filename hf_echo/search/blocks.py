"""Neighbours of collections that do not fit into memory:
block by block, on disk, resumable, also on a cluster."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import make_once
from .checks import Embeddings, as_rows, has_direction, log_zero_rows, unit_rows
from .neighbours import Neighbours, unit_neighbours

BLOCK = 65_536  # rows of one side that are in memory at a time
TRAINING_ROWS = 262_144  # of an index: 1 GiB of 1,024 dimensions
WIDTH_TO_TRY = 3840  # many sizes of product quantisers divide it
AT_LEAST_ONE = re.compile(r"\b(nprobe|efSearch|k_factor\w*)=(?!0*[1-9])")


class Rows:
    """Embeddings in one array, or in several that follow one another (shards), read in parts as
    unit rows.

    A pickle of it holds the names of memory-mapped .npy files, not their rows; every machine must
    see these files.
    """

    def __init__(self, parts: Embeddings | Sequence[Embeddings], name: str):
        is_list_of_shards = (
            isinstance(parts, (list, tuple)) and len(parts) and np.ndim(parts[0]) == 2
        )
        if not is_list_of_shards:
            parts = [parts]
        self.name = name
        self.kept: np.ndarray | None = None  # the rows that are read, where some are left out
        self.parts = [as_rows(part, name) for part in parts]
        self.width = self.parts[0].shape[1]
        self.starts = [0]  # the first row of each part, and the number of all rows
        for part in self.parts:
            self.starts.append(self.starts[-1] + len(part))
        widths = sorted({part.shape[1] for part in self.parts})
        if len(widths) > 1:
            raise ValueError(f"the parts of {name} differ in dimensions: {widths}")

    def __len__(self) -> int:
        return self.starts[-1] if self.kept is None else len(self.kept)

    def with_direction(self) -> Rows:
        """These rows without those that are all zero; a line of the log counts them.

        Raises:
            ValueError: all of them are.
        """
        # Block by block, since the rows may be on disk.
        is_zero = []
        for start in range(0, len(self), BLOCK):
            is_zero.append(~has_direction(self.raw(start, start + BLOCK)))
        left_out = np.concatenate(is_zero)
        if not left_out.any():
            return self
        if left_out.all():
            raise ValueError(
                f"{self.name}: all {len(left_out)} embeddings are zero, and have no direction"
            )
        log_zero_rows(self.name, left_out)
        rows = copy.copy(self)
        rows.kept = np.flatnonzero(~left_out)
        return rows

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """The numbers of rows in the whole collection; -1, for none, stays."""
        return rows if self.kept is None else np.where(rows < 0, rows, self.kept[rows])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Unit rows, float32; raises ValueError for a NaN, infinite or zero row."""
        return unit_rows(self.raw(start, stop), self.name, start)

    def digest(self) -> str:
        """Digest of all numbers; it does not depend on the files or on how many there are."""
        digest = hashlib.blake2b(
            f"{len(self)} {self.width} {self.parts[0].dtype}".encode(), digest_size=16
        )
        # In blocks of one size, so that it does not depend on the shards.
        for start in range(0, len(self), BLOCK):
            digest.update(np.ascontiguousarray(self.raw(start, start + BLOCK)))
        return digest.hexdigest()

    def raw(self, start: int, stop: int) -> np.ndarray:
        """Rows as they are, float or integer."""
        if self.kept is None:
            return self._rows_of_parts(start, stop)
        rows = self.kept[start:stop]
        return self._rows_of_parts(rows[0], rows[-1] + 1)[rows - rows[0]]

    def _rows_of_parts(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        for first, part in zip(self.starts, self.parts, strict=False):
            if first < stop and first + len(part) > start:
                pieces.append(part[max(start - first, 0) : stop - first])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def __getstate__(self) -> dict[str, Any]:
        parts = []
        for part in self.parts:
            # A slice of a mapped array has another base than the file: it is sent with its rows.
            is_whole_file = isinstance(part, np.memmap) and isinstance(part.base, mmap)
            parts.append(str(part.filename) if is_whole_file else part)
        return {**vars(self), "parts": parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.parts = [
            np.load(part, mmap_mode="r") if isinstance(part, str) else part
            for part in state["parts"]
        ]


def search_folder(work: str | Path | None, x: Rows, y: Rows, **options: Any) -> Path | None:
    """The folder in `work` for this search: its name depends on every bit of the embeddings and on
    the options."""
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
    """The k nearest rows of y for each row of x; a neighbour that an index did not find has index
    -1.

    Args:
        index: None searches y exactly, `block` rows at a time; a faiss index_factory string
            searches that index, which is in memory as a whole. What follows a semicolon are its
            parameters ("IVF1024,Flat;nprobe=32").
        folder: for the index and for the neighbours of each block of x, where a stopped search
            resumes.
        executor: where blocks are searched (default: in this process); a cluster needs a folder.
    """
    # Without a folder the neighbours stay in memory.
    executor = executor or LocalExecutor(False)
    label = f"Searching {y.name}"
    starts = range(0, len(x), block)
    if folder is None:
        faiss_index = None if index is None else _filled_index(y, index, block)
        search = partial(_search_block, x=x, y=y, k=k, block=block, faiss_index=faiss_index)
        parts = [part for _, part in executor.map(search, starts, label)]
        return Neighbours(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    # With a folder each block of x has a file; a later call makes those that are missing.
    files = {start: folder / f"{x.name}-{start:012d}.npz" for start in starts}
    missing = [start for start in starts if not files[start].exists()]
    index_file = None
    if index is not None and missing:
        index_file = make_once(folder / f"{y.name}.faiss", partial(_write_index, y, index, block))
    write = partial(
        _write_block, files=files, x=x, y=y, k=k, block=block, index=index, index_file=index_file
    )
    for _ in executor.map(write, missing, label):
        pass  # the neighbours are in the files
    (folder / f"{y.name}.faiss").unlink(missing_ok=True)

    nearest = Neighbours.none_yet(len(x), k)
    for start, file in files.items():
        with np.load(file) as content:
            nearest.scores[start : start + block] = content["scores"]
            nearest.indices[start : start + block] = content["indices"]
    return nearest


def check_index(index: str | None) -> None:
    """Raise ValueError for an index that faiss cannot read.
    What depends on the width of embeddings comes later."""
    if index is None:
        return
    zero_parameter = AT_LEAST_ONE.search(index)
    if zero_parameter:
        raise ValueError(f"index {index!r}: {zero_parameter[1]} must be at least 1")
    try:
        empty_index(WIDTH_TO_TRY, index)
    except ValueError as error:
        if "could not" in str(error):
            raise


def _search_block(
    start: int, x: Rows, y: Rows, k: int, block: int, faiss_index: Any = None
) -> Neighbours:
    """The neighbours of the rows `start` to `start + block` of x."""
    queries = x.read(start, start + block)
    if faiss_index is not None:
        scores, indices = faiss_index.search(queries, k)
        return Neighbours(np.where(indices < 0, 0, scores).astype(np.float32), indices)
    nearest = Neighbours.none_yet(len(queries), k)
    for first in range(0, len(y), block):
        rows = y.read(first, first + block)
        nearest = nearest.merged(unit_neighbours(queries, rows, min(k, len(rows))), first)
    return nearest


def _write_block(
    start: int, files: dict[int, Path], index_file: Path | None, index: str | None, **options: Any
) -> None:
    """Search the neighbours of a block of rows and write them, once."""
    import faiss

    faiss_index = None
    if index_file is not None:
        faiss_index = faiss.read_index(str(index_file), faiss.IO_FLAG_MMAP)
        _set_parameters(faiss_index, index)
    nearest = _search_block(start, faiss_index=faiss_index, **options)
    make_once(files[start], lambda unfinished: np.savez(unfinished, **nearest._asdict()))


def _write_index(y: Rows, index: str, block: int, unfinished: Path) -> None:
    import faiss

    faiss.write_index(_filled_index(y, index, block), str(unfinished))


def _filled_index(y: Rows, index: str, block: int) -> Any:
    """An index of faiss, trained where it must be, with all rows of `y`."""
    faiss_index = empty_index(y.width, index)
    if not faiss_index.is_trained:
        # Runs of rows from all over the collection stand for it.
        runs = max(1, min(256, len(y) // 1024))
        size = min(TRAINING_ROWS, len(y)) // runs
        starts = np.linspace(0, len(y) - size, runs).astype(int)
        training_rows = np.concatenate([y.read(start, start + size) for start in starts])
        try:
            call_faiss(index, faiss_index.train, training_rows)
        except ValueError as error:
            raise ValueError(
                f"{error}; there are {len(y):,} rows: name a smaller index, such as SQ8"
            ) from None
    for start in range(0, len(y), block):
        call_faiss(index, faiss_index.add, y.read(start, start + block))
    return faiss_index


def search_cost(rows: int, width: int, k: int, index: str | None) -> tuple[float, float]:
    """(seconds for each query and row, bytes of the index for each row),
    measured on at most BLOCK random rows."""
    import faiss

    # Random rows cost as much as others; a second search would have a warm cache.
    numbers = np.random.default_rng(0).normal(size=(min(rows, BLOCK), width)).astype(np.float32)
    y = Rows(numbers, "rows")
    queries = Rows(numbers[:512], "rows")
    faiss_index = None
    index_bytes = 0
    if index is not None:
        faiss_index = _filled_index(y, index, BLOCK)
        index_bytes = faiss.serialize_index(faiss_index).nbytes
    start = time.perf_counter()
    _search_block(0, queries, y, k, BLOCK, faiss_index)
    seconds = time.perf_counter() - start
    return seconds / (len(queries) * len(y)), index_bytes / len(y)


def empty_index(width: int, index: str) -> Any:
    import faiss

    factory_string, _, _ = index.partition(";")
    faiss_index = call_faiss(
        index, faiss.index_factory, width, factory_string, faiss.METRIC_INNER_PRODUCT
    )
    _set_parameters(faiss_index, index)  # a wrong parameter is refused before the index is filled
    return faiss_index


def _set_parameters(faiss_index: Any, index: str) -> None:
    import faiss

    _, _, parameters = index.partition(";")
    if parameters:
        call_faiss(index, faiss.ParameterSpace().set_index_parameters, faiss_index, parameters)


def call_faiss(index: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """A call to faiss whose error is one line, without the place in its source."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        # "Error in virtual void faiss::... at /.../AutoTune.cpp:624: REASON"
        _, _, place = str(error).strip().splitlines()[-1].rpartition(".cpp:")
        _, _, reason = place.partition(": ")
        raise ValueError(f"index {index!r} is refused by faiss: {reason or error}") from None
