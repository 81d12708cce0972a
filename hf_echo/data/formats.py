"""Open tables of text as blocks of raw columns with row numbers: TSV, JSON, Parquet, Arrow, the Hub.

A `Part` is one file (or one split of a Hub dataset). It can be read repeatedly, in blocks of `BLOCK` rows, so a corpus
need not fit into memory. pyarrow decompresses lines and reads columns; `datasets` reads the Hub. Lines are parsed here,
because the CSV and JSON builders of `datasets` stop at the first bad line (and lock the cache for each file): a line
that is not a row is reported with its number. `schema` interprets the columns.

TSV follows the convention of corpora, not CSV: a tab always separates fields, quotes are plain characters, nothing is
escaped.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from ..utils.text import BOM, why_not_text

BLOCK = 10_000
SUFFIXES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".json", ".parquet", ".arrow")
NO_OBJECT = "not a JSON object"


class Block(NamedTuple):
    columns: Mapping[str, Sequence | pa.Array | pa.ChunkedArray]
    lines: Sequence[int]  # number of each row: its line in a file of lines, else its place, from 1
    bad: list[tuple[int, str]]  # (line, reason) of lines that are not rows


class BrokenFile(ValueError):
    """A file that is damaged or no text. `reason` is the message without the file's name."""

    def __init__(self, path: Path, reason: str):
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class Part(NamedTuple):
    label: str  # its name in error messages
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Block]]  # names of the wanted columns -> blocks
    source: Any = None  # a path, or the fingerprint of a Hub dataset; None: unknown
    open_ended: bool = False  # later rows may have columns that the first block lacks; `read` takes any name

    @property
    def identity(self) -> Any:
        """Changes with the content, whatever the size and time of a file. None: unknown."""
        return (str(self.source.resolve()), content_hash(self.source)) if isinstance(self.source, Path) else self.source


def content_hash(path: Path) -> str:
    from xxhash import xxh3_128

    digest = xxh3_128()
    with path.open("rb") as file:
        while data := file.read(1 << 22):
            digest.update(data)
    return digest.hexdigest()


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
    if suffix is None:
        raise ValueError(f"{path}: unknown file type; use one of {', '.join(SUFFIXES)}")
    if suffix in (".parquet", ".arrow"):
        with _named(path):
            names = flat_names(_schema(path))
        _check_header(path, names)
        return Part(str(path), names, partial(_read_columnar, path), path)
    if suffix.startswith(".json"):
        rows, numbers, bad = next(_json_blocks(path), ([], [], []))
        if not rows:
            where = f"{path}:{bad[0][0]}: {bad[0][1]}" if bad else f"{path}: no row"
            raise ValueError(f"{where}; write one JSON object per line, or in a .json file one array of objects")
        columns = list(dict.fromkeys(chain.from_iterable(map(_flat_keys, rows))))  # those of the first block
        return Part(str(path), columns, partial(_read_json, path), path, len(rows) + len(bad) >= BLOCK)
    head = next(text_blocks(path), Lines([], [], []))
    if not head.texts or not head.texts[0] or head.numbers[0] != 1:
        raise ValueError(f"{path}: the first line is empty or not UTF-8; it should name the columns")
    columns = head.texts[0].split("\t")
    header = is_header(columns)
    if header:
        _check_header(path, columns)
    columns = columns if header else list(without_header)
    return Part(str(path), columns, partial(_read_tsv, path, columns, header), path)


def open_text(path: Path) -> Part:
    """A plain text file as a table with the column text; empty lines are no rows."""
    return Part(str(path), ["text"], partial(_read_text, path), path)


def open_hub(label: str, dataset: Any) -> Part:
    """A Dataset or IterableDataset of `load_dataset`; nested columns are called ``translation.fr``."""
    features = dataset.features
    if features is None:  # a streaming dataset without declared features
        columns = _flat_keys(next(iter(dataset.take(1)), None) or {})
    else:
        columns = flat_names(features.arrow_schema)
    fingerprint = getattr(dataset, "_fingerprint", None)  # a streaming dataset has none and is never cached
    return Part(label, columns, partial(_read_hub, dataset), (label, fingerprint) if fingerprint else None)


def flat_names(schema: pa.Schema) -> list[str]:
    """Column names; a field inside a struct is written with a dot."""
    return [
        name
        for field in schema
        for name in ([f"{field.name}.{f.name}" for f in field.type] if pa.types.is_struct(field.type) else [field.name])
    ]


def _flat_keys(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{k}.{inner}" if inner else k for k, v in row.items() for inner in (v if isinstance(v, dict) and v else [""])
    ]


def _check_header(path: Path, names: list[str]) -> None:
    for name in names:
        if len(name) > 1 and name[0] == name[-1] == '"':
            raise ValueError(f"{path}: the column name {name} has quotes; write the file without quotes")
        if name and names.count(name) > 1:
            raise ValueError(f"{path}: the column name {name!r} appears twice; rename one")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn the errors of libraries for a damaged file into one line that names it."""
    try:
        yield
    except (FileNotFoundError, BrokenFile):
        raise
    except Exception as error:  # of pyarrow: many classes
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise BrokenFile(path, f"damaged, incomplete, or not what its name says ({reason})") from None


class Lines(NamedTuple):
    texts: list[str]
    numbers: Sequence[int]
    bad: list[tuple[int, str]]  # (number, reason) of lines that are not UTF-8


def text_blocks(path: Path) -> Iterator[Lines]:
    """Blocks of lines of a text file, compressed (.gz, .zst ...) or not, without line ends and byte order mark.

    Raises:
        ValueError: UTF-16 or other bytes that are not text, lines that end in CR alone, a damaged compressed file.
    """
    compression = "gzip" if path.suffix.lower() == ".gz" else "detect"
    with _named(path), io.BufferedReader(pa.input_stream(str(path), compression=compression)) as file:
        head = file.peek(1 << 16)
        if reason := why_not_text(head):
            raise BrokenFile(path, reason)
        if b"\r" in head.rstrip(b"\r\n") and b"\n" not in head:
            raise BrokenFile(path, "its lines end in CR alone; convert the line ends to LF")
        if head[:3] == BOM:  # some spreadsheets write one
            file.read(3)
        start = 1
        while lines := list(islice(file, BLOCK)):
            yield _decoded(lines, start)
            start += len(lines)


def _decoded(lines: list[bytes], start: int) -> Lines:
    numbers = range(start, start + len(lines))
    try:  # all at once is several times faster
        texts = b"".join(lines).decode().replace("\r\n", "\n")
        return Lines(texts.removesuffix("\n").removesuffix("\r").split("\n"), numbers, [])
    except UnicodeDecodeError:
        pass
    texts, kept, bad = [], [], []
    for number, line in zip(numbers, lines, strict=True):
        try:
            texts.append(line.removesuffix(b"\n").removesuffix(b"\r").decode())
            kept.append(number)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            bad.append((number, f"not UTF-8 (byte 0x{byte:02x} at position {error.start + 1})"))
    return Lines(texts, kept, bad)


def _read_text(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    for texts, numbers, bad in text_blocks(path):
        good = [(n, line) for n, line in zip(numbers, texts) if line.strip()]
        yield Block({"text": [line for _, line in good]}, [n for n, _ in good], bad)


def _read_tsv(path: Path, columns: list[str], header: bool, wanted: Sequence[str]) -> Iterator[Block]:
    width, skip = len(columns), int(header)
    for texts, numbers, bad in text_blocks(path):
        texts, numbers, skip = texts[skip:], numbers[skip:], 0
        counts = [text.count("\t") + 1 for text in texts]
        if not all(count == width for count in counts):
            rows = list(zip(texts, numbers, counts))
            reasons = {n: f"{c} fields instead of {width}" if t else "the line is empty" for t, n, c in rows}
            bad = sorted(bad + [(n, reasons[n]) for _, n, c in rows if c != width])
            texts, numbers = [t for t, _, c in rows if c == width], [n for _, n, c in rows if c == width]
        fields = "\t".join(texts).split("\t") if texts else []
        yield Block({name: fields[columns.index(name) :: width] for name in wanted}, numbers, bad)


def _read_json(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    for rows, numbers, bad in _json_blocks(path):
        yield Block({name: [_dig(row, name) for row in rows] for name in wanted}, numbers, bad)


def _json_blocks(path: Path) -> Iterator[tuple[list[dict], list[int], list[tuple[int, str]]]]:
    """(objects, their numbers, bad lines) of JSON lines, or of a .json file with one array, which is held in memory."""
    for lines in text_blocks(path):
        first = next((line.lstrip() for line in lines.texts if line.strip()), "")
        if path.suffix.lower() == ".json" and first.startswith("[") and lines.numbers[0] == 1:
            try:
                entries, bad = list(enumerate(json.loads(path.read_text(encoding="utf-8-sig")), 1)), []
            except (ValueError, RecursionError) as error:
                line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
                raise ValueError(f"{path}{line}: not a valid JSON array ({_why(error)})") from None
            yield _objects(entries, bad)
            return
        entries, bad = [], list(lines.bad)
        for number, line in zip(lines.numbers, lines.texts):
            try:
                entries += [(number, json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError) as error:
                bad.append((number, f"not valid JSON ({_why(error)})"))
        yield _objects(entries, bad)


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return next(iter(str(error).splitlines()), "too deep")  # a number of thousands of digits, deep nesting


def _objects(
    entries: Sequence[tuple[int, Any]], bad: list[tuple[int, str]]
) -> tuple[list[dict], list[int], list[tuple[int, str]]]:
    good = [(number, entry) for number, entry in entries if isinstance(entry, dict)]
    bad = bad + [(number, NO_OBJECT) for number, entry in entries if not isinstance(entry, dict)]
    return [row for _, row in good], [number for number, _ in good], sorted(bad)


def _dig(row: Mapping[str, Any], name: str) -> Any:
    if name in row or "." not in name:
        return row.get(name)
    outer, inner = name.split(".", 1)
    return row[outer].get(inner) if isinstance(row.get(outer), dict) else None


def _schema(path: Path) -> pa.Schema:
    return (
        pq.read_schema(path)
        if path.suffix.lower() == ".parquet"
        else pyarrow.dataset.dataset(path, format="arrow").schema
    )


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() == ".parquet":  # pyarrow.dataset reads ahead: rows before a damage would be lost
        return pq.ParquetFile(path).iter_batches(BLOCK, columns=columns)
    return pyarrow.dataset.dataset(path, format="arrow").to_batches(columns=columns, batch_size=BLOCK)


def _read_columnar(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    start = 1
    with _named(path):
        names = [n for n in _schema(path).names if any(w == n or w.startswith(f"{n}.") for w in wanted)]
        for batch in _batches(path, names):
            for column in batch.columns:
                _validate(column)
            yield _arrow_block(pa.Table.from_batches([batch]), wanted, start)
            start += len(batch)


def _validate(column: pa.Array) -> None:
    """Raise pa.ArrowInvalid if a column is damaged. Text that is not UTF-8 is a bad row, reported later."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


def _read_hub(dataset: Any, wanted: Sequence[str]) -> Iterator[Block]:
    start = 1
    for table in dataset.with_format("arrow").iter(BLOCK):
        yield _arrow_block(table, wanted, start)
        start += len(table)


def _arrow_block(table: pa.Table, wanted: Sequence[str], start: int) -> Block:
    flat = table.flatten()
    columns = {name: flat[name] for name in wanted}
    columns = {n: c.cast(pa.string()) if pa.types.is_string_view(c.type) else c for n, c in columns.items()}
    return Block(columns, range(start, start + len(table)), [])
