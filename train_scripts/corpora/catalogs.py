"""Collect translations from gettext catalogs (.po, .mo) in folders, wheels and zip files (OS A.2: Weblate, Pontoon).

    python train_scripts/corpora/catalogs.py /usr/share/locale django.whl --out interface.parquet

Every machine has thousands of such files. A row is a message of a catalog; the source language is English unless the
header names another (``X-Source-Language``). Fuzzy, obsolete and untranslated entries are skipped; a plural entry gives
several rows (`plural_pairs`). Equal rows are kept once. Placeholders stay, accelerator marks are removed: a ``_`` (GTK)
or ``&`` (Qt, Windows) before the letter that is pressed with Alt: ``_File``, ``E&xit``, ``文件(_F)``. The same
characters occur in identifiers (``LC_ALL``), placeholders (``%(file_name)s``), entities (``&amp;``) and names
(``R&D``), so a mark is removed only if it cannot be one of these.

Rows are written as they are read; only a hash of each is in memory. A JSON file beside the Parquet file has the counts
by package, because the schema has no column for it. Needs polib (pip install 'hf-echo[corpora]').
"""

import html
import re
import struct
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from gettext import c2py
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data.formats import BLOCK
from hf_echo.data.schema import COLUMNS
from hf_echo.data.tables import BadRows
from hf_echo.languages import find_language
from hf_echo.utils.files import files_below, write_json, write_whole
from hf_echo.utils.text import BOM

MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")
OTHER_LINE_ENDS = re.compile("[\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029\\r]")  # polib would split a string at these
_SPACES = re.compile(r"\s+")
# inside these, the characters are not marks
_PROTECTED = re.compile(
    r"%\([^)]*\)|\$?\{[^}]*\}|&#?\w+;|https?://\S+|\S+@\S+|<[^<>]*>|``?[^`]+``?|%[-+ #0]*[\w.]*\w|__+\w*"
)
_AFTER = {"_": re.compile(r"_(?=\w)(?!_)"), "&": re.compile(r"&(?=\w)")}
_IN_BRACKETS = {mark: re.compile(rf"\s*[(（]{mark}\w[)）]") for mark in _AFTER}
_TAGS = """a abbr b big blockquote body br button cite code dd del div dl dt em font form h1 h2 h3 h4 h5 h6 head hr html
    i img input ins kbd label li nobr ol p pre q qt s samp small span strong sub sup table tbody td th thead title tr tt
    u ul var""".split()
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS)})(?:\s[^<>]*)?/?>", re.IGNORECASE)


def clean(source: str, target: str, *, strip_html: bool = False) -> tuple[str, str] | None:
    """Clean both texts, one line each; None if one becomes empty."""
    if strip_html:
        source, target = strip_tags(source), strip_tags(target)
    source, target = (_SPACES.sub(" ", text).strip() for text in (source, target))
    source, target = remove_accelerators(source, target)
    return (source, target) if source and target else None


def strip_tags(text: str) -> str:
    """Remove HTML tags and resolve entities. ``<filename>`` is not HTML and stays; a block tag becomes a space."""
    text = _TAG.sub(lambda m: " " if re.match(r"</?(?:br|p|div|li|td|tr|h\d|hr|ul|ol)\b", m[0], re.I) else "", text)
    return html.unescape(text)


def remove_accelerators(source: str, target: str) -> tuple[str, str]:
    """Remove the accelerator mark from both texts, if the source has exactly one."""
    for mark in _AFTER:
        if mark not in source:
            continue
        here = _marks(source, mark)
        if len(here) != 1:
            continue
        there = _marks(target, mark)
        bracketed = _IN_BRACKETS[mark].search(target)  # only accelerators are written in this form
        if len(there) > 1 or not (bracketed or _is_accelerator(source, here[0], target, bool(there))):
            continue
        source = _without(source, mark, here)
        return source, _without(target, mark, there)
    return source, target


def _marks(text: str, mark: str) -> list[int]:
    spans = [m.span() for m in _PROTECTED.finditer(text)]
    places = (m.start() for m in _AFTER[mark].finditer(text))
    return [i for i in places if not any(start <= i < end for start, end in spans)]


def _is_accelerator(source: str, place: int, target: str, marked: bool) -> bool:
    word = next(m for m in re.finditer(r"\S+", source) if m.start() <= place < m.end())
    at_start = not source[place - 1 : place].isalnum()
    if at_start:
        return True
    # inside a word: "E_xit", not "LC_ALL", "file_name", "R&D"; the translation has a mark at another place
    return marked and word[0] not in target.split() and not source[place + 1].isupper() and not word[0].islower()


def _without(text: str, mark: str, places: list[int]) -> str:
    shorter = _IN_BRACKETS[mark].sub("", text)
    if shorter != text:
        return shorter.strip()
    return text[: places[0]] + text[places[0] + 1 :] if places else text


CATALOGS = (".po", ".mo")
ARCHIVES = (".whl", ".zip", ".egg")
MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "arabic": "Arab", "devanagari": "Deva", "iqtelif": "Latn"}
# folders whose names do not tell which package a catalog belongs to
_FOLDERS = {"locale", "locales", "lc_messages", "translations", "translation", "i18n", "po", "lang", "languages"}
_FOLDERS |= {"share", "usr", "lib", "src", "site-packages", "dist-packages", "conf", "lc_time", "nls"}
_COUNTS = range(201)  # numbers for which plural forms are evaluated


class Catalog(NamedTuple):
    """A catalog file, in a folder or in an archive."""

    label: str  # its name in error messages
    path: PurePosixPath  # relative to the given folder or archive
    package: str
    read: Callable[[], Any]  # -> polib.POFile or MOFile


def harvest(
    paths: Iterable[str | Path],
    out: str | Path,
    *,
    keep_equal: bool = False,
    strip_html: bool = False,
    on_bad: str = "skip",
    progress: bool = True,
) -> dict[str, Any]:
    """Write the rows of all catalogs under ``paths`` to a Parquet file, and its counts to ``OUT.counts.json``.

    Args:
        paths: catalogs, folders (searched recursively), wheels and other zip files.
        keep_equal: keep rows whose two texts are equal (names, file types, untranslated messages).
        strip_html: remove tags and resolve entities.
        on_bad: for catalogs that cannot be read: ``"skip"`` counts them; ``"error"`` raises with a list of them.

    Returns:
        The counts: rows, by language, by package, and skipped entries by reason.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: no catalog, or unreadable ones under "error".
    """
    bad, left_out = BadRows(on_bad), Counter()
    languages, packages, seen = Counter(), Counter(), set()
    catalogs = find_catalogs(paths, bad)
    if not catalogs:
        raise ValueError(f"no {' or '.join(CATALOGS)} file under {', '.join(map(str, paths))}")
    start, out = time.perf_counter(), Path(out)
    schema = pa.schema([(column, pa.string()) for column in COLUMNS])
    try:
        with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, schema) as writer:
            rows: list[tuple[str, ...]] = []
            for catalog in tqdm(catalogs, desc="catalogs", unit="file", disable=not progress):
                for row in catalog_rows(catalog, bad, left_out, strip_html=strip_html):
                    if not keep_equal and row[0] == row[2]:
                        left_out["equal"] += 1
                    elif (key := hash(row)) in seen:
                        left_out["repeated"] += 1
                    else:
                        seen.add(key)
                        rows.append(row)
                        languages[row[3] if row[1] == "eng_Latn" else f"{row[1]}>{row[3]}"] += 1
                        packages[catalog.package] += 1
                if len(rows) >= BLOCK:
                    writer.write_table(pa.table(list(zip(*rows)), names=COLUMNS).cast(schema))
                    rows = []
            if rows:
                writer.write_table(pa.table(list(zip(*rows)), names=COLUMNS).cast(schema))
            warning = bad.report()  # raises under "error", before anything is written
    finally:
        _open_archive.cache_clear()
    counts = {
        "rows": languages.total(),
        "catalogs": len(catalogs),
        "seconds": round(time.perf_counter() - start, 1),
        "left_out": dict(left_out.most_common()),
        "unreadable": warning,
        "languages": dict(sorted(languages.items())),
        "packages": dict(packages.most_common()),
    }
    write_json(out.with_suffix(".counts.json"), counts)
    return counts


def find_catalogs(paths: Iterable[str | Path], bad: BadRows) -> list[Catalog]:
    """Catalogs sorted by path. A .po precedes a .mo of the same name, whose rows are then duplicates."""
    catalogs: list[Catalog] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"no file or folder {path}")
        root = path if path.is_dir() else path.parent
        files = sorted(files_below(path), key=_po_first) if path.is_dir() else [path]
        for file in files:
            suffix = file.suffix.lower()
            if suffix in CATALOGS and file.is_file():
                inside = PurePosixPath(file.relative_to(root).as_posix())
                whole = PurePosixPath(file.resolve().as_posix())
                catalogs.append(_catalog(str(file), inside, package_of(whole), file))
            elif suffix in ARCHIVES and file.is_file():
                catalogs += _in_archive(file, bad)
    return catalogs


def _po_first(path: Path) -> tuple[str, int]:
    return str(path.with_suffix("")), CATALOGS.index(path.suffix) if path.suffix in CATALOGS else 2


def _in_archive(file: Path, bad: BadRows) -> Iterator[Catalog]:
    package = file.name.split("-")[0].removesuffix(file.suffix)
    try:
        names = sorted(_open_archive(file).namelist())
    except (zipfile.BadZipFile, OSError) as error:
        bad.add(str(file), 1, f"not a zip file ({error})")
        return
    for name in names:
        if name.lower().endswith(CATALOGS):
            yield _catalog(f"{file}/{name}", PurePosixPath(name), package, file, name)


@lru_cache(maxsize=1)
def _open_archive(file: Path) -> zipfile.ZipFile:
    """Open an archive and keep it open, because reading its list of contents takes longer than reading a catalog."""
    return zipfile.ZipFile(file)


def _catalog(label: str, path: PurePosixPath, package: str, file: Path, member: str | None = None) -> Catalog:
    def read() -> Any:
        if member is None:
            data = file.read_bytes()
        else:
            data = _open_archive(file).read(member)
        return read_catalog(label, data)

    return Catalog(label, path, package, read)


def read_catalog(label: str, data: bytes) -> Any:
    """Parse the bytes of a .po or .mo file as a `polib` catalog; the magic number tells which, the header the charset.

    Raises:
        ValueError: the bytes are not a catalog (with the line, if polib gives one), or polib is not installed.
    """
    try:
        import polib
    except ImportError:
        raise ValueError(f"{label}: reading gettext catalogs needs polib (pip install 'hf-echo[corpora]')") from None
    try:
        if data[:4] in MO_MAGIC:
            return polib.mofile(data)
        charset = polib.detect_encoding(data, True)
        text = OTHER_LINE_ENDS.sub(" ", data.removeprefix(BOM).decode(charset).replace("\r\n", "\n"))
        return polib.pofile(text + "\n")  # polib takes a string without line end for a path
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{label}:{line}: not a gettext catalog (not {error.encoding})") from None
    except (OSError, LookupError, ValueError, struct.error, IndexError) as error:
        line = re.search(r"\bline (\d+)", str(error))
        reason = re.sub(r"Syntax error in po file |\(line \d+\):? ?", "", str(error)) or "syntax error"
        where = f"{label}:{line[1] if line else 1}"
        raise ValueError(f"{where}: not a gettext catalog ({reason})") from None


def package_of(path: PurePosixPath) -> str:
    """The package of a catalog.

    The domain of a system catalog (``/usr/share/locale/fr/LC_MESSAGES/tar.mo``: tar), otherwise the folder under
    site-packages, otherwise the nearest folder with a specific name.
    """
    parts = path.parts
    for shelf in ("site-packages", "dist-packages"):
        if shelf in parts[:-2]:
            return parts[parts.index(shelf) + 1]
    if "share" in parts and "locale" in parts:
        return path.stem
    folders = [part for part in parts[:-1] if part.lower() not in _FOLDERS and language_of_locale(part) is None]
    return folders[-1].strip("/") if folders and folders[-1] != "/" else path.stem


def catalog_rows(
    catalog: Catalog, bad: BadRows, left_out: Counter[str], *, strip_html: bool = False
) -> Iterator[tuple[str, str, str, str, str]]:
    """The cleaned rows of one catalog; skipped entries are counted by reason."""
    try:
        messages = catalog.read()
    except ValueError as error:
        label, line, reason = _where(str(error), catalog.label)
        bad.add(label, line, reason)
        left_out["catalogs that cannot be read"] += 1
        return
    target = language_of(catalog.path, messages.metadata)
    declared = messages.metadata.get("X-Source-Language", "")
    source = "eng_Latn" if declared in ("", "C", "POSIX") else language_of_locale(declared)
    if target is None or source is None:
        left_out["catalogs of an unknown language"] += 1
        return
    if target[:3] == source[:3]:
        left_out["catalogs of the source language"] += 1
        return
    forms = plural_forms(messages.metadata.get("Plural-Forms", ""))
    for entry in messages:
        if entry.obsolete or "fuzzy" in getattr(entry, "flags", ()):
            left_out["fuzzy or obsolete"] += 1
            continue
        pairs = [(entry.msgid, entry.msgstr)]
        if entry.msgid_plural:
            pairs = plural_pairs(entry.msgid, entry.msgid_plural, entry.msgstr_plural, forms)
        for first, second in pairs:
            row = clean(first, second, strip_html=strip_html) if second else None
            if row is None:
                left_out["untranslated"] += 1
            else:
                yield row[0], source, row[1], target, "primary"


def _where(message: str, label: str) -> tuple[str, int, str]:
    """Split an error of `read_catalog` ("FILE:LINE: reason") into its parts."""
    match = re.match(re.escape(label) + r"(?::(\d+))?: ", message)
    return (label, int(match[1] or 1), message[match.end() :]) if match else (label, 1, message)


def language_of(path: PurePosixPath, metadata: dict[str, str]) -> str | None:
    """The NLLB code of a catalog: from the folder above LC_MESSAGES, its header, its name, then its folders."""
    parts = path.parts
    if len(parts) > 2 and parts[-2].upper().startswith("LC_"):
        return language_of_locale(parts[-3])  # the standard place decides, even for an unknown language
    stem = path.stem
    names = [metadata.get("Language", ""), stem, stem.rpartition(".")[2], stem.rpartition("-")[2]]
    codes = map(language_of_locale, [*names, *reversed(parts[:-1])])
    return next(filter(None, codes), None)


def language_of_locale(name: str) -> str | None:
    """``pt_BR``, ``sr@latin``, ``zh-Hant``, ``de_DE.UTF-8`` to an NLLB code; None if unknown.

    Regions are dropped, except those that change the script.
    """
    base, _, modifier = name.strip().split(".")[0].partition("@")
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w{2,8})*", base):
        return None
    script = MODIFIERS.get(modifier.lower())
    try:
        code = find_language(f"{base}-{script}" if script else base)
    except ValueError:
        return None
    return "_".join(code.split("_")[:2]) if "_" in code else None


def plural_forms(header: str) -> tuple[int, Callable[[int], int]] | None:
    """(number of forms, function from a number to its form) of a ``Plural-Forms`` header; None if invalid."""
    match = re.fullmatch(r"\s*nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;]+);?.*", header, re.DOTALL)
    if not match:
        return None
    try:
        plural = c2py(" ".join(match[2].split()))
        return (int(match[1]), plural) if all(0 <= plural(n) < int(match[1]) for n in _COUNTS) else None
    except (ValueError, ZeroDivisionError, RecursionError):
        return None


def plural_pairs(
    singular: str, plural: str, translated: dict[int, str], forms: tuple[int, Callable[[int], int]] | None
) -> list[tuple[str, str]]:
    """Pair the English singular and plural with plural forms.

    The singular is paired with the form of 1; the plural with every form of other numbers except that of 1 (Russian:
    the forms of 2 and of 5), or with the only form (Japanese).
    """
    if forms is None:
        if set(translated) == {0}:
            forms = (1, lambda n: 0)
        elif set(translated) == {0, 1}:
            forms = (2, lambda n: int(n != 1))
        else:
            return []
    one = forms[1](1)
    many = sorted({forms[1](n) for n in _COUNTS if n != 1} - {one}) or [one]
    pairs = [(singular, translated.get(one, ""))]
    return pairs + [(plural, translated.get(form, "")) for form in many]


def main(
    paths: Annotated[list[Path], typer.Argument(help="Catalogs (.po, .mo), folders, wheels or other zip files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file of parallel rows (Parquet).")],
    keep_equal: Annotated[bool, typer.Option(help="Keep rows with equal source and target.")] = False,
    strip_html: Annotated[bool, typer.Option(help="Remove HTML tags and decode entities.")] = False,
    on_bad: Annotated[str, typer.Option(help="For catalogs that cannot be read: skip or error.")] = "skip",
) -> None:
    """Extract translated messages from .po and .mo catalogs; counts go to OUT.counts.json."""
    show(harvest(paths, out, keep_equal=keep_equal, strip_html=strip_html, on_bad=on_bad))


if __name__ == "__main__":
    run(main)
