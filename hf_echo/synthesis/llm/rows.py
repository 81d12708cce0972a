"""Texts with their language from a file: what descriptions and back-translations start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...data.formats import SUFFIXES, open_file, suffix_of
from ...data.schema import check_language, check_text
from ...data.tables import BadRows, as_list


class Text(NamedTuple):
    text: str
    lang: str


def read_texts(
    path: str | Path,
    *,
    columns: Sequence[tuple[str, str]],
    lang: str | None = None,
    check: Callable[[Text], str | None] = lambda text: None,
    on_bad_row: str = "error",
) -> list[Text]:
    """The texts of a table (.jsonl, .parquet, .tsv), in order.

    Args:
        columns: (text column, language column), tried in turn; the first text column that is there is read.
        lang: of all rows; a language column, if there is one, must agree.
        check: what is wrong with a text of the right form, or None.
        on_bad_row: "error", or "skip" (one warning).

    Raises:
        FileNotFoundError: no such file. ValueError: no such column, or bad rows; named by file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a table of texts ({', '.join(SUFFIXES)})")
    if suffix_of(path) in (None, ".po"):
        raise ValueError(f"{path}: not a table of texts; known are .jsonl, .parquet and .tsv")
    part = open_file(path)
    pair = next((pair for pair in columns if pair[0] in part.columns), None)
    if pair is None:
        wanted = ", ".join(dict.fromkeys(name for name, _ in columns))
        raise ValueError(f"{path} has no column of texts ({wanted}); found: {', '.join(part.columns)}")
    has_lang = pair[1] in part.columns
    if not has_lang and lang is None:
        found = ", ".join(part.columns)
        raise ValueError(
            f"{path} has no column {pair[1]!r} for the language (found: {found}); name one for all"
        )
    bad, texts = BadRows(on_bad_row), []
    for block in part.read([pair[0], pair[1]] if has_lang else [pair[0]]):
        values = as_list(block.columns[pair[0]])
        langs = as_list(block.columns[pair[1]]) if has_lang else [lang] * len(values)
        wrong = list(block.bad)
        for value, code, line in zip(values, langs, block.lines):
            text = Text(value, code)
            if reason := check_text(pair[0], value) or _check_lang(pair[1], code, lang) or check(text):
                wrong.append((line, reason))
            else:
                texts.append(text)
        for line, reason in sorted(wrong):
            bad.add(str(path), line, reason)
    bad.report()
    if not texts:
        raise ValueError(f"{path}: no good row")
    return texts


def _check_lang(column: str, code: str, wanted: str | None) -> str | None:
    if wanted is not None and code != wanted:
        return f"{column} is {code}, not {wanted}"
    return check_language(column, code)
