"""Columns of a parallel table as numpy arrays: directions, languages, numbers, code points and
their properties.

The Unicode properties come from the `regex` library; a table of them by code point serves a whole
column at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex

from ....languages import SCRIPTS

SIDES = ("source", "target")
LAST = 0x3400F  # the last ideographs are below; planes 4 to 16 have no letters
# ISO 15924 codes of mixed writing -> Unicode scripts
MIXED = {
    "Hans": ("Hani",),
    "Hant": ("Hani",),
    "Jpan": ("Hani", "Hira", "Kana"),
    "Hang": ("Hang", "Hani"),
}
_UNICODE = sorted({script for code in SCRIPTS for script in MIXED.get(code, (code,))})


def direction(source_lang: str, target_lang: str) -> str:
    """ "fra_Latn>eng_Latn"."""
    return f"{source_lang}>{target_lang}"


def codes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """(number of each row's value, the distinct values in order of appearance)."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def is_in(column: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    """(rows,) bool: whether the value is one of the names."""
    return pc.is_in(column, pa.array(list(names), pa.string())).to_numpy()


def by_direction(table: pa.Table) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Yield each direction: ((source language, target language), its row numbers, ascending)."""
    sources, source_langs = codes_of(table["source_lang"])
    targets, target_langs = codes_of(table["target_lang"])
    width = len(target_langs)
    # One number for each direction, so that one sort groups all rows.
    both = sources.astype(np.int64) * width + targets
    order = np.argsort(both, kind="stable")
    values, starts = np.unique(both[order], return_index=True)
    for value, rows in zip(values, np.split(order, starts[1:])):
        yield (source_langs[value // width], target_langs[value % width]), rows


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """float64 of a column; NaN for null, and everywhere when the table has no such column."""
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    return pc.cast(table[name], pa.float64()).to_numpy().astype(np.float64, copy=True)


def code_points(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(code points of all texts, uint32; offsets (rows + 1,) at which each text starts)."""
    lengths = pc.fill_null(pc.utf8_length(column), 0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    text = "".join(pc.fill_null(column, "").to_pylist())
    return np.frombuffer(text.encode("utf-32-le"), np.uint32), offsets


def count_by_row(is_chosen: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(rows,) how many characters of each text are chosen.

    Args:
        is_chosen: of the characters of all texts, a boolean or a number each.
        offsets: as of `code_points`.
    """
    chosen_before = np.concatenate([[0], np.cumsum(is_chosen, dtype=np.int64)])
    return np.diff(chosen_before[offsets])


def text_hashes(table: pa.Table, seed: int = 0) -> np.ndarray:
    """uint64 (rows,): a hash of the row's two texts, independent of its position."""
    sources, targets = (table[side].to_pylist() for side in SIDES)
    return hashes([f"{source}\0{target}" for source, target in zip(sources, targets)], seed)


def hashes(texts: Sequence[str], seed: int = 0) -> np.ndarray:
    """uint64 (texts,): their xxh3 hashes."""
    from xxhash import xxh3_64_intdigest

    digests = (xxh3_64_intdigest(text.encode(), seed) for text in texts)
    return np.fromiter(digests, np.uint64, len(texts))


@cache
def characters(pattern: str) -> np.ndarray:
    """bool (LAST + 1,): the code points that match a character class of the `regex` library."""
    table = np.zeros(LAST + 1, bool)
    for run in regex.finditer(f"(?V1:{pattern})+", "".join(map(chr, range(LAST + 1)))):
        table[run.start() : run.end()] = True
    table.flags.writeable = False
    return table


def is_kind(points: np.ndarray, pattern: str) -> np.ndarray:
    """(code points,) bool: whether each one matches the pattern."""
    return characters(pattern)[np.minimum(points, LAST)]


@cache
def scripts() -> np.ndarray:
    """uint8 (LAST + 1,): script number of each letter, 0 for other characters,
    1 for scripts of no language here."""
    table = characters(r"\p{L}").astype(np.uint8)
    for number, script in enumerate(_UNICODE, 2):
        table[characters(rf"[\p{{L}}&&\p{{Script={script}}}]")] = number
    # Unicode files the long vowel mark of kana under Common
    table[0x30FC] = table[0xFF70] = script_number("Kana")
    return table


def script_of(points: np.ndarray) -> np.ndarray:
    """(code points,) uint8: the script number of each one."""
    return scripts()[np.minimum(points, LAST)]


def script_number(name: str) -> int:
    return _UNICODE.index(name) + 2


def script_numbers(code: str) -> list[int]:
    """Script numbers of a language code (``jpn_Jpan`` has several)."""
    iso = code.split("_")[1]
    return [script_number(name) for name in MIXED.get(iso, (iso,))]
