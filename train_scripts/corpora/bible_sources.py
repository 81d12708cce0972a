"""Find and read editions of the Bible: USFM, CES XML, vref text and TSV, without markup, notes and
headings.

An edition (the SOURCE of OS A.8) is one file, or a folder of USFM files, one per book. Its language
is written before the path (``fra_Latn=some/folder``), in the file name (``fra-LSG.txt``, as in
eBible; ``fra_Latn.tsv``) or is the name of its folder (``fra_Latn/LSG.tsv``). A CES file may also
declare it.

Verses are named as in USFM and vref.txt, ``JHN 3:16``, and taken as printed: versifications are not
mapped onto each other (they differ in parts of the Old Testament, chiefly the Psalms; not in John).
A text for several verses (``\\v 2-3``, ``<range>``) is not split but reported as merged, because it
translates none of them exactly. usfmtc, the reference parser, parses USFM; text between a heading
and the next verse number belongs to the verse.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from hf_echo.languages import LANGUAGES, find_language
from hf_echo.utils.files import files_below
from hf_echo.utils.text import why_not_text

BOOKS = tuple(
    """
    GEN EXO LEV NUM DEU JOS JDG RUT 1SA 2SA 1KI 2KI 1CH 2CH EZR NEH EST JOB PSA PRO ECC SNG ISA JER LAM EZK DAN
    HOS JOL AMO OBA JON MIC NAM HAB ZEP HAG ZEC MAL MAT MRK LUK JHN ACT ROM 1CO 2CO GAL EPH PHP COL 1TH 2TH 1TI
    2TI TIT PHM HEB JAS 1PE 2PE 1JN 2JN 3JN JUD REV TOB JDT ESG WIS SIR BAR LJE S3Y SUS BEL 1MA 2MA 3MA 4MA 1ES
    2ES MAN PS2 ODA PSS EZA 5EZ 6EZ DAG PS3 2BA LBA JUB ENO 1MQ 2MQ 3MQ REP 4BA LAO
    """.split()
)
# codes of christos-c/bible-corpus that differ from USFM's
ALIASES = dict(
    SON="SNG", EZE="EZK", JOE="JOL", NAH="NAM", MAR="MRK", JOH="JHN", PHI="PHP", JAM="JAS"
)
ALIASES |= {"1JO": "1JN", "2JO": "2JN", "3JO": "3JN"}
SPLITS = ("train", "dev", "test")

_ORDER = {book: number for number, book in enumerate(BOOKS)}
_REFERENCE = re.compile(
    r"(?:b\.)?(?P<book>\w{3})[ .](?P<chapter>\d{1,3})[.:]"
    r"(?P<first>\d{1,3})(?P<part>[a-z]?)(?:[-–,](?P<last>\d{1,3})[a-z]?)?"
)
_LONGEST = 40  # most verses of one range


def parse_reference(text: str) -> tuple[list[str], bool]:
    """Parse ``b.JOH.3.16``, ``JHN.3.16`` or ``JHN 3:16`` to the names of its verses (``JHN
    3:16-17``: two).

    Returns:
        The names, and whether the reference is a part of a verse (``JHN 3:16a``).

    Raises:
        ValueError: not a reference, or an unknown book.
    """
    text = text.strip()
    match = _REFERENCE.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a verse reference such as JHN 3:16 or b.JHN.3.16")
    book = match["book"].upper()
    book = ALIASES.get(book, book)
    if book not in _ORDER:
        raise ValueError(f"unknown book {match['book']!r}; use the codes of USFM (GEN ... REV)")
    first = int(match["first"])
    last = int(match["last"] or first)
    if not first <= last < first + _LONGEST:
        raise ValueError(f"{text!r} is not a range of verses")
    chapter = int(match["chapter"])
    names = [f"{book} {chapter}:{verse}" for verse in range(first, last + 1)]
    return names, bool(match["part"])


def split_of(verse: str) -> str:
    """The split of a verse: John 1-10 is ``dev``, John 11-21 ``test``,
    the rest ``train`` (OS A.8)."""
    book, place = verse.split(" ")
    if book != "JHN":
        return "train"
    return "dev" if int(place.split(":")[0]) <= 10 else "test"


def place_of(verse: str) -> tuple[int, int, int]:
    """Sort key of a verse in the order of a printed Bible."""
    book, place = verse.split(" ")
    chapter, number = place.split(":")
    return _ORDER[book], int(chapter), int(number)


KINDS = {".usfm": "usfm", ".sfm": "usfm", ".xml": "ces", ".tsv": "tsv", ".txt": "vref"}
_CODE = re.compile(r"[a-z]{2,3}([_-][A-Z][a-z]{3})?")


class Source(NamedTuple):
    lang: str | None  # as declared: a code with or without script; None if not declared
    name: str
    kind: str
    files: tuple[Path, ...]
    vref: Path | None = None

    @property
    def label(self) -> str:
        return str(self.files[0] if len(self.files) == 1 else self.files[0].parent)


def find_sources(paths: Iterable[str | Path], *, vref: Path | None = None) -> list[Source]:
    """The editions under ``paths`` (files or folders, optionally with ``LANG=`` in front), sorted
    by name.

    Args:
        vref: the list of verses for .txt files, line by line; by default the ``vref.txt`` beside
            them, in a parent folder or in its ``metadata``.

    Raises:
        FileNotFoundError: no such path, no edition there, or no vref.txt for a .txt file.
        ValueError: two editions of a language with the same name.
    """
    sources: list[Source] = []
    for text in map(str, paths):
        front, _, rest = text.partition("=")
        lang = front if rest and _CODE.fullmatch(front) else None
        path = Path(rest if lang else text)
        if not path.exists():
            raise FileNotFoundError(f"no file or folder {path}")
        editions = list(_editions(path))
        if not editions:
            raise FileNotFoundError(f"{path} holds no edition of the Bible ({', '.join(KINDS)})")
        sources += [_source(files, lang, vref) for files in editions]
    sources.sort(key=lambda source: (source.lang or "", source.name))
    for source, other in pairwise(sources):
        if (source.lang, source.name) == (other.lang, other.name):
            raise ValueError(
                f"{other.label} and {source.label} are both called {source.name!r} ({source.lang}): rename one"
            )
    return sources


def _editions(path: Path) -> Iterator[tuple[Path, ...]]:
    """The files of each edition below a path: the books of a folder of USFM, or one other file."""
    if path.is_file():
        if path.suffix.lower() not in KINDS:
            raise ValueError(f"{path}: unknown file type; use one of {', '.join(KINDS)}")
        yield (path,)
        return
    books: dict[Path, list[Path]] = {}
    for file in files_below(path):
        kind = KINDS.get(file.suffix.lower())
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if kind is None or hidden or not file.is_file() or file.name == "vref.txt":
            continue
        if kind == "usfm":
            books.setdefault(file.parent, []).append(file)
        else:
            yield (file,)
    yield from map(tuple, books.values())


def _source(files: tuple[Path, ...], lang: str | None, vref: Path | None) -> Source:
    """The source of files of one edition, with the language that its file or folder names."""
    kind = KINDS[files[0].suffix.lower()]
    if len(files) > 1:
        path = files[0].parent.resolve()
        name = path.name
    else:
        path = files[0].resolve()
        name = path.stem
    folder = path.parent.name
    front, _, rest = name.partition("-")
    if rest and _CODE.fullmatch(front):
        lang = lang or front
        name = rest
    elif _CODE.fullmatch(name) and ("_" in name or is_code(name)):
        lang = lang or name
    elif (
        len(folder) > 2 and _CODE.fullmatch(folder) and is_code(folder)
    ):  # a folder "in" is no language
        lang = lang or folder
    if kind == "vref":
        vref = _vref(files[0], vref)
    return Source(lang, name, kind, files, vref)


def _vref(file: Path, vref: Path | None) -> Path:
    """The list of verses of a .txt file."""
    places = [vref] if vref else []
    if not vref:
        for folder in file.resolve().parents[:3]:
            places += [folder / "vref.txt", folder / "metadata" / "vref.txt"]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"{file}: a .txt file has one verse per line in the order of a vref.txt; none was found, give it (--vref)"
    )


def is_code(text: str) -> bool:
    """Whether `hf_echo.languages` knows this code (``fr``, ``fra``, ``fra_Latn``)."""
    if text in LANGUAGES:
        return True
    try:
        find_language(text)
    except ValueError:
        return False
    return True


Row = tuple[int, tuple[str, ...], str]
OnBad = Callable[[str, int, str], None]  # (file, line, reason)
RANGE = "<range>"
_SPACES = re.compile(r"\s+")


class Verses(NamedTuple):
    texts: dict[str, str]  # verse -> text, never empty
    empty: list[str]
    merged: dict[str, str]  # verse -> the text it shares with its neighbours


def read_source(source: Source, on_bad: OnBad) -> Verses:
    """Read all verses of an edition. ``on_bad(file, line, reason)`` is called for each row that is
    not a verse.

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
            names: list[str] = []
            is_part = False
            for verse_names, part in parsed:
                names += verse_names
                is_part |= part
            problem = _add(verses, names, is_part, normalise_spaces(text))
            if problem:
                on_bad(str(file), line, problem)
    # A verse that shares a text has none of its own, wherever else it stands.
    for name in set(verses.merged) & set(verses.texts):
        del verses.texts[name]
    return verses


def _add(verses: Verses, names: list[str], part: bool, text: str) -> str | None:
    """Add the text of verses; what is wrong with it, or None.

    `part`: the reference names a part of a verse (16a), which joins the parts before it.
    """
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
    """Replace each run of white space (including no-break spaces and byte order marks) by one
    space."""
    return _SPACES.sub(" ", text.replace("\ufeff", "")).strip()


def _rows(source: Source, file: Path) -> Iterable[Row]:
    """The rows of a file, by its kind."""
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
    reason = why_not_text(data)
    if reason:
        raise ValueError(f"{path}: {reason}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}:{line}: not UTF-8 ({error.reason}); convert the file to UTF-8"
        ) from None


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
    """Read one verse per line, parallel to the list of verses; ``<range>``:
    the text above also covers this verse."""
    names = _lines(vref)
    texts = _lines(path)
    if len(names) != len(texts):
        line = min(len(names), len(texts)) + 1
        raise ValueError(
            f"{path}:{line}: {len(texts)} lines, but {vref} has {len(names)}; they must correspond line by line"
        )
    # A text belongs to its line and to the lines marked as its range.
    start = 0
    for end in range(1, len(texts) + 1):
        if end == len(texts) or texts[end].strip() != RANGE:
            yield start + 1, tuple(names[start:end]), texts[start]
            start = end


def _lines(path: Path) -> list[str]:
    return read_text(path).replace("\r", "").removesuffix("\n").split("\n")


def read_ces(path: Path) -> Iterator[Row]:
    """Read ``<seg id="b.GEN.1.1" type="verse">`` of the Corpus Encoding Standard,
    as in christos-c/bible-corpus."""
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

    def characters(data: str) -> None:
        if open_seg:
            open_seg[2].append(data)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
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


SILENT_TAGS = {"note", "figure", "sidebar", "book"}
SILENT_CHARACTERS = {"va", "vp", "ca", "cp", "rq", "pro", "fig"}
SILENT_PARAGRAPHS = {"header", "introduction", "otherpara", "sectionpara", "title"}


def read_usfm(path: Path, text: str) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """Yield (line, references, text) of each verse of a book.

    Raises:
        ValueError: no ``\\id`` line with a book, usfmtc cannot parse the file, or usfmtc is not
            installed.
    """
    try:
        from usfmtc import USX
    except ImportError:
        raise ValueError(
            f"{path}: reading USFM needs usfmtc (pip install -e '.[corpora]')"
        ) from None
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
    """Walks through a book. A verse number starts text again,
    also inside a note that was not closed."""

    def __init__(self, book: str) -> None:
        from usfmtc.usfmparser import Grammar

        self.categories = Grammar().marker_categories
        self.book = book
        self.chapter = ""
        self.rows: list[tuple[int, tuple[str, ...], str]] = []
        self.verse: tuple[int, str] | None = None
        self.parts: list[str] = []
        self.silent = False

    def close(self) -> None:
        """End the verse that is being read."""
        if self.verse is not None:
            line, number = self.verse
            reference = f"{self.book} {self.chapter}:{number}"
            self.rows.append((line, (reference,), "".join(self.parts).replace("~", " ")))
        self.verse = None
        self.parts = []

    def say(self, text: str | None) -> None:
        if text and not self.silent and self.verse is not None:
            self.parts.append(text)

    def element(self, node: Any) -> None:
        """Read an element of USX and what is inside it."""
        style = node.get("style", "")
        if node.tag == "chapter":
            self.close()
            self.chapter = node.get("number", "")
        elif node.tag == "verse":
            self.close()
            self.verse = (_line(node), node.get("number", ""))
            self.silent = False
        elif node.tag in ("para", "row", "cell", "table"):
            self.say(" ")
        # What is silent hides its children, too.
        before = self.silent
        after = self.verse
        self.silent = before or self.is_silent(node.tag, style)
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
