"""Texts with their languages, for counting: both sides of pairs, tables of lang and text, plain
text.

A file with texts and languages of pairs is parallel text. Another table with the columns lang and
text (such as an n-way table) is monolingual, unless the caller says otherwise. A plain text file
has one sentence per line and its language in its name (``fra_Latn.txt``, ``news.fra_Latn.txt.gz``)
or as an argument.

`read_texts` and `open_lines` give the texts alone, in order, for commands that work line by line.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from ..languages import as_code, tagged_code
from ..utils.files import files_below
from ..utils.text import (
    EMPTY,
    PACKED,
    STANDARD,
    TextLines,
    check_file,
    is_packed,
    name_of,
    text_blocks,
)
from . import schema
from .bitexts import open_two
from .delimited import each_line
from .formats import kind_of, open_file, open_text, open_texts_of
from .parts import Block, Languages, Part, Unit, blocks_of, log_left_out
from .tables import BadRows, Plan, check_split, checked_tables, is_table, list_files

logger = logging.getLogger(__name__)

TYPES = pa.schema({"lang": pa.string(), "text": pa.string()})
Kind = Literal["parallel", "monolingual"]


class Texts(NamedTuple):
    """One opened file or iterable. ``identity`` changes with content and settings; None:
    unknown."""

    label: str
    kind: str
    identity: str | None
    split: str | None
    tables: Callable[[BadRows], Iterator[pa.Table]]  # of the columns lang and text


def open_texts(
    sources: Any,
    kind: Kind | None = None,
    lang: str | None = None,
    split: str | None = "train",
    langs: Languages = (None, None),
) -> list[Texts]:
    """Open every file, folder and iterable of (lang, text) of `sources`.

    `kind` None is "parallel" for files of pairs, else "monolingual"; `lang` is that of all rows,
    for a file without languages; `split` is a value of the column ``split``, or in the file names
    of a folder, and None reads all. `langs` are those of sources and targets in files of pairs, as in
    `load_parallel`.
    """
    if lang is not None:
        reason = code_error(lang)
        if reason:
            raise ValueError(reason)
        lang = as_code(lang)
    constants = {}
    for side, code in zip(("source_lang", "target_lang"), langs):
        if code is not None:
            constants[side] = tagged_code(code)
    opened: list[Texts] = []
    for number, source in enumerate(
        [sources] if isinstance(sources, (str, os.PathLike)) else sources, 1
    ):
        opened += _open(source, number, kind, lang, split, constants)
    labels = [each.label for each in opened]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice:
        raise ValueError(f"{twice} is given twice: give it once")
    if not opened:
        raise ValueError("no sources: give at least one file")
    return opened


def _open(
    source: Any,
    number: int,
    kind: str | None,
    lang: str | None,
    split: str | None,
    constants: Mapping[str, str],
) -> Iterator[Texts]:
    """The texts of a source: a file, the files of a folder, or pairs in memory. `constants`:
    source_lang and target_lang, where the caller names them."""
    if not isinstance(source, (str, os.PathLike)):
        names = ["lang", "text"]
        part = Part(
            f"pairs {number}",
            names,
            lambda wanted: blocks_of(_units_of_pairs(source), names, wanted),
            (),
        )
        yield _texts(part, kind, lang, split)
        return
    path = Path(source)
    if path.is_dir():
        _warn_of_unnamed(path, lang)
    files = list_files(path, split, partial(_is_readable, lang=lang))
    parts: list[Part] = []
    codes: list[str | None] = []
    for file in files:
        if _is_lines(file):
            code = lang or _language_in_name(file)
            if code is None:
                raise ValueError(
                    f"{file}: unknown language: name the file like fra_Latn.txt, or give its language (--lang)"
                )
            parts.append(open_text(file))
        else:
            code = lang
            part = open_file(
                file,
                is_header=partial(schema.is_header, columns=None, constants=constants),
                langs=(constants.get("source_lang"), constants.get("target_lang")),
            )
            parts.append(part)
        codes.append(code)
    check_split(path, parts, split)
    for part, code in zip(parts, codes, strict=True):
        yield _texts(part, kind, code, split, constants)


def _is_lines(file: Path) -> bool:
    """Whether a file is named as plain text, packed or not."""
    return file.name.lower().endswith(tuple(f".txt{packed}" for packed in ("", *PACKED)))


def _language_in_name(file: Path) -> str | None:
    """The code in a name such as news.fra_Latn.txt."""
    for word in file.name.split(".")[:-1]:
        if "_" in word and not code_error(word):
            return word
    return None


def _is_readable(file: Path, lang: str | None) -> bool:
    """Whether a file of a folder holds texts whose languages are known by its columns, by its name
    or by the caller."""
    if _is_lines(file):
        return lang is not None or _language_in_name(file) is not None
    return is_table(file)


def _warn_of_unnamed(folder: Path, lang: str | None) -> None:
    """Say which plain texts of a folder are left out, since nothing names their language."""
    left_out = []
    for file in files_below(folder):
        if _is_lines(file) and not _is_readable(file, lang):
            left_out.append(file)
    if left_out:
        logger.warning(
            "%s: .txt files whose names hold no language are left out (%d, such as %s): name them like fra_Latn.txt",
            folder,
            len(left_out),
            left_out[0].name,
        )


def _texts(
    part: Part,
    kind: str | None,
    lang: str | None,
    split: str | None,
    constants: Mapping[str, str] | None = None,
) -> Texts:
    """The texts of an open file, with the languages and the split that the caller names."""
    sides, own_kind = _sides(part, lang, constants or {})
    columns = [name for side in sides for name in (side.text, side.lang) if name]
    plan = Plan.of(part, {name: name for name in columns}, split)
    kind = kind or own_kind
    identity = repr((part.identity, kind, sides, plan.split)) if part.identity else None
    convert = partial(_convert, sides=sides)
    tables = partial(checked_tables, [plan], convert, streaming=True)
    return Texts(part.label, kind, identity, plan.split, tables)


class Side(NamedTuple):
    """The columns of texts and of their languages in a table, or the one language of all rows."""

    text: str
    lang: str | None
    code: str | None = None


def _sides(part: Part, lang: str | None, constants: Mapping[str, str]) -> tuple[list[Side], str]:
    """(one side, or two of pairs, kind of text) of a table."""
    columns = part.columns
    if not schema.has_pair(columns) and {"lang", "text"} <= set(columns):
        return [Side("text", "lang")], "monolingual"
    if not schema.has_pair(columns) and "text" in columns and lang is not None:
        return [Side("text", None, lang)], "monolingual"
    # A column says the language; what the caller names is for files without it.
    used: Mapping[str, str] = {}
    try:
        mapping = schema.find_columns(columns, where=part.label)
    except ValueError:
        used = constants
        try:
            mapping = schema.find_columns(columns, constants=constants, where=part.label)
        except ValueError:
            raise ValueError(
                f"{part.label} has neither source, source_lang, target, target_lang nor lang and"
                f" text (found: {', '.join(columns) or 'none'}): rename its columns, or give the"
                " languages of pairs, such as --source-lang fra_Latn --target-lang eng_Latn"
                " (two columns without header need both)"
            ) from None
    sides = []
    for name in ("source", "target"):
        code = f"{name}_lang"
        sides.append(Side(mapping[name], mapping.get(code), used.get(code)))
    return sides, "parallel"


def _convert(block: Mapping[str, Any], sides: list[Side]) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The good texts (lang, text) of all sides, and (row, reason) of bad rows."""
    tables = []
    bad: dict[int, str] = {}
    for side in sides:
        texts = block[side.text]
        columns = {"lang": block[side.lang] if side.lang else [side.code] * len(texts)}
        columns["text"] = texts
        check = partial(_check_row, side.text, side.lang or "lang")
        table, reasons = schema.checked(
            columns, TYPES, check, lambda value: code_error(value) is None
        )
        tables.append(table)
        bad = dict(reasons) | bad
    return pa.concat_tables(tables), sorted(bad.items())


def _check_row(text: str, lang: str, row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row; None if it is a text in a known language."""
    reason = schema.check_text(text, row["text"])
    if reason:
        return reason
    if not isinstance(row["lang"], str) or not row["lang"]:
        return schema.check_text(lang, row["lang"])
    error = code_error(row["lang"][:60])
    return None if error is None else f"{lang}: {error}"


@cache
def code_error(code: str) -> str | None:
    """Why a word names no language; None if it does. Codes that `hf_echo.languages` does not know
    are valid if they have the form of one, because corpora have thousands of languages."""
    try:
        as_code(code)
    except ValueError as error:
        return f"{error} (write an unlisted language as xyz_Latn or xyz_Latn_BR)"
    return None


def _units_of_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[Unit]:
    for number, pair in enumerate(pairs, 1):
        yield number, [tuple(pair)], None, {}


def read_texts(
    path: str | Path, *, column: str | None = None, lang: str | None = None
) -> list[str]:
    """All texts of a file, or of standard input ("-"): its lines, or a column of a table
    (line breaks become spaces).

    A line of the log says how many of its rows are no texts (`open_text_rows`).

    Args:
        column: of a table (TSV, CSV, JSONL, Parquet): a name, or a number from 1 in a file without
            header; default: text. A TSV file of one column is read as lines, and so is standard
            input without `column`.
        lang: which texts of a TMX or XLIFF file, or of an alignment of OPUS.

    Raises:
        FileNotFoundError, ValueError: no text, an unknown kind of file, or a row that is none
            (with its number).
    """
    rows = open_text_rows(path, column, lang)
    texts = [text for block, _ in rows.blocks() for text in block]
    rows.report()
    if not texts:
        raise ValueError(EMPTY.format(name_of(path)))
    return texts


@contextmanager
def open_lines(
    path: str | Path,
    copy: Path,
    *,
    column: str | None = None,
    lang: str | None = None,
    every: bool = False,
    dedup: bool = False,
) -> Iterator[TextLines]:
    """`TextLines` of any file that `read_texts` reads; only positions are in memory.

    What is not a plain file is copied into the plain file `copy` until the end of the block.
    """
    # A plain file is read where it lies.
    options: dict[str, Any] = {"name": name_of(path), "every": every, "dedup": dedup}
    is_file = str(path) != STANDARD and Path(path).is_file()
    rows = open_text_rows(path, column, lang)
    if str(path) != STANDARD and not rows.is_table and not (is_file and is_packed(path)):
        yield TextLines(Path(path).absolute(), **options)
        return
    # Anything else is copied as lines, with the numbers of its rows.
    numbers = array("q")
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        with copy.open("w", encoding="utf-8", newline="") as file:
            for texts, lines in rows.blocks():
                # so a CR at the end of a text stays
                file.writelines(f"{text}\r\n" for text in texts)
                numbers.extend(lines)
        rows.report()
        text_lines = TextLines(copy.absolute(), numbers=numbers, **options)
        text_lines.left_out = rows.left_out.total()
        yield text_lines
    finally:
        copy.unlink(missing_ok=True)


class TextRows(NamedTuple):
    """An opened file of texts: `blocks()` gives (texts, their numbers),
    and counts the other items in `left_out`."""

    label: str
    is_table: bool  # other than lines
    blocks: Callable[[], Iterator[tuple[list[str], Sequence[int]]]]
    left_out: Counter[str]

    def report(self) -> None:
        log_left_out(self.label, self.left_out)


def open_text_rows(
    path: str | Path, column: str | None = None, lang: str | None = None
) -> TextRows:
    """Open any file of texts; its name says its kind. Arguments as in `read_texts`."""
    label = name_of(path)
    left_out: Counter[str] = Counter()
    numbered = (column or "").isdigit()
    # A column asked for: a table, whatever the name says. Else the name says the kind.
    if column is not None:
        part = open_file(Path(path), is_header=lambda fields: not numbered, without_header=None)
    elif str(path) == STANDARD:
        part = None
    else:
        part = open_texts_of(Path(path), lang)
    name = column or "text"
    # A TSV file of one column is a file of lines: its first line is a text.
    is_one_column = part is not None and len(part.columns) == 1 and kind_of(path) == ".tsv"
    if part is None or (column is None and is_one_column and part.columns != ["text"]):
        return TextRows(label, False, partial(_lines, path), left_out)
    if name not in part.columns:
        raise ValueError(f"{label} has no column {name!r}: name one of {', '.join(part.columns)}")
    return TextRows(label, True, partial(_texts_of_column, part, name, left_out), left_out)


def _lines(path: str | Path) -> Iterator[tuple[list[str], Sequence[int]]]:
    for block in text_blocks(path):
        _refuse(name_of(path), block.bad)
        yield block.texts, block.numbers


def _texts_of_column(
    part: Part, name: str, left_out: Counter[str]
) -> Iterator[tuple[list[str], Sequence[int]]]:
    """(texts without line ends, their row numbers) of a column, block by block; counts what is left
    out."""
    left_out.clear()
    for block in part.read([name]):
        left_out.update(block.left_out)
        texts = texts_of_block(block, part.label, {name: name})[name]
        yield [text.replace("\n", " ") for text in texts], block.lines


def texts_of_block(block: Block, label: str, columns: Mapping[str, str]) -> dict[str, list[str]]:
    """Name -> the texts of the column of each name; a text may be empty.

    Raises:
        ValueError: the first row that is none, or that holds something else than text.
    """
    texts = {}
    bad = list(block.bad)
    for name, column in columns.items():
        texts[name] = schema.as_list(block.columns[column])
        for number, text in zip(block.lines, texts[name]):
            reason = schema.check_text(name, text)
            if reason and not reason.endswith("is empty"):
                bad.append((number, reason))
    _refuse(label, sorted(bad))
    return texts


def open_two_texts(files: Sequence[Path], langs: Languages) -> Part:
    """Two files of texts of any kind, of which row i translates row i; one of them may be "-"."""
    for file in files:
        check_file(file)
    readers = []
    for file, lang in zip(files, langs):
        readers.append(partial(_rows_of_texts, open_text_rows(file, None, lang)))
    choice = tuple(getattr(lang, "tag", lang) for lang in langs)
    return open_two(files, readers, choice=choice)


def _rows_of_texts(rows: TextRows) -> Iterator[tuple[int, str, str | None]]:
    """(number, text, None) of each line of a text file, or of each row of a table."""
    if not rows.is_table:
        yield from each_line(
            text_blocks(rows.label if rows.label != name_of(STANDARD) else STANDARD)
        )
        return
    for texts, numbers in rows.blocks():
        for number, text in zip(numbers, texts):
            yield number, text, None


def _refuse(label: str, bad: Sequence[tuple[int, str]]) -> None:
    if bad:
        raise ValueError(f"{label}:{bad[0][0]}: {bad[0][1]}")
