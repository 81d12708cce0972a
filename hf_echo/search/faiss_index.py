"""Nearest neighbours by any faiss index, for collections that an exact search would take too long on.

Contract: blocks of embeddings in, the neighbours of one side out; a neighbour that was not found has index -1.

With a folder, the index is cut into shards on disk. All shards share one quantiser, trained on a sample of rows, so
inverted lists and product quantisers give the neighbours of one large index. A shard is built or searched at a time:
memory holds the sample, or one shard (inverted lists are mapped from disk, not read) and one block. A finished shard or
block is not made again, and an executor may make them on several machines. The shards are deleted after the last block.

Of faiss's own tools, `IndexShards` keeps all shards open and orders equal scores at random, and
`contrib.ondisk.merge_ondisk` merges inverted lists only and writes them once more.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.resume import make_once
from .blocks import Best, Blocks, block_file, write_block
from .checks import unit_rows
from .neighbours import Neighbours

TRAINING_ROWS = 262_144  # 1 GiB of 1,024 dimensions
SHARD_BLOCKS = 16  # blocks of a shard: a million rows
WIDTH_TO_TRY = 3840  # many sizes of product quantisers divide it


def check_index(index: str) -> None:
    """Refuse an index that faiss cannot read, before there are embeddings.

    Raises:
        ImportError: without faiss. ValueError: faiss does not know the index or one of its parameters.
    """
    try:
        with _refusals(index):
            built = _faiss().index_factory(WIDTH_TO_TRY, index.partition(";")[0], _faiss().METRIC_INNER_PRODUCT)
            _set_parameters(built, index)
    except ValueError as error:
        if "could not" in str(error):  # read it; what depends on the width is refused when the width is known
            raise


def index_neighbours(
    best: Best,
    y: Blocks,
    index: str,
    *,
    executor: LocalExecutor | RayExecutor | None = None,
    progress: bool = False,
) -> Neighbours:
    """The best rows of y that `faiss.index_factory(index)` finds for each row of `best.side`.

    Inverted lists are probed as the index does by default, unless the string sets more
    ("IVF1024,Flat;nprobe=32": what follows a semicolon are faiss parameters).

    Args:
        best: with a folder, shards and finished blocks are kept there; without, one index is built in memory.
        executor: where shards are built and blocks are searched (default: in this process).

    Raises:
        ImportError: without faiss. ValueError: faiss refuses the index.
    """
    _faiss()
    x, executor = best.side, executor or LocalExecutor(progress)
    missing = [number for number, done in enumerate(best.done) if not done]
    k = best.neighbours.scores.shape[1]
    if best.folder is None:
        with _refusals(index):
            shards = [(0, _filled(_trained(y, index), y))]
        for number in missing:
            best.add(number, _search(x.read_block(number), shards, k))
    elif missing:
        shard_files = _build(y, index, best.folder / f"{y.name}.index", executor)
        search = partial(search_block, x=x, k=k, index=index, shards=shard_files, folder=best.folder)
        for _ in executor.map(search, missing, f"Searching {y.name}"):
            pass
        best.load_new()
    if best.folder is not None:
        shutil.rmtree(best.folder / f"{y.name}.index", ignore_errors=True)
    found = best.neighbours
    return Neighbours(np.where(found.indices < 0, 0, found.scores), found.indices)


def _build(y: Blocks, index: str, folder: Path, executor: LocalExecutor | RayExecutor) -> list[tuple[int, Path]]:
    """(first row, file) of each shard."""
    faiss = _faiss()

    def train(unfinished: Path) -> None:
        with _refusals(index):
            faiss.write_index(_trained(y, index), str(unfinished))

    trained = make_once(folder / "trained.faiss", train)
    firsts = range(0, len(y), SHARD_BLOCKS)
    shards = [(first * y.block, folder / f"{number:06d}.faiss") for number, first in enumerate(firsts)]
    missing = [(first, shards[number][1]) for number, first in enumerate(firsts) if not shards[number][1].exists()]
    for _ in executor.map(partial(build_shard, y=y, index=index, trained=trained), missing, f"Indexing {y.name}"):
        pass
    return shards


def build_shard(shard: tuple[int, Path], y: Blocks, index: str, trained: Path) -> None:
    """Write a copy of the trained index with the rows of `SHARD_BLOCKS` blocks of y, from block number shard[0]."""
    faiss, (first, path) = _faiss(), shard
    rows = y.stripe(first, min(first + SHARD_BLOCKS, len(y)))

    def build(unfinished: Path) -> None:
        with _refusals(index):
            faiss.write_index(_filled(faiss.read_index(str(trained)), rows), str(unfinished))

    make_once(path, build)


def search_block(number: int, x: Blocks, k: int, index: str, shards: list[tuple[int, Path]], folder: Path) -> None:
    """Write the neighbours of block `number` of x, the best of all shards, to its file."""
    faiss = _faiss()

    def opened() -> Iterator[tuple[int, Any]]:
        for first, path in shards:
            shard = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
            _set_parameters(shard, index)
            yield first, shard

    with _refusals(index):
        write_block(block_file(folder, x, number), _search(x.read_block(number), opened(), k), 1)


def _search(rows: np.ndarray, shards: Any, k: int) -> Neighbours:
    queries, found = unit_rows(rows).numpy(), Neighbours.none_yet(len(rows), k)
    for first, shard in shards:
        scores, indices = shard.search(queries, k)
        found = found.merged(Neighbours(np.where(indices < 0, -np.inf, scores).astype(np.float32), indices), first)
    return found


def _trained(y: Blocks, index: str) -> Any:
    faiss = _faiss()
    built = faiss.index_factory(y.width, index.partition(";")[0], faiss.METRIC_INNER_PRODUCT)
    if not built.is_trained:
        built.train(_sample(y))
    _set_parameters(built, index)  # refuse a wrong parameter before the index is filled
    return built


def _filled(built: Any, y: Blocks) -> Any:
    for _, rows in y:
        built.add(unit_rows(rows).numpy())
    return built


def _set_parameters(built: Any, index: str) -> None:
    if parameters := index.partition(";")[2]:
        _faiss().ParameterSpace().set_index_parameters(built, parameters)


def _sample(y: Blocks) -> np.ndarray:
    """Runs of rows from all over the collection."""
    runs = max(1, min(256, y.rows // 1024))
    size = min(TRAINING_ROWS, y.rows) // runs
    starts = np.linspace(0, y.rows - size, runs).astype(int)
    return unit_rows(np.concatenate([y.read(s, s + size) for s in starts])).numpy()


@contextmanager
def _refusals(index: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # "Error in virtual void faiss::... at /.../AutoTune.cpp:624: REASON"
        reason = re.sub(r"^Error in .* at \S+:\d+: ", "", str(error).strip().splitlines()[-1])
        raise ValueError(f"index {index!r} is refused by faiss: {reason}") from None


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError("an index needs faiss: pip install 'hf-echo[faiss]'") from error
    return faiss
