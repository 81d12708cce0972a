"""Sources of words to count, as blocks of raw columns: files of the package's readers, plain text, (lang, text) pairs.

A file with texts and languages of pairs is parallel text, and both sides count. Another table with the columns lang and
text (such as an n-way table) is monolingual, unless the caller says otherwise. A plain text file has one sentence per
line and its language in its name (``fra_Latn.txt``, ``news.fra_Latn.txt.gz``) or as an argument. Opening reads only the
beginning of a file; blocks are read on request.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...data import formats, schema
from ...data.formats import Block
from ...data.nway import find_nway_columns
from ...data.tables import as_list, list_files
from ...languages import is_language, language

KINDS = ("parallel", "monolingual")
TEXT_SUFFIXES = (".txt", ".txt.gz")
CODE_SHAPE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}(_([A-Z]{2}|[0-9]{3}))?")


class Source(NamedTuple):
    """A source with its own settings.

    Attributes:
        data: a file, a folder, or an iterable of (lang, text).
        kind: "parallel" or "monolingual"; None is parallel for files of pairs, else monolingual.
        lang: of all rows, for a file without languages.
        split: value of the column ``split``, or split in the file names of a folder; None reads all.
    """

    data: str | os.PathLike | Iterable[tuple[str, str]]
    kind: str | None = None
    lang: str | None = None
    split: str | None = "train"


class Side(NamedTuple):
    """A column of texts, and the column of its languages or its one language."""

    text: str
    lang_column: str | None
    lang: str | None


class Opened(NamedTuple):
    label: str  # name in errors
    identity: dict[str, Any] | None  # changes with content or settings; None: unknown
    kind: str
    sides: tuple[Side, ...]
    split: str | None  # required value of the column `split`; None: no such column, or all count
    blocks: Callable[[], Iterator[Block]]

    @property
    def key(self) -> str:
        text = json.dumps([self.label, self.identity], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def code_error(code: str) -> str | None:
    """Why a code is not a language code; None if it is. Codes that `hf_echo.languages` does not know are valid if they
    have the form of one, because corpora have thousands of languages."""
    if is_language(code) or CODE_SHAPE.fullmatch(code):
        return None
    try:
        language(code)
    except ValueError as error:
        return f"{error} (write an unlisted language as xyz_Latn or xyz_Latn_BR)"
    return None


def open_sources(sources: Any, kind: str | None, lang: str | None, split: str | None) -> list[Opened]:
    """Open every file and iterable of `sources`; `kind`, `lang`, `split` are their default settings.

    Raises:
        FileNotFoundError: the file does not exist. ValueError: a file without texts and languages, a file given twice,
            an unknown kind.
    """
    if isinstance(sources, (str, os.PathLike, Source)):
        sources = [sources]
    opened: list[Opened] = []
    for number, source in enumerate(sources, 1):
        if isinstance(source, tuple) and not isinstance(source, Source):
            raise ValueError(f"sources has the tuple {source!r:.80}: put (lang, text) pairs into a list")
        if not isinstance(source, Source):
            source = Source(source, kind, lang, split)
        opened += _open_source(source, number)
    labels = [each.label for each in opened]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ValueError(f"{twice} is given twice: give it once")
    if not opened:
        raise ValueError("no sources: give at least one file")
    return opened


def _open_source(source: Source, number: int) -> Iterator[Opened]:
    if source.kind not in (None, *KINDS):
        raise ValueError(f"kind is {source.kind!r}; it must be one of {', '.join(KINDS)}")
    if source.lang is not None and (reason := code_error(source.lang)):
        raise ValueError(reason)
    if not isinstance(source.data, (str, os.PathLike)):
        blocks = partial(_blocks_of_pairs, source.data)
        yield Opened(f"pairs {number}", None, source.kind or "monolingual", (Side("text", "lang", None),), None, blocks)
        return
    path = Path(source.data)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder (working folder {Path.cwd()})")
    for file in list_files(path, source.split):
        yield (_open_text(file, source) if file.name.lower().endswith(TEXT_SUFFIXES) else _open_table(file, source))


def _identity(path: Path, source: Source, kind: str) -> dict[str, Any]:
    stat = path.stat()
    identity = {"size": stat.st_size, "time": stat.st_mtime_ns, "kind": kind, "lang": source.lang}
    return identity | {"split": source.split}


def _open_table(path: Path, source: Source) -> Opened:
    part = formats.open_file(path)
    sides, kind = _sides(part, source.lang)
    kind = source.kind or kind
    split = source.split if "split" in part.columns else None
    wanted = {name for side in sides for name in (side.text, side.lang_column) if name}
    blocks = partial(part.read, sorted(wanted | ({"split"} if split is not None else set())))
    return Opened(str(path.resolve()), _identity(path, source, kind), kind, sides, split, blocks)


def _sides(part: formats.Part, lang: str | None) -> tuple[tuple[Side, ...], str]:
    """(text columns, kind of text) of a table."""
    columns = part.columns
    paired = any(set(pair) <= set(columns) for pair in schema.TEXT_ALIASES)
    if not paired and (find_nway_columns(columns) or {"lang", "text"} <= set(columns)):
        return (Side("text", "lang", None),), "monolingual"
    if not paired and "text" in columns and lang is not None:
        return (Side("text", None, lang),), "monolingual"
    try:
        mapping = schema.find_columns(columns, where=part.label)
    except ValueError:
        raise ValueError(
            f"{part.label} has neither source, source_lang, target, target_lang nor lang and text"
            f" (found: {', '.join(columns) or 'none'}): rename its columns"
        ) from None
    return tuple(Side(mapping[s], mapping[f"{s}_lang"], None) for s in ("source", "target")), "parallel"


def _open_text(path: Path, source: Source) -> Opened:
    lang = source.lang or next((p for p in path.name.split(".")[:-1] if not code_error(p) and "_" in p), None)
    if lang is None:
        raise ValueError(f"{path}: unknown language: name the file like fra_Latn.txt, or give its language")
    kind = source.kind or "monolingual"
    sides = (Side("text", None, lang),)
    return Opened(
        str(path.resolve()), _identity(path, source, kind), kind, sides, None, partial(_blocks_of_lines, path)
    )


def _blocks_of_lines(path: Path) -> Iterator[Block]:
    """Yield blocks of lines, one sentence per line; skip empty lines."""
    with formats.open_lines(path) as file:
        numbered = enumerate(file, 1)
        while lines := list(islice(numbered, formats.BLOCK)):
            texts, numbers, bad = [], [], []
            for number, line in lines:
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    bad.append((number, f"not UTF-8 (byte 0x{error.object[error.start]:02x} at {error.start + 1})"))
                    continue
                if text.strip():
                    texts.append(text)
                    numbers.append(number)
            yield Block({"text": texts}, numbers, bad)


def _blocks_of_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[Block]:
    numbered = enumerate(pairs, 1)
    while rows := list(islice(numbered, formats.BLOCK)):
        good = [(n, row) for n, row in rows if isinstance(row, (tuple, list)) and len(row) == 2]
        kept = {n for n, _ in good}
        bad = [(n, f"{row!r:.80} is not a pair (lang, text)") for n, row in rows if n not in kept]
        columns = {"lang": [row[0] for _, row in good], "text": [row[1] for _, row in good]}
        yield Block(columns, [n for n, _ in good], bad)


def rows_of(block: Block, side: Side, split: str | None) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Good rows (lang, text) of one side of a block, and (line, reason) of the bad ones."""
    text, bad_texts = schema.text_array(block.columns[side.text])
    if side.lang_column:
        lang, bad_langs = schema.text_array(block.columns[side.lang_column])
    else:
        lang, bad_langs = pa.repeat(pa.scalar(side.lang, pa.string()), len(text)), {}
    codes = pc.unique(lang).to_pylist()
    if wrong_codes := [code for code in codes if code is None or code_error(code)]:
        rows = pc.indices_nonzero(pc.is_in(lang, pa.array(wrong_codes, pa.string())))
        bad_langs = dict(zip(rows.to_pylist(), lang.take(rows).to_pylist(), strict=True)) | bad_langs
    table = pa.table({"lang": lang, "text": text, "row": pa.array(range(len(text)), pa.int64())})
    bad_values = {"lang": bad_langs, "text": bad_texts}
    table, bad = schema.keep_good(table, bad_values, partial(_check_row, side), texts=("text",), languages=())
    if split is not None:
        chosen = pa.array([value == split for value in as_list(block.columns["split"])], pa.bool_())
        table = table.filter(chosen.take(table["row"]))
        bad = [(row, reason) for row, reason in bad if chosen[row].as_py()]
    return table.drop_columns("row"), [(block.lines[row], reason) for row, reason in bad]


def _check_row(side: Side, row: dict[str, Any]) -> str | None:
    name, code = side.lang_column or "lang", row["lang"]
    known = isinstance(code, str) and code != ""
    reason = schema.check_text(side.text, row["text"]) or (None if known else schema.check_text(name, code))
    return reason or ((error := code_error(code)) and f"{name}: {error}")
