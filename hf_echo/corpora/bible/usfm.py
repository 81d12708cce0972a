"""Extract the verses of USFM files. usfmtc, the reference parser, parses; this module selects the verses' text.

Not text: notes, cross references, figures, headings, titles, introductions, sidebars, alternative verse numbers. Text
between a heading and the next verse number, and the continuation of a verse in a new paragraph, belong to the verse.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

SILENT_TAGS = {"note", "figure", "sidebar", "book"}
SILENT_CHARACTERS = {"va", "vp", "ca", "cp", "rq", "pro", "fig"}
SILENT_PARAGRAPHS = {"header", "introduction", "otherpara", "sectionpara", "title"}


def read_usfm(path: Path, text: str) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """Yield (line, references, text) of each verse of a book.

    Raises:
        ValueError: no ``\\id`` line with a book, usfmtc cannot parse the file, or usfmtc is not installed.
    """
    try:
        from usfmtc import USX
    except ImportError:
        raise ValueError(f"{path}: reading USFM needs usfmtc (pip install 'hf-echo[bible]')") from None
    if not text.lstrip().startswith("\\id "):
        raise ValueError(f"{path}:1: not USFM; a book must begin with \\id and its code (\\id GEN)")
    try:
        root = USX.fromUsfm(text).getroot()
    except Exception as error:  # usfmtc raises many types on malformed input
        raise ValueError(f"{path}:1: usfmtc cannot read this as USFM ({error})") from None
    walk = _Walk(text.lstrip().split()[1].upper()[:3])
    walk.element(root)
    walk.close()
    yield from walk.rows


class _Walk:
    """Walks through a book. A verse number starts text again, also inside a note that was not closed."""

    def __init__(self, book: str) -> None:
        from usfmtc.usfmparser import Grammar

        self.categories = Grammar().marker_categories
        self.book, self.chapter = book, ""
        self.rows: list[tuple[int, tuple[str, ...], str]] = []
        self.verse: tuple[int, str] | None = None
        self.parts: list[str] = []
        self.silent = False

    def close(self) -> None:
        if self.verse is not None:
            line, number = self.verse
            reference = f"{self.book} {self.chapter}:{number}"
            self.rows.append((line, (reference,), "".join(self.parts).replace("~", " ")))
        self.verse, self.parts = None, []

    def say(self, text: str | None) -> None:
        if text and not self.silent and self.verse is not None:
            self.parts.append(text)

    def element(self, node: Any) -> None:
        style = node.get("style", "")
        if node.tag == "chapter":
            self.close()
            self.chapter = node.get("number", "")
        elif node.tag == "verse":
            self.close()
            self.verse, self.silent = (_line(node), node.get("number", "")), False
        elif node.tag in ("para", "row", "cell", "table"):
            self.say(" ")
        before, self.silent = self.silent, self.silent or self.is_silent(node.tag, style)
        after = self.verse
        self.say(node.text)
        for child in node:
            self.element(child)
            self.say(child.tail)
        if self.verse is after:  # a verse that started inside this element continues after it
            self.silent = before

    def is_silent(self, tag: str, style: str) -> bool:
        if tag == "para":
            return self.categories.get(style) in SILENT_PARAGRAPHS
        return tag in SILENT_TAGS or (tag == "char" and style in SILENT_CHARACTERS)


def _line(node: Any) -> int:
    position = getattr(node, "pos", None)
    return getattr(position, "l", 0) + 1
