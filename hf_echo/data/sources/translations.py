"""Translated messages and manuals of programs: gettext catalogs in wheels and repositories."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import PurePosixPath

from ...languages import ENGLISH
from ..gettext_catalogs import Catalog, catalog_rows, read_catalog, strip_tags
from ..tables import BadRows
from .origins import Files
from .rows import PAIR_COLUMNS, Rows, code_of, one_line

COLUMNS = (*PAIR_COLUMNS, "source")
MOST = 3  # translations of a message in one language
WORDS = range(3, 61)  # of the English side of a sentence or paragraph
HELP = "libreoffice-help-"
PARAGRAPHS = {"p", "h1", "h2", "h3", "h4", "h5", "h6"}
# Markup of reStructuredText, DocBook and AsciiDoc.
ROLE = re.compile(r":[a-zA-Z:+-]+:`~?!?([^`<]+?)(?:\s*<[^`>]*>)?`")
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`__?")
REFERENCE = re.compile(r"`([^`]+)`__?")
CODE = re.compile(r"``([^`]*)``")
STRONG = re.compile(r"\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
PAGE = re.compile(r"linkgit:([\w-]+)\[\d*\]")
ASCIIDOC = re.compile(r"(?:link|xref):[\w.:/#-]*\[([^\]]*)\]")
MARKUP_LEFT = re.compile(r"[`|{}]|::|\\|<<|^\.\. |^\+$")


def read_interfaces(files: Sequence[Files]) -> Rows:
    """Pairs of interface strings with the package:
    at most three translations of a string for a language."""
    for package in files:
        seen: dict[tuple[str, str], set[str]] = defaultdict(set)
        for english, code, foreign in _messages(package):
            texts = seen[english, code]
            if foreign not in texts and len(texts) < MOST and foreign != english:
                texts.add(foreign)
                yield False, ENGLISH, english, code, foreign, package.origin


def read_manuals(files: Sequence[Files]) -> Rows:
    """Pairs of sentences and short paragraphs with the repository:
    3 to 60 English words, markup removed."""
    for repository in files:
        seen: set[tuple[str, str, str]] = set()
        for message, code, translation in _messages(repository):
            english = without_markup(message)
            foreign = without_markup(translation)
            is_prose = len(english.split()) in WORDS and not MARKUP_LEFT.search(english + foreign)
            is_translated = foreign not in ("", english)
            row = (english, code, foreign)
            if is_prose and is_translated and row not in seen:
                seen.add(row)
                yield False, ENGLISH, english, code, foreign, repository.origin


def without_markup(text: str) -> str:
    """The text of a paragraph of reStructuredText, DocBook, Mallard or AsciiDoc without its inline
    markup."""
    for pattern in (ROLE, LINK, CODE, REFERENCE, STRONG, PAGE, ASCIIDOC):
        text = pattern.sub(r"\1", text)
    return one_line(TAG.sub("", strip_tags(text)))


def _messages(files: Files) -> Iterator[tuple[str, str, str]]:
    """(English, language, translation) of all catalogs;
    .mo files of a package that has .po files repeat them."""
    names = files.matching("*.po") or files.matching("*.mo")
    for name in names:
        read = partial(_catalog, files, name)
        catalog = Catalog(f"{files.origin}/{name}", _place_of(files, name), files.origin, read)
        # A catalog that cannot be read is counted there and skipped: one of thousands.
        for row in catalog_rows(catalog, BadRows("skip"), Counter()):
            english, source_code, foreign, code, _ = row
            if source_code == ENGLISH:
                yield one_line(english), code, one_line(foreign)


def _catalog(files: Files, name: str) -> object:
    return read_catalog(f"{files.origin}/{name}", files.read(name))


def _place_of(files: Files, name: str) -> PurePosixPath:
    """The path from which the language is read:
    python-docs-LANG has it in the name of the repository alone."""
    path = PurePosixPath(name)
    _, is_of_python, language = files.origin.partition("python-docs-")
    if not is_of_python:
        return path
    return PurePosixPath(language, "LC_MESSAGES", path.name)


class _Paragraphs(HTMLParser):
    """Collects the texts of paragraphs and headings that have an id
    (``par_id...``, ``hd_id...``)."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.open_id: str | None = None
        self.pieces: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in PARAGRAPHS:
            name = dict(attributes).get("id") or ""
            self.open_id = name if name.startswith(("par_id", "hd_id")) else None
            self.pieces = []

    def handle_data(self, data: str) -> None:
        if self.open_id is not None:
            self.pieces.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in PARAGRAPHS and self.open_id is not None:
            self.texts.setdefault(self.open_id, one_line("".join(self.pieces)))
            self.open_id = None


def paragraphs_of(page: str) -> dict[str, str]:
    """Id -> text of the paragraphs of a help page."""
    parser = _Paragraphs()
    parser.feed(page)
    return parser.texts


def read_documentation(files: Sequence[Files]) -> Rows:
    """The manuals in gettext catalogs, and the pages of LibreOffice's help, whose paragraphs have
    the same id in every language."""
    # Pages of help are packages; the other origins are repositories of catalogs.
    pages = [package for package in files if package.origin.startswith(HELP)]
    yield from read_manuals([repository for repository in files if repository not in pages])
    english_pages: dict[str, dict[str, str]] = {}
    for package in pages:
        if package.origin == f"{HELP}en-us":
            for name in package.names:
                english_pages[name.split("/", 5)[5]] = paragraphs_of(package.read(name).decode())
    for package in pages:
        if package.origin != f"{HELP}en-us":
            yield from _help_rows(package, english_pages)


def _help_rows(package: Files, english_pages: dict[str, dict[str, str]]) -> Rows:
    """Rows of pairs of paragraphs of help pages that have the same id, each pair once."""
    code = code_of(package.origin.removeprefix(HELP))
    if code is None:
        raise ValueError(f"{package.origin} is in a language that is not known")
    seen: set[tuple[str, str]] = set()
    for name in package.names:
        english_page = english_pages.get(name.split("/", 5)[5], {})
        for paragraph, foreign in paragraphs_of(package.read(name).decode()).items():
            pair = (english_page.get(paragraph, ""), foreign)
            if (
                len(pair[0].split()) in WORDS
                and foreign
                and pair[0] != foreign
                and pair not in seen
            ):
                seen.add(pair)
                yield False, ENGLISH, pair[0], code, foreign, "libreoffice-help"
