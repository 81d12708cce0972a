"""Collections of embeddings read block by block, and the best neighbours found so far, in memory and on disk.

`Best` belongs to one side of a search. If it has a folder, each block of the side has a file, which also holds how many
blocks of the other side it has met. A run that was killed between two writes resumes there with the same result.

`search_both` cuts one side into stripes of blocks, so that an executor can search them on several machines. The stripes
depend on the embeddings alone, not on the executor.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ..utils.files import write_whole
from .checks import refuse_broken
from .neighbours import Neighbours, mutual_neighbours

BLOCK = 65_536  # rows of one side that are in memory at a time


class Blocks:
    """A collection read block by block: iterate (first row, (rows, d) array). Broken rows are refused.

    A pickle of it holds the names of memory-mapped files, not their rows; every machine must see these files.
    """

    def __init__(self, parts: Any, block: int, name: str):
        self.parts = [np.asanyarray(p) for p in (parts if isinstance(parts, Sequence) else [parts])]
        self.block, self.name = block, name
        if not self.parts or any(p.ndim != 2 or 0 in p.shape for p in self.parts):
            shapes = [p.shape for p in self.parts]
            raise ValueError(f"{name} must be (rows, dimensions) arrays with at least one of each, got {shapes}")
        if len({p.shape[1] for p in self.parts}) > 1:
            raise ValueError(f"the parts of {name} differ in dimensions: {sorted({p.shape[1] for p in self.parts})}")
        self.starts = np.cumsum([0, *(len(p) for p in self.parts)])
        self.first, self.rows, self.width = 0, int(self.starts[-1]), self.parts[0].shape[1]

    def stripe(self, first: int, last: int) -> Blocks:
        """The blocks from number `first` to before `last`, as a collection of their own."""
        stripe = copy.copy(self)
        stripe.first = self.first + first * self.block
        stripe.rows = min(last * self.block, self.rows) - first * self.block
        return stripe

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "parts": [_MappedFile.of(part) or part for part in self.parts]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = [part.open() if isinstance(part, _MappedFile) else part for part in state["parts"]]
        vars(self).update(state, parts=parts)

    def __len__(self) -> int:
        return -(-self.rows // self.block)

    def __iter__(self):
        return ((number * self.block, self.read_block(number)) for number in range(len(self)))

    def read_block(self, number: int) -> np.ndarray:
        return self.read(number * self.block, min((number + 1) * self.block, self.rows))

    def digest(self) -> str:
        """Digest of all numbers; it does not depend on the file or its place."""
        digest = hashlib.blake2b(f"{self.rows} {self.width} {self.parts[0].dtype}".encode(), digest_size=16)
        for _, rows in self:
            digest.update(np.ascontiguousarray(rows))
        return digest.hexdigest()

    def read(self, start: int, stop: int) -> np.ndarray:
        begin, end = self.first + start, self.first + stop
        pieces = [
            part[max(begin - first, 0) : end - first]
            for first, part in zip(self.starts, self.parts)
            if first < end and first + len(part) > begin
        ]
        rows = np.concatenate(pieces) if len(pieces) > 1 else np.array(pieces[0])
        refuse_broken(rows, lambda row: f"{self.name}, row {begin + row}")
        return rows


class _MappedFile(NamedTuple):
    """A memory-mapped array by its place in a file."""

    path: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> _MappedFile | None:
        """None for other arrays, and for parts of a mapped one, whose offset numpy does not give."""
        whole = isinstance(array, np.memmap) and isinstance(array.base, mmap) and array.flags.c_contiguous
        return cls(str(array.filename), array.dtype, array.offset, array.shape) if whole and array.filename else None

    def open(self) -> np.memmap:
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


def search_folder(work: str | Path | None, x: Blocks, y: Blocks, **options: Any) -> Path | None:
    """The folder in `work` for this search: its name depends on every bit of the embeddings and on the options."""
    if work is None:
        return None
    key = json.dumps([x.digest(), y.digest(), sorted(options.items())])
    folder = Path(work) / hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Best:
    """`neighbours` of all rows of `side`; `done[b]`: blocks of the other side that block b met."""

    def __init__(self, side: Blocks, k: int, folder: Path | None):
        self.side, self.folder = side, folder
        self.neighbours = Neighbours.none_yet(side.rows, k)
        self.done = [self._load(number) for number in range(len(side))]

    def load_new(self) -> None:
        """Read the files of blocks that another process has written."""
        self.done = [done or self._load(number) for number, done in enumerate(self.done)]

    def add(self, number: int, new: Neighbours, offset: int = 0) -> None:
        """Merge the neighbours in the next block of the other side, whose first row is `offset`."""
        have = self._block(number)
        have.scores[:], have.indices[:] = have.merged(new, offset)
        self.done[number] += 1
        self._save(number)

    def _block(self, number: int) -> Neighbours:
        rows = slice(number * self.side.block, (number + 1) * self.side.block)
        return Neighbours(*(part[rows] for part in self.neighbours))

    def _load(self, number: int) -> int:
        if self.folder is None or not (path := block_file(self.folder, self.side, number)).exists():
            return 0
        with np.load(path) as content:
            block = self._block(number)
            block.scores[:], block.indices[:] = content["scores"], content["indices"]
            return int(content["done"])

    def _save(self, number: int) -> None:
        if self.folder is not None:
            write_block(block_file(self.folder, self.side, number), self._block(number), self.done[number])


def block_file(folder: Path, side: Blocks, number: int) -> Path:
    return folder / f"{side.name}-{number:06d}.npz"


def write_block(path: Path, neighbours: Neighbours, done: int) -> None:
    """Write what `Best` reads: the neighbours of a block in `done` blocks of the other side."""
    with write_whole(path) as unfinished:
        np.savez(unfinished, **neighbours._asdict(), done=done)


def search_both(
    x: Blocks, y: Blocks, k: int, folder: Path | None, executor: Any, progress: bool
) -> tuple[Neighbours, Neighbours]:
    """The k nearest rows of y for each row of x and of x for each row of y, exactly.

    Args:
        folder: for finished blocks, `search_folder`; None keeps all in memory, in this process.
        executor: `LocalExecutor` or `RayExecutor` (`hf_echo.utils.executors`); both give the same neighbours.
    """
    if folder is None:
        with tqdm(total=len(x) * len(y), desc="Searching", unit="block", disable=not progress) as bar:
            return exact_neighbours(Best(x, k, None), Best(y, k, None), bar)
    stripes = stripes_of(x, k)
    search = partial(search_stripe, x=x, y=y, k=k, folder=folder)
    if executor.local:
        with tqdm(total=len(x) * len(y), desc="Searching", unit="block", disable=not progress) as bar:
            for stripe in stripes:
                search(stripe, bar=bar)
    else:
        for _ in executor.map(search, stripes, "Searching"):
            pass
    forward, backward = Neighbours.none_yet(x.rows, k), Neighbours.none_yet(y.rows, k)
    for first, last in stripes:
        there, back = (best.neighbours for best in _bests(x, y, k, folder, first, last))
        rows = slice(first * x.block, first * x.block + len(there.scores))
        forward.scores[rows], forward.indices[rows] = there
        backward = backward.merged(back, first * x.block)
    return forward, backward


def stripes_of(x: Blocks, k: int) -> list[tuple[int, int]]:
    """(first, last) block of each stripe.

    Each stripe keeps its own neighbours of all rows of y. There are as many stripes as these files have room for in the
    disk space of y's embeddings in float32.
    """
    most = max(1, 4 * x.width // (12 * k))  # 12 bytes: a score and a row number
    size = -(-len(x) // most)
    return [(first, min(first + size, len(x))) for first in range(0, len(x), size)]


def search_stripe(stripe: tuple[int, int], x: Blocks, y: Blocks, k: int, folder: Path, bar: tqdm | None = None) -> None:
    """Search a stripe of x and all of y, both directions; the files in `folder` are the result."""
    exact_neighbours(*_bests(x, y, k, folder, *stripe), bar)


def _bests(x: Blocks, y: Blocks, k: int, folder: Path, first: int, last: int) -> tuple[Best, Best]:
    place = folder / f"stripe-{first:06d}"
    return Best(x.stripe(first, last), k, place), Best(y, k, place)


def exact_neighbours(forward: Best, backward: Best, bar: tqdm | None = None) -> tuple[Neighbours, Neighbours]:
    """Both directions, block by block; blocks that a stopped run finished are not searched again."""
    x, y, k = forward.side, backward.side, forward.neighbours.scores.shape[1]
    for i in range(len(x)):
        rows = None
        for j in range(len(y)):
            if forward.done[i] <= j or backward.done[j] <= i:
                rows, columns = x.read_block(i) if rows is None else rows, y.read_block(j)
                there, back = mutual_neighbours(rows, columns, min(k, len(columns)), min(k, len(rows)))
                if forward.done[i] == j:  # a killed run may have written this block and not the other side's
                    forward.add(i, there, j * y.block)
                if backward.done[j] == i:
                    backward.add(j, back, i * x.block)
            if bar is not None:
                bar.update()
    return forward.neighbours, backward.neighbours
