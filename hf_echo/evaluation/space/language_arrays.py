"""Embeddings by language: (lang, array) pairs, checked while they are read, one language in memory at a time.

Contract: (lang, (rows, dimensions) array) pairs or a mapping in; float64 rows out, or a one-line error with language
and row (counted from 0). A measure that reads twice needs a list or a mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inference.embedding_files import encoded
from ...inference.encoders import Encode
from ...search.checks import as_array
from ...utils.files import write_array
from ..nway_texts import texts_by_language

Parts = Iterable[tuple[str, Any]] | Mapping[str, Any]


def read_parts(
    parts: Parts, *, unit: bool = False, parallel: bool = False, min_rows: int = 2
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (lang, (n, d) float64), one language in memory at a time.

    Args:
        unit: scale rows to length 1; a zero row is then an error.
        parallel: rows with the same index are translations, so all languages need equally many.
        min_rows: smallest number of rows of a language.

    Raises:
        ValueError: no languages, a language twice, too few rows, different dimensions (or numbers of rows), NaN,
            infinity, zero rows.
    """
    seen: dict[str, tuple[int, int]] = {}
    for lang, array in parts.items() if isinstance(parts, Mapping) else parts:
        rows = _rows(array, lang, min_rows, unit)
        if lang in seen:
            raise ValueError(f"{lang!r} comes twice: put its rows into one array")
        first, (count, size) = next(iter(seen.items()), (lang, rows.shape))
        seen[lang] = rows.shape
        if rows.shape[1] != size:
            raise ValueError(
                f"{lang!r} has {rows.shape[1]} dimensions and {first!r} {size}: they must come from one space"
            )
        if parallel and len(rows) != count:
            raise ValueError(
                f"{lang!r} has {len(rows)} rows and {first!r} {count}: row i must be the same sentence in all"
            )
        yield lang, rows
    if not seen:
        raise ValueError("no embeddings: give (lang, array) pairs of at least one language")


def readable_twice(parts: Parts) -> Parts:
    if not isinstance(parts, Mapping) and iter(parts) is parts:
        raise ValueError("this measure reads the embeddings twice: give a list or a mapping, not an iterator")
    return parts


def _rows(array: Any, lang: str, min_rows: int, unit: bool = False) -> np.ndarray:
    if hasattr(array, "tocsr"):
        raise ValueError(f"{lang!r} has sparse embeddings: geometry needs dense arrays")
    rows = as_array(array, repr(lang)).astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{lang!r} must be a (rows, dimensions) array, got shape {rows.shape}")
    if len(rows) < min_rows:
        raise ValueError(f"{lang!r} has {len(rows)} rows, at least {min_rows} are needed")
    if len(bad := np.flatnonzero(~np.isfinite(rows).all(axis=1))):
        raise ValueError(f"{lang!r} row {bad[0]} has NaN or infinite values ({len(bad)} such rows)")
    if not unit:
        return rows
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if len(zero := np.flatnonzero(largest == 0)):
        raise ValueError(f"{lang!r} row {zero[0]} is all zeros and has no direction ({len(zero)} such rows)")
    rows /= largest  # keeps the squares in range
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def encode_parallel(
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    folder: str | Path,
    languages: Sequence[str] | None = None,
    *,
    progress: bool = False,
) -> list[tuple[str, np.ndarray]]:
    """Encode an n-way table (columns id, lang, text) into `folder`: (lang, memory-mapped float32 array) pairs.

    Rows with the same index have the same id. Only ids that every language has are encoded, in the order of the first.

    Raises:
        ValueError: a language without rows; fewer than 3 ids in common; an encoder that loses rows or returns NaN.
    """
    from tqdm.auto import tqdm

    texts = texts_by_language(rows)
    wanted = list(texts) if languages is None else list(languages)
    missing = [lang for lang in wanted if lang not in texts]
    if missing or not wanted:
        raise ValueError(f"no rows in {missing[0] if missing else 'any language'!r}: found {', '.join(texts)}")
    ids = [key for key in texts[wanted[0]] if all(key in texts[lang] for lang in wanted)]
    if len(ids) < 3:
        least = min(wanted, key=lambda lang: len(texts[lang]))
        raise ValueError(
            f"{len(wanted)} languages have {len(ids)} ids in common, fewer than 3; {least!r} has only "
            f"{len(texts[least])}: leave it out"
        )
    pairs = []
    for number, lang in enumerate(tqdm(wanted, desc="Encoding", unit="language", disable=not progress)):
        vectors = encoded(encode, [texts[lang][key] for key in ids], lang)
        path = Path(folder) / f"{number}.npy"  # a language code may not be a valid file name
        write_array(path, _rows(vectors, lang, len(ids)).astype(np.float32))
        pairs.append((lang, np.load(path, mmap_mode="r")))
    return pairs
