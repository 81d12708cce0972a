"""Read verses from USFM, CES XML, vref text and TSV files, without markup, notes and headings.

A reader yields (line, references, text) as in the file; `read_source` normalises references and spaces and reports rows
that are not verses. A text for several verses (``\\v 2-3``, ``<range>``) is not split but reported as merged, because
it translates none of them exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from ...utils.text import why_not_text
from .find import Source
from .usfm import read_usfm
from .verses import parse_reference

Row = tuple[int, tuple[str, ...], str]
OnBad = Callable[[str, int, str], None]  # (file, line, reason)
RANGE = "<range>"
_SPACES = re.compile(r"\s+")


class Verses(NamedTuple):
    texts: dict[str, str]  # verse -> text, never empty
    empty: list[str]
    merged: dict[str, str]  # verse -> the text it shares with its neighbours


def read_source(source: Source, on_bad: OnBad) -> Verses:
    """Read all verses of an edition. ``on_bad(file, line, reason)`` is called for each row that is not a verse.

    Raises:
        ValueError: a file cannot be read, with file and line.
    """
    verses = Verses({}, [], {})
    for file in source.files:
        for line, references, text in _rows(source, file):
            try:
                parsed = [parse_reference(reference) for reference in references]
            except ValueError as error:
                on_bad(str(file), line, str(error))
                continue
            names = [name for verse_names, _ in parsed for name in verse_names]
            if problem := _add(verses, names, any(part for _, part in parsed), normalise_spaces(text)):
                on_bad(str(file), line, problem)
    for name in set(verses.merged) & set(verses.texts):
        del verses.texts[name]
    return verses


def _add(verses: Verses, names: list[str], part: bool, text: str) -> str | None:
    if len(names) > 1:
        verses.merged.update(dict.fromkeys(names, text))
    elif not text:
        verses.empty.extend(names)
    elif names[0] not in verses.texts:
        verses.texts[names[0]] = text
    elif part:
        verses.texts[names[0]] += " " + text
    else:
        return f"a second text for {names[0]}"
    return None


def normalise_spaces(text: str) -> str:
    """Replace each run of white space (including no-break spaces and byte order marks) by one space."""
    return _SPACES.sub(" ", text.replace("\ufeff", "")).strip()


def _rows(source: Source, file: Path) -> Iterable[Row]:
    if source.kind == "usfm":
        return read_usfm(file, read_text(file))
    if source.kind == "ces":
        return read_ces(file)
    if source.kind == "tsv":
        return read_tsv(file)
    return read_vref(file, source.vref)


def read_text(path: Path) -> str:
    """Read a UTF-8 file.

    Raises:
        ValueError: the bytes are not UTF-8, with file and line.
    """
    data = path.read_bytes()
    if reason := why_not_text(data):
        raise ValueError(f"{path}: {reason}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None


def read_tsv(path: Path) -> Iterator[Row]:
    """Read ``verse<TAB>text``. A first line with column names and without a verse is a header."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        reference, tab, text = line.rstrip("\r").partition("\t")
        if number == 1 and not any(map(str.isdigit, reference)):
            continue
        if not tab:
            raise ValueError(f"{path}:{number}: no tab; a line must be a verse, a tab and its text")
        yield number, (reference,), text


def read_vref(path: Path, vref: Path) -> Iterator[Row]:
    """Read one verse per line, parallel to the list of verses; ``<range>``: the text above also covers this verse."""
    names, texts = (read_text(p).replace("\r", "").removesuffix("\n").split("\n") for p in (vref, path))
    if len(names) != len(texts):
        raise ValueError(
            f"{path}:{min(len(names), len(texts)) + 1}: {len(texts)} lines, but {vref} has {len(names)}; "
            f"they must correspond line by line"
        )
    start = 0
    for end in range(1, len(texts) + 1):
        if end == len(texts) or texts[end].strip() != RANGE:
            yield start + 1, tuple(names[start:end]), texts[start]
            start = end


def read_ces(path: Path) -> Iterator[Row]:
    """Read ``<seg id="b.GEN.1.1" type="verse">`` of the Corpus Encoding Standard, as in christos-c/bible-corpus."""
    rows: list[Row] = []
    open_seg: list = []  # line, id, pieces of text
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "seg" and attributes.get("type", "verse") == "verse":
            open_seg[:] = [parser.CurrentLineNumber, attributes.get("id", ""), []]

    def end(tag: str) -> None:
        if tag == "seg" and open_seg:
            rows.append((open_seg[0], (open_seg[1],), "".join(open_seg[2])))
            open_seg.clear()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda data: open_seg and open_seg[2].append(data)
    with path.open("rb") as file:
        last = False
        while not last:
            data = file.read(1 << 16)
            last = not data
            try:
                parser.Parse(data, last)
            except expat.ExpatError as error:
                reason = expat.ErrorString(error.code)
                raise ValueError(f"{path}:{error.lineno}: not XML ({reason})") from None
            yield from rows
            rows.clear()


def language_of_ces(path: Path) -> str | None:
    """The language in the header: ``<language id="gv" iso639="glv">``."""
    codes: list[str] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "language" and not codes:
            codes.extend(filter(None, (attributes.get("iso639"), attributes.get("id"))))

    parser.StartElementHandler = start
    with path.open("rb") as file:
        try:
            parser.Parse(file.read(1 << 16), False)
        except expat.ExpatError:
            return None  # reading the verses will report the place
    return codes[0].lower() if codes else None
