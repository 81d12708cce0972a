"""Mathematical expressions of LaTeX and of running text, and the sentences that hold them (OS A.3, ECHO A.1.2).

Table 30 lists regular expressions; read as they stand they contradict each other (`$...$` also matches inside of
`$$...$$`, escaped dollars and comments count, `\\[` stands there without its backslash, ECHO spells "multiline"). The
classes are kept, `latex_scan` finds them; `\\(...\\)` and the starred and further environments of amsmath are added.

The two filters: an expression has 20 to 150 characters (without its delimiters, blanks run together), and one of which
more than 90 % of the non-blank characters are letters is left out unless it is inline. The examples of the papers'
tables are shorter than 20; `min_length` is a parameter.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..data.formats import open_file, suffix_of
from ..data.tables import as_list
from .latex_scan import VERB, Found, scan
from .source_files import bad_file, each_file, read_utf8

MIN_LENGTH, MAX_LENGTH = 20, 150  # characters (OS A.3)
MAX_ALPHABETIC = 0.9
_NAMES = {"$": "inline", r"\(": "inline", "math": "inline", "$$": "display", r"\[": "display"}
_MASK, _REMARK = "\ue000", "\ue001"  # no letter, no blank, no end of a sentence
_EDGE = re.compile(rf"[\s{_REMARK}]*")
_SENTENCE_END = r"\n[^\S\n]*\n\s*|(?<=[.!?])\s+"  # Table 30's, and empty lines
_HEADS = (  # of LaTeX, no part of a sentence
    r"|\\item\b(?:\[[^\]\n]*\])?|\\par\b|\\label\{[^{}\n]*\}"
    r"|\\(?:part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?\s*\{[^{}\n]*\}"
)
_CUTS = {True: re.compile(_SENTENCE_END), False: re.compile(_SENTENCE_END + _HEADS)}
_COMMENT = re.compile(rf"({VERB}|\\.)|%[^\n]*\n?[ \t]*", re.DOTALL)  # with the blanks that TeX skips behind it
_TABLES = (".parquet", ".jsonl", ".jsonl.gz")
LATEX_SUFFIXES = (".tex", ".ltx", ".latex")
MATH_SUFFIXES = (*LATEX_SUFFIXES, ".md", ".txt")


class MathText(NamedTuple):
    """Characters `start` to `end` of the document, delimiters included. `kind`: "inline", "display", the name of an
    environment ("align*"), or "sentence". `text`: an expression's body or the sentence, without comments, blanks run
    together."""

    start: int
    end: int
    kind: str
    text: str


def find_expressions(document: str, *, markdown: bool = False) -> list[MathText]:
    """All expressions of a document, unfiltered, in order; they do not overlap. `markdown`: see `latex_scan.scan`."""
    return list(_expressions(document, list(scan(document, markdown=markdown)), markdown))


def find_sentences(document: str, *, markdown: bool = False) -> list[MathText]:
    """The sentences that hold at least one expression and a word beside it.

    A sentence ends behind `.`, `!` or `?` and a blank outside of mathematics (Table 30), at an empty line, at
    verbatim text and at the edges of environments that are no mathematics.
    """
    return list(_sentences(document, list(scan(document, markdown=markdown)), markdown))


def keep_expression(text: str, *, inline: bool, min_length: int = MIN_LENGTH, max_length: int = MAX_LENGTH) -> bool:
    """The two filters of OS A.3 on an expression's body."""
    if not min_length <= len(text) <= max_length:
        return False
    letters = sum(map(str.isalpha, text))
    return inline or letters <= MAX_ALPHABETIC * sum(not c.isspace() for c in text)


def math_rows(
    documents: Iterable[tuple[str, str, bool]],
    *,
    min_length: int = MIN_LENGTH,
    max_length: int = MAX_LENGTH,
    sentences: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yields rows: id ("name:start-end"), language ("latex"), text, class (`MathText.kind`), start, end; a text once.

    Args:
        documents: (name, text, markdown), for example of `read_documents`.
        sentences: also sentences that hold an expression (class "sentence"; the filters are for expressions alone).
    """
    seen: set[bytes] = set()
    for name, document, markdown in documents:
        found = list(scan(document, markdown=markdown))
        kept = [
            expression
            for expression in _expressions(document, found, markdown)
            if keep_expression(
                expression.text,
                inline=expression.kind == "inline",
                min_length=min_length,
                max_length=max_length,
            )
        ]
        kept += _sentences(document, found, markdown) if sentences else []
        for start, end, kind, text in kept:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if key not in seen:
                seen.add(key)
                row = {"id": f"{name}:{start}-{end}", "language": "latex", "text": text}
                yield {**row, "class": kind, "start": start, "end": end}


def _expressions(document: str, found: list[Found], markdown: bool) -> Iterator[MathText]:
    for one in found:
        if one.kind not in ("comment", "break"):
            text = _clean(document[one.body : one.body_end], markdown)
            if text:
                yield MathText(one.start, one.end, _NAMES.get(one.kind, one.kind), text)


def _sentences(document: str, found: list[Found], markdown: bool) -> Iterator[MathText]:
    starts = [one.start for one in found if one.kind not in ("comment", "break")]
    for start, end in _stretches(_masked(document, found), markdown):
        first = bisect_left(starts, start)
        if first < len(starts) and starts[first] < end:
            yield MathText(start, end, "sentence", _clean(document[start:end], markdown))


def _masked(document: str, found: list[Found]) -> str:
    """The document with expressions and comments as one character over and over, breaks as empty lines."""
    parts, place = [], 0
    for one in found:
        cover = {"break": "\n", "comment": _REMARK}.get(one.kind, _MASK)
        parts += [document[place : one.start], cover * (one.end - one.start)]
        place = one.end
    return "".join([*parts, document[place:]])


def _stretches(masked: str, markdown: bool) -> Iterator[tuple[int, int]]:
    """Where a sentence stands that has a word of its own; without blanks around it."""
    place = 0
    for cut in [*_CUTS[markdown].finditer(masked), None]:
        end = cut.start() if cut else len(masked)
        stretch = masked[place:end]
        words = stretch if markdown else re.sub(r"\\[A-Za-z]+", "", stretch)
        if any(map(str.isalpha, words)):
            yield place + _EDGE.match(stretch).end(), end - _EDGE.match(stretch[::-1]).end()
        place = cut.end() if cut else end


def _clean(text: str, markdown: bool) -> str:
    if not markdown and "%" in text:
        text = _COMMENT.sub(lambda token: token[1] or "", text)
    return " ".join(text.split())


def read_documents(
    paths: Iterable[str | Path], *, on_bad: str = "error", progress: bool = True
) -> Iterator[tuple[str, str, bool]]:
    """Yields (name, text, markdown) of files and folders.

    LaTeX files (.tex, .ltx, .latex), running text (.md, .txt and any other file that is named), and tables with a
    column "text" (.parquet, .jsonl, .jsonl.gz), a row a document, its name "path:row".

    Raises:
        FileNotFoundError: no such path, or a folder without such files. ValueError: a file or row that cannot be read,
        where `on_bad` is "error" ("skip" leaves it out with a warning that names it).
    """
    for path in each_file(paths, (*MATH_SUFFIXES, *_TABLES), on_bad, progress):
        name = path.as_posix()
        if suffix_of(path) in _TABLES:
            for row, text in _table_texts(path, on_bad):
                yield f"{name}:{row}", text, True
        elif data := read_utf8(path, on_bad):
            yield name, data.decode("utf-8-sig"), not name.lower().endswith(LATEX_SUFFIXES)


def _table_texts(path: Path, on_bad: str) -> Iterator[tuple[int, str]]:
    for line, text, reason in _table_rows(path):
        if reason:
            bad_file(reason, on_bad)
        elif text is not None:
            yield line, text


def _table_rows(path: Path) -> Iterator[tuple[int, str | None, str | None]]:
    """Yields (line, text, what is wrong with it)."""
    try:
        part = open_file(path)
        if "text" not in part.columns:
            yield 0, None, f"{path}: no column 'text', only {', '.join(part.columns)}"
            return
        for block in part.read(["text"]):
            yield from ((line, None, f"{path}:{line}: {reason}") for line, reason in block.bad)
            for line, text in zip(block.lines, as_list(block.columns["text"]), strict=True):
                wrong = text is not None and not isinstance(text, str)
                yield line, text, f"{path}:{line}: text is a {type(text).__name__}" if wrong else None
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        reason = " ".join(str(error).split())
        yield 0, None, reason if str(path) in reason else f"{path}: {reason}"
