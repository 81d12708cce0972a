"""Columns of a parallel dataset for a search: keys of equal texts, stored embeddings, the result as Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..data.pipeline.filters.normal_form import normal_forms
from ..inference.embedding_store import stored_encoder
from ..languages import language
from ..search.checks import refuse_broken, unit_rows
from ..utils.files import write_whole

READ = 10_000  # rows of a dataset at a time
PART = 16_384  # rows that are encoded and searched together
PROBE = "One sentence, by which a model is known again: 1, 2, 3."
SIDES = ("source", "target")

Encode = Callable[[list[str], Any], Any]


class Columns:
    """Unit embeddings of texts of a dataset, each encoded once and kept in `work`, where a stopped run resumes.

    Args:
        model: name of the encoder; with its embedding of one sentence it names the stored embeddings.
    """

    def __init__(self, encode: Encode, work: Path, model: str):
        probe = np.asarray(encode([PROBE], "eng_Latn"), np.float64).round(3).tolist()
        self.encode = stored_encoder(encode, f"{model} {probe}", work)

    def vectors(self, dataset: Any, side: str, rows: np.ndarray) -> np.ndarray:
        """(len(rows), d) float32 of one column, in the order of `rows`.

        Raises:
            ValueError: a NaN, infinite or zero embedding, with its row from 1.
        """
        if not len(rows):
            raise ValueError(f"there are no {side}s to encode")
        texts, langs = (list(dataset[rows][name]) for name in (side, f"{side}_lang"))
        vectors: list[Any] = [None] * len(rows)
        for lang in dict.fromkeys(langs):
            own = [i for i, other in enumerate(langs) if other == lang]
            for i, vector in zip(own, self.encode([texts[i] for i in own], lang), strict=True):
                vectors[i] = vector
        refuse_broken(np.stack(vectors), lambda row: f"{side} {rows[row] + 1} of the data")
        return unit_rows(np.stack(vectors))


def row_keys(dataset: Any, side: str, progress: bool = True) -> np.ndarray:
    """(rows,) uint64: equal for texts with the same normal form, in the same language.

    Natural language: letters and digits, case folded. In code and mathematics every sign counts: only runs of white
    space become one space.
    """
    keys = np.empty(len(dataset), np.uint64)
    for start, batch in _batches(dataset, [side, f"{side}_lang"], f"Reading {side}s", progress):
        texts, langs = batch[side], batch[f"{side}_lang"]
        forms = normal_forms(texts, ["punctuation"])
        for i, (text, form, lang) in enumerate(zip(texts, forms, langs, strict=True), start):
            natural = language(lang).script is not None
            written = f"{lang}\0{form if natural else ' '.join(text.split())}".encode()
            keys[i] = int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "little")
    return keys


def rows_by(dataset: Any, column: str) -> dict[str, np.ndarray]:
    """Value of a column -> its row numbers, in order; values in alphabetic order."""
    values = np.asarray(dataset.with_format("arrow")[:][column].to_numpy(zero_copy_only=False))
    return {str(value): np.flatnonzero(values == value) for value in sorted(set(values))}


def first_of_each(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of `rows`, the first with each key, in order."""
    return rows[np.sort(np.unique(keys[rows], return_index=True)[1])]


def sampled(rows: np.ndarray, size: int | None, seed: int) -> np.ndarray:
    """At most `size` rows, drawn at random, in order; None: all rows."""
    if size is not None and size < 1:
        raise ValueError(f"pool_size is {size}, must be at least 1")
    if size is None or len(rows) <= size:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def parts_of(rows: np.ndarray, label: str, progress: bool) -> Iterator[np.ndarray]:
    for start in tqdm(range(0, len(rows), PART), desc=label, unit="part", disable=not progress):
        yield rows[start : start + PART]


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
