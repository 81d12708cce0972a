"""Read files as blocks of raw columns with line numbers: TSV, JSONL, Parquet, gettext catalogs, Hub datasets.

A `Part` is one file (or one split of a Hub dataset). It can be read repeatedly, in blocks of `BLOCK` rows, so a corpus
need not fit into memory. A line that is not a row (wrong number of fields, invalid JSON, not UTF-8) is reported as bad
with its line number. `schema` interprets the columns.

TSV follows the convention of corpora, not CSV: a tab always separates fields, quotes are plain characters, nothing is
escaped.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..utils.text import BOM, why_not_text

BLOCK = 10_000
SUFFIXES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".json", ".parquet", ".po")
NO_OBJECT = "not a JSON object"
OTHER_LINE_ENDS = re.compile("[\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029\\r]")  # polib would split a string at these
MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")


class Block(NamedTuple):
    columns: Mapping[str, Sequence | pa.Array | pa.ChunkedArray]
    lines: Sequence[int]  # line of each row, from 1; its number in Parquet, in a JSON array and on the Hub
    bad: list[tuple[int, str]]  # (line, reason) of lines that are not rows


class BrokenFile(ValueError):
    """A file that is damaged or ends too early. `reason` is the message without the file's name."""

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


class Part(NamedTuple):
    label: str  # its name in error messages
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Block]]  # names of the wanted columns -> blocks
    identity: tuple  # changes with the content
    open_ended: bool = False  # later rows may have columns that the first block lacks; `read` takes any name


def suffix_of(path: Path) -> str | None:
    """The known suffix of a file name (``.tsv.gz`` is one suffix), or None."""
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def open_file(
    path: Path,
    *,
    is_header: Callable[[list[str]], bool] = lambda fields: True,
    without_header: Sequence[str] = ("source", "target"),
) -> Part:
    """Open a file as a `Part`: detect its kind and its columns from the beginning.

    ``is_header`` decides whether the first line of a TSV file names its columns. If not, the columns are called
    ``without_header``, and the first line is a row.

    Raises:
        ValueError: an unknown suffix, an empty first line, column names that are quoted or appear twice, or JSON
            without a single object.
    """
    suffix = suffix_of(path)
    stat = path.stat()
    identity = (str(path.resolve()), stat.st_mtime_ns, stat.st_size)
    if suffix is None:
        raise ValueError(f"{path}: unknown file type; use one of {', '.join(SUFFIXES)}")
    if suffix.startswith(".tsv"):
        with open_lines(path) as file:
            first = file.readline().rstrip(b"\r\n")
        if not first:
            raise ValueError(f"{path}: the first line is empty; it should name the columns or hold the first row")
        columns = first.decode(errors="replace").split("\t")
        header = is_header(columns)
        if header:
            _check_header(path, columns)
        columns = columns if header else list(without_header)
        return Part(str(path), columns, partial(_read_tsv, path, columns, header), identity)
    if suffix == ".parquet":
        with _parquet_errors(path):
            names = flat_names(pq.read_schema(path))
        _check_header(path, names)
        return Part(str(path), names, partial(_read_parquet, path), identity)
    if suffix == ".po":
        return Part(str(path), ["msgid", "msgstr"], partial(_read_po, path), identity)
    if suffix == ".json" and _holds_array(path):
        rows, _, bad = _objects(list(enumerate(_read_array(path), 1)))
        return Part(str(path), _columns_of(path, rows, bad), partial(_read_json_array, path), identity)
    with open_lines(path) as file:  # JSON lines have the columns that the first block uses
        head = list(islice(enumerate(file, 1), BLOCK))
    rows, _, bad = _parse_json(head)
    columns = _columns_of(path, rows, bad)
    return Part(str(path), columns, partial(_read_jsonl, path), identity, open_ended=len(head) == BLOCK)


def _columns_of(path: Path, rows: list[dict], bad: list[tuple[int, str]]) -> list[str]:
    if not rows:
        where = f"{path}:{bad[0][0]}: {bad[0][1]}" if bad else f"{path}: no row"
        raise ValueError(f"{where}; write one JSON object per line, or in a .json file one array of objects")
    return list(dict.fromkeys(chain.from_iterable(map(_flat_keys, rows))))


def _check_header(path: Path, names: list[str]) -> None:
    for name in names:
        if len(name) > 1 and name[0] == name[-1] == '"':
            raise ValueError(f"{path}: the column name {name} has quotes; write the file without quotes")
        if name and names.count(name) > 1:
            raise ValueError(f"{path}: the column name {name!r} appears twice; rename one")


def open_hub(label: str, dataset: Any) -> Part:
    """A Dataset or IterableDataset of `load_dataset`; nested columns are called ``translation.fr``."""
    features = dataset.features
    if features is None:  # a streaming dataset without declared features
        head = next(iter(dataset.take(1)), None)
        columns = _flat_keys(head or {})
    else:
        columns = flat_names(features.arrow_schema)
    fingerprint = getattr(dataset, "_fingerprint", None)  # a streaming dataset has none and is never cached
    return Part(label, columns, partial(_read_hub, dataset), (label, fingerprint))


def flat_names(schema: pa.Schema) -> list[str]:
    """Column names; a field inside a struct is written with a dot."""
    names: list[str] = []
    for field in schema:
        inner = [f"{field.name}.{f.name}" for f in field.type] if pa.types.is_struct(field.type) else [field.name]
        names += inner
    return names


def _flat_keys(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{k}.{inner}" if inner else k for k, v in row.items() for inner in (v if isinstance(v, dict) and v else [""])
    ]


@contextmanager
def open_lines(path: Path) -> Iterator[BinaryIO]:
    """Open a text file, or a .gz of one, for reading lines; a byte order mark is skipped.

    Raises:
        ValueError: UTF-16 or other bytes that are not text, lines that end in CR alone, a damaged .gz file.
    """
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            head = file.peek(1 << 16)
            if reason := why_not_text(head):
                raise ValueError(f"{path}: {reason}")
            if b"\r" in head.rstrip(b"\r\n") and b"\n" not in head:
                raise ValueError(f"{path}: its lines end in CR alone; convert the line ends to LF")
            if head[:3] == BOM:  # some spreadsheets write one
                file.read(3)
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BrokenFile(f"{path} is an incomplete or damaged gzip file: {error}", str(error)) from None


def _read_tsv(path: Path, columns: list[str], header: bool, wanted: Sequence[str]) -> Iterator[Block]:
    pick = {name: columns.index(name) for name in wanted}
    with open_lines(path) as file:
        if header:
            file.readline()
        start = 2 if header else 1
        while lines := list(islice(file, BLOCK)):
            texts, numbers, bad = _lines_of_width(lines, start, len(columns))
            fields = "\t".join(texts).split("\t") if texts else []
            yield Block({name: fields[i :: len(columns)] for name, i in pick.items()}, numbers, bad)
            start += len(lines)


def _lines_of_width(
    lines: list[bytes], start: int, width: int
) -> tuple[list[str], Sequence[int], list[tuple[int, str]]]:
    """Decode lines of ``width`` fields: (lines, their numbers, errors of the other lines)."""
    numbers = range(start, start + len(lines))
    try:  # decoding all lines at once is several times faster
        joined = b"".join(lines).decode().replace("\r\n", "\n")
        texts = joined.removesuffix("\n").removesuffix("\r").split("\n")
        if "\0" not in joined and all(text.count("\t") == width - 1 for text in texts):
            return texts, numbers, []
    except UnicodeDecodeError:
        pass
    texts, kept, bad = [], [], []
    for number, line in zip(numbers, lines, strict=True):
        try:
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            bad.append((number, _not_utf8(error)))
            continue
        fields = text.count("\t") + 1
        if "\0" in text:
            bad.append((number, "a NUL byte"))
        elif fields == width:
            texts.append(text)
            kept.append(number)
        else:
            bad.append((number, f"{fields} fields instead of {width}" if text else "the line is empty"))
    return texts, kept, bad


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x} at position {error.start + 1})"


def _read_jsonl(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    with open_lines(path) as file:
        numbered = enumerate(file, 1)
        while lines := list(islice(numbered, BLOCK)):
            rows, numbers, bad = _parse_json(lines)
            yield Block({name: [_dig(row, name) for row in rows] for name in wanted}, numbers, bad)


def _parse_json(lines: list[tuple[int, bytes]]) -> tuple[list[dict], list[int], list[tuple[int, str]]]:
    rows, numbers, bad = [], [], []
    for number, line in lines:
        try:
            if not line.strip():
                continue
            if b"\0" in line:
                raise ValueError("a NUL byte")
            row = json.loads(line.decode())
        except UnicodeDecodeError as error:
            bad.append((number, _not_utf8(error)))
        except json.JSONDecodeError as error:
            bad.append((number, f"not valid JSON ({error.msg} at column {error.colno})"))
        except (ValueError, RecursionError) as error:  # a NUL, a number of thousands of digits, deep nesting
            bad.append((number, f"not valid JSON ({next(iter(str(error).splitlines()), 'too deep')})"))
        else:
            if isinstance(row, dict):
                rows.append(row)
                numbers.append(number)
            else:
                bad.append((number, NO_OBJECT))
    return rows, numbers, bad


def _holds_array(path: Path) -> bool:
    with open_lines(path) as file:
        return next((line.lstrip() for line in file if line.strip()), b"").startswith(b"[")


def _read_array(path: Path) -> list:
    """The entries of a file with one JSON array, all in memory."""
    with open_lines(path) as file:
        data = file.read()
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {_not_utf8(error)}") from None
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise ValueError(f"{where}: not a valid JSON array ({error.msg} at column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        reason = next(iter(str(error).splitlines()), "too deep")
        raise ValueError(f"{path}: not a valid JSON array ({reason})") from None


def _objects(entries: Sequence[tuple[int, Any]]) -> tuple[list[dict], list[int], list[tuple[int, str]]]:
    good = [(number, entry) for number, entry in entries if isinstance(entry, dict)]
    bad = [(number, NO_OBJECT) for number, entry in entries if not isinstance(entry, dict)]
    return [row for _, row in good], [number for number, _ in good], bad


def _read_json_array(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    entries = enumerate(_read_array(path), 1)
    while block := list(islice(entries, BLOCK)):
        rows, numbers, bad = _objects(block)
        yield Block({name: [_dig(row, name) for row in rows] for name in wanted}, numbers, bad)


def _dig(row: Mapping[str, Any], name: str) -> Any:
    if name in row or "." not in name:
        return row.get(name)
    outer, inner = name.split(".", 1)
    return row[outer].get(inner) if isinstance(row.get(outer), dict) else None


def _read_parquet(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    start = 1
    with _parquet_errors(path):
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        top = [name for name in names if any(w == name or w.startswith(f"{name}.") for w in wanted)]
        batches = file.iter_batches(BLOCK, columns=top)
    while True:
        with _parquet_errors(path):
            batch = next(batches, None)
            if batch is None:
                return
            table = pa.Table.from_batches([batch])
            _validate(table)
        yield _arrow_block(table, wanted, start)
        start += batch.num_rows


def _validate(table: pa.Table) -> None:
    """Raise pa.ArrowInvalid if columns are damaged. Text that is not UTF-8 is a bad row, reported later."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors for a broken file into a ValueError that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        message = f"{path}: not a Parquet file, or an incomplete one ({reason})"
        raise BrokenFile(message, message.removeprefix(f"{path}: ")) from None


def _read_hub(dataset: Any, wanted: Sequence[str]) -> Iterator[Block]:
    start = 1
    for table in dataset.with_format("arrow").iter(BLOCK):
        yield _arrow_block(table, wanted, start)
        start += len(table)


def _arrow_block(table: pa.Table, wanted: Sequence[str], start: int) -> Block:
    flat = table.flatten()
    return Block({name: flat[name] for name in wanted}, range(start, start + len(table)), [])


def _read_po(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    """Translated entries without plurals; untranslated, fuzzy and obsolete entries are skipped silently."""
    catalog = read_catalog(str(path), path.read_bytes())
    entries = [e for e in catalog.translated_entries() if not e.msgid_plural]
    for i in range(0, len(entries), BLOCK):
        block = entries[i : i + BLOCK]
        yield Block({name: [getattr(e, name) for e in block] for name in wanted}, [e.linenum for e in block], [])


def read_catalog(label: str, data: bytes) -> Any:
    """Parse the bytes of a .po or .mo file as a `polib` catalog; the magic number tells which, the header the charset.

    Raises:
        ValueError: the bytes are not a catalog (with the line, if polib gives one), or polib is not installed.
    """
    try:
        import polib
    except ImportError:
        raise ValueError(f"{label}: reading gettext catalogs needs polib (pip install 'hf-echo[po]')") from None
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
