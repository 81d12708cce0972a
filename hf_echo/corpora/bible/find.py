"""Find the files that are editions of the Bible, with their languages and formats, without reading verses.

An edition (the paper's SOURCE) is one file, or a folder of USFM files, one per book. Its language is written before the
path (``fra_Latn=some/folder``), in the file name (``fra-LSG.txt``, as in eBible; ``fra_Latn.tsv``) or is the name of
its folder (``fra_Latn/LSG.tsv``). A CES file may also declare it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hf_echo.languages import LANGUAGES, find_language

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
    """The editions under ``paths`` (files or folders, optionally with ``LANG=`` in front), sorted by name.

    Args:
        vref: the list of verses for .txt files, line by line; by default the ``vref.txt`` beside them, in a parent
            folder or in its ``metadata``.

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
        editions = [_source(files, lang, vref) for files in _editions(path)]
        if not editions:
            raise FileNotFoundError(f"{path} holds no edition of the Bible ({', '.join(KINDS)})")
        sources += editions
    seen: dict[tuple[str | None, str], Source] = {}
    for source in sources:
        other = seen.setdefault((source.lang, source.name), source)
        if other is not source:
            raise ValueError(
                f"{source.label} and {other.label} are both called {source.name!r} ({source.lang}): rename one"
            )
    return sorted(sources, key=lambda s: (s.lang or "", s.name))


def _editions(path: Path) -> Iterator[tuple[Path, ...]]:
    if path.is_file():
        if path.suffix.lower() not in KINDS:
            raise ValueError(f"{path}: unknown file type; use one of {', '.join(KINDS)}")
        yield (path,)
        return
    books: dict[Path, list[Path]] = {}
    for file in sorted(path.rglob("*")):
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
    kind = KINDS[files[0].suffix.lower()]
    path = files[0].parent if len(files) > 1 else files[0]
    path = path.resolve() if not path.name else path
    stem = path.name if len(files) > 1 else path.stem
    name = stem
    front, _, rest = stem.partition("-")
    if rest and _CODE.fullmatch(front):
        lang, name = lang or front, rest
    elif _CODE.fullmatch(stem) and ("_" in stem or is_code(stem)):
        lang = lang or stem
    elif _CODE.fullmatch(path.parent.name) and is_code(path.parent.name):
        lang = lang or path.parent.name
    return Source(lang, name, kind, files, _vref(files[0], vref) if kind == "vref" else None)


def _vref(file: Path, given: Path | None) -> Path:
    places = [given] if given else [file.parent]
    if not given:
        for folder in list(file.resolve().parents)[:3]:
            places += [folder / "vref.txt", folder / "metadata" / "vref.txt"]
        places = places[1:]
    vref = next((place for place in places if place.is_file()), None)
    if vref is None:
        raise FileNotFoundError(
            f"{file}: a .txt file has one verse per line in the order of a vref.txt; none was found, give it (--vref)"
        )
    return vref


def is_code(text: str) -> bool:
    """Whether `hf_echo.languages` knows this code (``fr``, ``fra``, ``fra_Latn``)."""
    if text in LANGUAGES:
        return True
    try:
        find_language(text)
    except ValueError:
        return False
    return True
