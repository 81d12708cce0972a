"""Read texts with their language from a table, for descriptions and back-translations."""

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
    only: str | None = None,
    on_bad_row: str = "error",
) -> list[Text]:
    """Read the texts of a table (.jsonl, .parquet, .tsv), in order.

    Args:
        columns: candidates (text column, language column); the first pair with both columns is read, else the first
            text column.
        lang: language of all rows if there is no language column.
        check: function that returns the reason why a text is bad, or None.
        only: read only rows with this value in the column ``class`` (`train_scripts/corpora/source_code.py`, `math`).
        on_bad_row: "error", or "skip" (one warning).

    Raises:
        FileNotFoundError: the file does not exist. ValueError: a missing column, or bad rows (file and line).
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a table of texts ({', '.join(SUFFIXES)})")
    if suffix_of(path) in (None, ".po"):
        raise ValueError(f"{path}: not a table of texts; give .jsonl, .parquet or .tsv")
    part = open_file(path)
    pairs = [pair for pair in columns if pair[0] in part.columns]
    pair = next((pair for pair in pairs if pair[1] in part.columns), pairs[0] if pairs else None)
    if pair is None:
        wanted = ", ".join(dict.fromkeys(name for name, _ in columns))
        raise ValueError(f"{path} has no column of texts ({wanted}); found: {', '.join(part.columns)}")
    has_lang = pair[1] in part.columns
    if not has_lang and lang is None:
        present = ", ".join(part.columns)
        raise ValueError(
            f"{path} has no column {pair[1]!r} for the language (found: {present}); give one language for all rows"
        )
    if only is not None and "class" not in part.columns:
        raise ValueError(f"{path} has no column 'class' to choose {only!r} by; found: {', '.join(part.columns)}")
    bad, texts = BadRows(on_bad_row), []
    wanted = [pair[0], *([pair[1]] if has_lang else []), *(["class"] if only is not None else [])]
    for block in part.read(wanted):
        values = as_list(block.columns[pair[0]])
        langs = as_list(block.columns[pair[1]]) if has_lang else [lang] * len(values)
        classes = as_list(block.columns["class"]) if only is not None else [None] * len(values)
        wrong = list(block.bad)
        for value, code, kind, line in zip(values, langs, classes, block.lines):
            if kind != only:
                continue
            text = Text(value, code)
            if reason := check_text(pair[0], value) or check_language(pair[1], code) or check(text):
                wrong.append((line, reason))
            else:
                texts.append(text)
        for line, reason in sorted(wrong):
            bad.add(str(path), line, reason)
    bad.report()
    if not texts:
        raise ValueError(f"{path}: no valid row" + (f" of class {only!r}" if only is not None else ""))
    return texts
