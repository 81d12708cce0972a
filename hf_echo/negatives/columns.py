"""Texts of a parallel dataset by language, encoded to disk once, and the neighbours of some among others.

A dataset is read block by block and never held in memory; only numbers are kept of each row. A folder holds the
embeddings of one column, pair of languages and model (`shards`), and a stopped search resumes (`search.blocks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..data.pipeline.filters.normal_form import normal_forms
from ..languages import language
from ..search.blocks import BLOCK, Best, Blocks, search_folder
from ..search.faiss_index import index_neighbours
from ..search.neighbours import Neighbours
from ..search.shards import Encode, encode_to_shards
from ..utils.files import write_whole

READ = 10_000  # rows of a dataset at a time
PART = 16_384  # queries whose neighbours are judged together


class ColumnTexts:
    """Rows of one text column, as `shards` reads the lines of a file; `path` is only a name for messages."""

    def __init__(self, dataset: Any, column: str, rows: np.ndarray, label: str):
        self.dataset, self.column, self.rows, self.path = dataset, column, rows, Path(label)
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, len(rows), READ):
            for text in self.read(start, start + READ):
                digest.update(text.encode() + b"\0")
        self.digest = digest.hexdigest()

    def __len__(self) -> int:
        return len(self.rows)

    def line_of(self, row: int) -> int:
        return int(self.rows[row]) + 1

    def read(self, start: int, stop: int) -> list[str]:
        return list(self.dataset[self.rows[start:stop]][self.column])


def encode_column(
    dataset: Any, side: str, rows: np.ndarray, encode: Encode, lang: str, folder: Path, **options: Any
) -> list[np.ndarray]:
    """Memory-mapped embeddings of `dataset[rows][side]`, in that order; options: those of `encode_to_shards`."""
    return encode_to_shards(ColumnTexts(dataset, side, rows, f"{lang} {side}"), encode, lang, folder, **options)


def best_of(queries: list, pool: list, k: int, index: str, work: Path, progress: bool) -> Neighbours:
    """The k best rows of the pool for each query, by a faiss index; both are lists of (rows, d) arrays."""
    x, y = Blocks(queries, BLOCK, "queries"), Blocks(pool, BLOCK, "pool")
    if x.width != y.width:
        raise ValueError(f"queries have {x.width} dimensions and the pool {y.width}: one model must encode both")
    folder = search_folder(work, x, y, k=k, index=index)
    return index_neighbours(Best(x, k, folder), y, index, progress=progress)


def row_keys(dataset: Any, side: str, progress: bool = True) -> np.ndarray:
    """(rows,) uint64: equal for texts with the same normal form, in the same language.

    Natural language: letters and digits, case folded. In code and mathematics every
    sign counts: only runs of white space become one space.
    """
    keys = np.empty(len(dataset), np.uint64)
    for start, batch in _batches(dataset, [side, f"{side}_lang"], f"Reading {side}s", progress):
        texts, langs = batch[side], batch[f"{side}_lang"]
        forms = normal_forms(texts, ["punctuation"])
        for i, (text, form, lang) in enumerate(zip(texts, forms, langs, strict=True), start):
            keys[i] = _hash(f"{lang}\0{form if is_natural(lang) else ' '.join(text.split())}")
    return keys


def is_natural(lang: str) -> bool:
    return language(lang).script is not None


def rows_by(dataset: Any, column: str) -> dict[str, np.ndarray]:
    """Value of a column -> its row numbers, in order; values in alphabetic order."""
    names, number = {}, np.empty(len(dataset), np.int32)
    for start, batch in _batches(dataset, [column], "", progress=False):
        number[start : start + len(batch[column])] = [names.setdefault(v, len(names)) for v in batch[column]]
    order = np.argsort(number, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(number, minlength=len(names)))[:-1]) if names else []
    return {name: parts[names[name]] for name in sorted(names)}


def first_of_each(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of `rows`, the first with each key, in order."""
    return rows[np.sort(np.unique(keys[rows], return_index=True)[1])]


def places(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of each wanted key among keys that are all different."""
    order = np.argsort(keys)
    return order[np.searchsorted(keys, wanted, sorter=order)]


def sampled(rows: np.ndarray, size: int | None, seed: int) -> np.ndarray:
    """At most `size` rows, drawn at random, in order; None: all rows."""
    if size is None or len(rows) <= size:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def write_rows(
    dataset: Any, out: Path, change: Callable[[int, dict], dict], optional: Sequence[str], progress: bool
) -> None:
    """The dataset in the parallel schema as Parquet; `change` gets (first row, columns of a block) and may drop rows.

    The file appears when it is complete.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..data import schema

    arrow = schema.features(optional).arrow_schema
    with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, arrow) as writer:
        for start, batch in _batches(dataset, dataset.column_names, "Writing", progress):
            columns = change(start, dict(batch))
            writer.write_table(pa.table({name: columns[name] for name in arrow.names}).cast(arrow))


def _batches(dataset: Any, columns: list[str], label: str, progress: bool) -> Iterator[tuple[int, dict]]:
    dataset = dataset.select_columns(columns)
    for start in tqdm(range(0, len(dataset), READ), desc=label, unit="block", disable=not progress):
        yield start, dataset[start : start + READ]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
