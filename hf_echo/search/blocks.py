"""Collections of embeddings read block by block, and the best neighbours found so far, in memory and on disk.

`Best` belongs to one side of a search. If it has a folder, each block of the side has a file, which also holds how many
blocks of the other side it has met. A run that was killed between two writes resumes there with the same result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..utils.files import write_whole
from .checks import refuse_broken
from .neighbours import Neighbours, mutual_neighbours

BLOCK = 65_536  # rows of one side that are in memory at a time


class Blocks:
    """A collection read block by block: iterate (first row, (rows, d) array). Broken rows are refused."""

    def __init__(self, parts: Any, block: int, name: str):
        self.parts = [np.asanyarray(p) for p in (parts if isinstance(parts, Sequence) else [parts])]
        self.block, self.name = block, name
        if not self.parts or any(p.ndim != 2 or 0 in p.shape for p in self.parts):
            shapes = [p.shape for p in self.parts]
            raise ValueError(f"{name} must be (rows, dimensions) arrays with at least one of each, got {shapes}")
        if len({p.shape[1] for p in self.parts}) > 1:
            raise ValueError(f"the parts of {name} differ in dimensions: {sorted({p.shape[1] for p in self.parts})}")
        self.starts = np.cumsum([0, *(len(p) for p in self.parts)])
        self.rows, self.width = int(self.starts[-1]), self.parts[0].shape[1]

    def __len__(self) -> int:
        return -(-self.rows // self.block)

    def __iter__(self):
        return ((number * self.block, self.read_block(number)) for number in range(len(self)))

    def read_block(self, number: int) -> np.ndarray:
        return self.read(number * self.block, min((number + 1) * self.block, self.rows))

    def digest(self) -> str:
        """Of every number, and of nothing that says where it stands."""
        digest = hashlib.blake2b(f"{self.rows} {self.width} {self.parts[0].dtype}".encode(), digest_size=16)
        for _, rows in self:
            digest.update(np.ascontiguousarray(rows))
        return digest.hexdigest()

    def read(self, start: int, stop: int) -> np.ndarray:
        pieces = [
            part[max(start - first, 0) : stop - first]
            for first, part in zip(self.starts, self.parts)
            if first < stop and first + len(part) > start
        ]
        rows = np.concatenate(pieces) if len(pieces) > 1 else np.array(pieces[0])
        refuse_broken(rows, lambda row: f"{self.name}, row {start + row}")
        return rows


def search_folder(work: str | Path | None, x: Blocks, y: Blocks, **options: Any) -> Path | None:
    """Within `work`, the folder of this very search: of these embeddings, to the bit, and these options."""
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

    def add(self, number: int, new: Neighbours, offset: int = 0) -> None:
        """Merge the neighbours in the next block of the other side, whose first row is `offset`."""
        have = self._block(number)
        have.scores[:], have.indices[:] = have.merged(new, offset)
        self.done[number] += 1
        self._save(number)

    def _block(self, number: int) -> Neighbours:
        rows = slice(number * self.side.block, (number + 1) * self.side.block)
        return Neighbours(*(part[rows] for part in self.neighbours))

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.side.name}-{number:06d}.npz"

    def _load(self, number: int) -> int:
        if self.folder is None or not self._path(number).exists():
            return 0
        with np.load(self._path(number)) as content:
            block = self._block(number)
            block.scores[:], block.indices[:] = content["scores"], content["indices"]
            return int(content["done"])

    def _save(self, number: int) -> None:
        if self.folder is None:
            return
        path = self._path(number)
        with write_whole(path) as unfinished:
            np.savez(unfinished, **self._block(number)._asdict(), done=self.done[number])


def exact_neighbours(forward: Best, backward: Best, progress: bool) -> tuple[Neighbours, Neighbours]:
    """Both directions, block by block; blocks that a stopped run finished are not searched again."""
    x, y, k = forward.side, backward.side, forward.neighbours.scores.shape[1]
    bar = tqdm(total=len(x) * len(y), desc="Searching", unit="block", disable=not progress)
    for i in range(len(x)):
        rows = None
        for j in range(len(y)):
            if forward.done[i] <= j or backward.done[j] <= i:
                rows, columns = x.read_block(i) if rows is None else rows, y.read_block(j)
                there, back = mutual_neighbours(rows, columns, min(k, len(rows), len(columns)))
                if forward.done[i] == j:  # a killed run may have written this block and not the other side's
                    forward.add(i, there, j * y.block)
                if backward.done[j] == i:
                    backward.add(j, back, i * x.block)
            bar.update()
    bar.close()
    return forward.neighbours, backward.neighbours
