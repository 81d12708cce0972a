"""Sentence pairs with manual word alignment: rows or files in, checked pairs out.

Contract: a link (i, j) counts words from 0 and lies within its sentences. Errors name file, row and languages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..labelled_rows import read_rows
from .token_states import join_words

Links = set[tuple[int, int]]
COLUMNS = ("src_tokens", "tgt_tokens", "alignment")
OPTIONAL = ("possible", "src_lang", "tgt_lang", "split")


class AlignedPair(NamedTuple):
    """Two texts, the character span (words, 2) of each word, links between words; `where` names the pair in errors."""

    where: str
    source: str
    target: str
    source_lang: str | None
    target_lang: str | None
    source_words: np.ndarray
    target_words: np.ndarray
    sure: Links
    possible: Links

    @property
    def name(self) -> str:
        return f"{self.source_lang or '?'}-{self.target_lang or '?'}"


def read_alignment(row: Mapping[str, Any], where: str) -> AlignedPair:
    """Check a row: `src_tokens`, `tgt_tokens` (lists of words), `alignment`, optional `possible` ("0-0 1-2", from 0),
    `src_lang`, `tgt_lang`. Errors (ValueError) begin with `where` and name the languages."""
    missing = [name for name in ("src_tokens", "tgt_tokens", "alignment") if row.get(name) is None]
    if missing:
        raise ValueError(f"{where}: no {', '.join(missing)}; the columns are {', '.join(row)}")
    langs = row.get("src_lang"), row.get("tgt_lang")
    where = f"{where} ({langs[0] or '?'}-{langs[1] or '?'})"
    (source, m), (target, n) = (join_words(row[name], f"{where}, {name}") for name in ("src_tokens", "tgt_tokens"))
    sure, possible = (parse_links(row.get(name) or "", len(m), len(n), where) for name in ("alignment", "possible"))
    return AlignedPair(where, source, target, *langs, m, n, sure, possible)


def parse_links(text: str, m: int, n: int, where: str = "alignment") -> Links:
    """Parse "0-0 1-2" to a set of pairs; raises ValueError for links outside sentences of m and n words."""
    if not isinstance(text, str):
        raise ValueError(f"{where}: alignment {text!r} is not text such as '0-0 1-2'")
    links = set()
    for item in text.split():
        i, dash, j = item.partition("-")
        if not (dash and i.isdecimal() and j.isdecimal()):
            raise ValueError(f"{where}: {item!r} is not a link; write links as 0-0 1-2")
        if int(i) >= m or int(j) >= n:
            raise ValueError(f"{where}: link {item} lies outside sentences of {m} and {n} words (from 0)")
        links.add((int(i), int(j)))
    return links


def load_alignment(path: str | Path, *, split: str | None = None, limit: int | None = None) -> list[AlignedPair]:
    """Load a Parquet or JSONL file with the columns of `read_alignment`.

    Args:
        split: only rows with this value in the column `split`; None is all.
        limit: number of pairs per language pair, the first of the file; None is all.

    Raises:
        FileNotFoundError: the file does not exist. ValueError: a bad row, missing columns, no row of that split.
    """
    path = Path(path)
    pairs, taken = [], Counter()
    for line, row in read_rows(path, COLUMNS, OPTIONAL, tsv=False):
        if split is not None and "split" not in row:
            raise ValueError(f"{path} has no column split; leave split {split!r} out")
        langs = row.get("src_lang"), row.get("tgt_lang")
        if split not in (None, row.get("split")) or (limit is not None and taken[langs] >= limit):
            continue
        taken[langs] += 1
        pairs.append(read_alignment(row, f"{path}:{line}"))
    if not pairs:
        raise ValueError(f"{path} has no rows{'' if split is None else f' of split {split!r}'}")
    return pairs
