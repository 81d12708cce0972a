"""The best neighbours found so far, block by block, in memory and (where a folder is given) on disk.

Contract: `Best` belongs to one side of a search. A block's file says how many blocks of the other side it has met, so
a run that was killed between two writes does neither less nor more of anything than one that was not. A file that is
there is whole: it is written beside its place and then renamed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.files import write_whole
from .neighbours import Neighbours


def search_folder(work: str | Path | None, x: Any, y: Any, **options: Any) -> Path | None:
    """Within `work`, the folder of this very search: of these embeddings, to the bit, and these options."""
    if work is None:
        return None
    key = json.dumps([x.digest(), y.digest(), sorted(options.items())])
    folder = Path(work) / hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Best:
    """`neighbours` of all rows of `side` (a `bitext.Blocks`); `done[b]`: blocks of the other side that block b met."""

    def __init__(self, side: Any, k: int, folder: Path | None):
        self.side, self.folder = side, folder
        self.neighbours = Neighbours(
            np.full((side.rows, k), -np.inf, dtype=np.float32), np.full((side.rows, k), -1, dtype=np.int64)
        )
        self.done = [self._load(number) for number in range(len(side))]

    def add(self, number: int, new: Neighbours, offset: int = 0) -> None:
        """What the next block of the other side holds for a block; its first row is `offset`.

        Blocks come in order of rows, so a stable sort leaves equal scores by lowest row.
        """
        have = self._block(number)
        scores = np.concatenate([have.scores, new.scores], axis=1)
        indices = np.concatenate([have.indices, np.where(new.indices < 0, -1, new.indices + offset)], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : have.scores.shape[1]]
        have.scores[:] = np.take_along_axis(scores, order, axis=1)
        have.indices[:] = np.take_along_axis(indices, order, axis=1)
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
