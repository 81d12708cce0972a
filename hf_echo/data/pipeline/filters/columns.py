"""Columns of a parallel table as numpy arrays: directions, numbers, code points. Shared by several filters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIDES = ("source", "target")


def direction(source_lang: str, target_lang: str) -> str:
    """ "fra_Latn>eng_Latn"."""
    return f"{source_lang}>{target_lang}"


def codes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """(number of each row's value, the distinct values in order of appearance)."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def by_direction(table: pa.Table) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """((source language, target language), row numbers in ascending order) of each direction."""
    (sources, source_langs), (targets, target_langs) = (codes_of(table[f"{side}_lang"]) for side in SIDES)
    both = sources.astype(np.int64) * len(target_langs) + targets
    order = np.argsort(both, kind="stable")
    values, starts = np.unique(both[order], return_index=True)
    for value, rows in zip(values, np.split(order, starts[1:])):
        yield (source_langs[value // len(target_langs)], target_langs[value % len(target_langs)]), rows


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """float64 of a column; NaN for null, and everywhere when the table has no such column."""
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    return pc.cast(table[name], pa.float64()).to_numpy().astype(np.float64, copy=True)


def code_points(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(code points of all texts, uint32; offsets (rows + 1,) at which each text starts)."""
    lengths = pc.fill_null(pc.utf8_length(column), 0).to_numpy().astype(np.int64)
    text = "".join(pc.fill_null(column, "").to_pylist())
    return np.frombuffer(text.encode("utf-32-le"), np.uint32), np.concatenate([[0], np.cumsum(lengths)])


def count_by_row(wanted: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over the characters of each text of ``wanted`` (a number or boolean per character): (rows,)."""
    return np.diff(np.concatenate([[0], np.cumsum(wanted, dtype=np.int64)])[offsets])


def text_hashes(table: pa.Table, seed: int = 0) -> np.ndarray:
    """uint64 (rows,): a hash of the row's two texts, independent of its position."""
    from xxhash import xxh3_64_intdigest

    texts = zip(*(table[side].to_pylist() for side in SIDES))
    hashes = (xxh3_64_intdigest(f"{source}\0{target}".encode(), seed) for source, target in texts)
    return np.fromiter(hashes, np.uint64, len(table))
