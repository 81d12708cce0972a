"""Collect translations from gettext catalogs (.po, .mo) in folders, wheels and zip files (OS A.2:
Weblate, Pontoon).

    python train_scripts/corpora/catalogs.py /usr/share/locale django.whl --out interface.parquet

Every machine has thousands of such files. A row is a message of a catalog; the source language is
English unless the header names another (``X-Source-Language``). Fuzzy, obsolete and untranslated
entries are skipped; a plural entry gives several rows (`plural_pairs`). Equal rows are kept once.
Placeholders stay, accelerator marks are removed: a ``_`` (GTK) or ``&`` (Qt, Windows) before the
letter that is pressed with Alt: ``_File``, ``E&xit``, ``文件(_F)``. The same characters occur in
identifiers (``LC_ALL``), placeholders (``%(file_name)s``), entities (``&amp;``) and names
(``R&D``), so a mark is removed only if it cannot be one of these.

Rows are written as they are read; only a hash of each is in memory. A JSON file beside the Parquet
file has the counts by package, because the schema has no column for it.
"""

import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data.gettext_catalogs import Catalog, catalog_rows, language_of_locale, read_catalog
from hf_echo.data.schema import COLUMNS
from hf_echo.data.tables import BadRows
from hf_echo.languages import ENGLISH
from hf_echo.utils.files import files_below, write_json, write_whole
from hf_echo.utils.text import BLOCK

SCHEMA = pa.schema([(column, pa.string()) for column in COLUMNS])
CATALOGS = (".po", ".mo")
ARCHIVES = (".whl", ".zip", ".egg")
# folders whose names do not tell which package a catalog belongs to
_FOLDERS = {
    "locale",
    "locales",
    "lc_messages",
    "translations",
    "translation",
    "i18n",
    "po",
    "lang",
    "languages",
    "share",
    "usr",
    "lib",
    "src",
    "site-packages",
    "dist-packages",
    "conf",
    "lc_time",
    "nls",
}


def table_of(rows: Sequence[tuple[str, ...]]) -> pa.Table:
    return pa.table(list(zip(*rows)), schema=SCHEMA)


def harvest(
    paths: Iterable[str | Path],
    out: str | Path,
    *,
    keep_equal: bool = False,
    strip_html: bool = False,
    on_bad: str = "skip",
    progress: bool = True,
) -> dict[str, Any]:
    """Write the rows of all catalogs under ``paths`` to a Parquet file, and its counts to
    ``OUT.counts.json``.

    Args:
        paths: catalogs, folders (searched recursively), wheels and other zip files.
        keep_equal: keep rows whose two texts are equal (names, file types, untranslated messages).
        strip_html: remove tags and resolve entities.
        on_bad: for catalogs that cannot be read: ``"skip"`` counts them; ``"error"`` raises with a
            list of them.

    Returns:
        The counts: rows, by language, by package, and skipped entries by reason.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: no catalog, or unreadable ones under "error".
    """
    bad = BadRows(on_bad)
    left_out = Counter()
    languages = Counter()
    packages = Counter()
    seen = set()
    catalogs = find_catalogs(paths, bad)
    if not catalogs:
        raise ValueError(f"no {' or '.join(CATALOGS)} file under {', '.join(map(str, paths))}")
    start = time.perf_counter()
    out = Path(out)
    try:
        with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, SCHEMA) as writer:
            rows: list[tuple[str, ...]] = []
            for catalog in tqdm(catalogs, desc="catalogs", unit="file", disable=not progress):
                for row in catalog_rows(catalog, bad, left_out, strip_html=strip_html):
                    text, lang, translation, other_lang, _ = row
                    key = hash(row)
                    if text == translation and not keep_equal:
                        left_out["equal"] += 1
                    elif key in seen:
                        left_out["repeated"] += 1
                    else:
                        seen.add(key)
                        rows.append(row)
                        languages[other_lang if lang == ENGLISH else f"{lang}>{other_lang}"] += 1
                        packages[catalog.package] += 1
                if len(rows) >= BLOCK:
                    writer.write_table(table_of(rows))
                    rows = []
            if rows:
                writer.write_table(table_of(rows))
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
    """Catalogs sorted by path. A .po precedes a .mo of the same name,
    whose rows are then duplicates."""
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
    """The catalogs in a wheel or zip file."""
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
    """Open an archive and keep it open, because reading its list of contents takes longer than
    reading a catalog."""
    return zipfile.ZipFile(file)


def _catalog(
    label: str, path: PurePosixPath, package: str, file: Path, member: str | None = None
) -> Catalog:
    """A catalog that is read when it is needed: a file, or a member of an archive."""

    def read() -> Any:
        if member is None:
            data = file.read_bytes()
        else:
            data = _open_archive(file).read(member)
        return read_catalog(label, data)

    return Catalog(label, path, package, read)


def package_of(path: PurePosixPath) -> str:
    """The package of a catalog.

    The domain of a system catalog (``/usr/share/locale/fr/LC_MESSAGES/tar.mo``: tar), otherwise the
    folder under site-packages, otherwise the nearest folder with a specific name.
    """
    parts = path.parts
    for shelf in ("site-packages", "dist-packages"):
        if shelf in parts[:-2]:
            return parts[parts.index(shelf) + 1]
    if "share" in parts and "locale" in parts:
        return path.stem
    # The last folder that is neither a usual one nor a language.
    for folder in reversed(parts[:-1]):
        if folder.lower() not in _FOLDERS and language_of_locale(folder) is None:
            return path.stem if folder == "/" else folder.strip("/")
    return path.stem


def main(
    paths: Annotated[
        list[Path], typer.Argument(help="Catalogs (.po, .mo), folders, wheels or other zip files.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output file of parallel rows (Parquet).")
    ],
    keep_equal: Annotated[
        bool, typer.Option(help="Keep rows with equal source and target.")
    ] = False,
    strip_html: Annotated[bool, typer.Option(help="Remove HTML tags and decode entities.")] = False,
    on_bad: Annotated[
        str, typer.Option(help="For catalogs that cannot be read: skip or error.")
    ] = "skip",
) -> None:
    """Extract translated messages from .po and .mo catalogs; counts go to OUT.counts.json."""
    show(harvest(paths, out, keep_equal=keep_equal, strip_html=strip_html, on_bad=on_bad))


if __name__ == "__main__":
    run(main)
