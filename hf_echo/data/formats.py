"""Open files of any known kind as blocks of raw columns with row numbers, by their names.

Lines are parsed here, because the CSV and JSON builders of `datasets` stop at the first bad line:
here it is reported with its number. `schema` interprets the columns. TSV and CSV: `delimited`. TMX,
XLIFF, XCES and Moses pairs: `bitexts`. SRT and WebVTT: `subtitles`. A Moses pair is two files of
equal numbers of lines, PREFIX.en-fr.en and PREFIX.en-fr.fr; its path is PREFIX.en-fr, or one of the
two. A name that is of no known kind is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..languages import CODE_SHAPE, meanings
from ..utils.text import (
    BLOCK,
    PACKED,
    STANDARD,
    Lines,
    check_file,
    name_of,
    named,
    text_blocks,
)
from .bitexts import (
    Sides,
    language_names,
    moses_pair,
    open_moses,
    pair_part,
    root_of,
    text_part,
    tmx_units,
    xces_sentences,
    xces_units,
    xliff_units,
)
from .delimited import delimiter_of, read_plain, read_quoted, split_quoted, tsv_is_quoted
from .parts import Block, Languages, Part, Unit, blocks_of
from .subtitles import subtitle_texts

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

# These may be packed.
KINDS = (
    ".tsv",
    ".csv",
    ".jsonl",
    ".tmx",
    ".xlf",
    ".xliff",
    ".xml",
    ".srt",
    ".vtt",
)
SUFFIXES = [kind + packed for kind in KINDS for packed in ("", *PACKED)]
SUFFIXES += [".json", ".parquet", ".arrow"]
KNOWN = (
    ".tsv, .csv, .jsonl, .tmx, .xlf, .xliff, .xml of OPUS (each also with .gz, .bz2, .zst or .xz), "
    ".json, .parquet, .arrow"
)
UNITS = {".tmx": tmx_units, ".xlf": xliff_units, ".xliff": xliff_units, ".xml": xces_units}
# Names of plain files: one text a line. A language ("corpus.fr", "eng_Latn") and a number are such
# names, too.
PLAIN = frozenset(
    """
    txt text asc md lst list line lines sent sents sentences snt seg src tgt trg ref hyp mt source target reference tok
    detok bpe spm raw clean cleaned dedup deduped shuf shuffled train dev devtest test valid val utf8 in out orig
    """.split()
)


def suffix_of(path: Path) -> str | None:
    """The known suffix of a file name (``.tsv.gz`` is one suffix), or None."""
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def kind_of(path: str | Path) -> str | None:
    """The known suffix of a file name without that of its packing: ".tsv" for "a.tsv.gz";
    None for other names."""
    suffix = suffix_of(Path(path))
    if suffix is None:
        return None
    return suffix.removesuffix(Path(suffix).suffix) if Path(suffix).suffix in PACKED else suffix


def is_plain_text(path: str | Path) -> bool:
    """Whether the name is that of a file of texts, one a line:
    "-", no suffix, .txt, a language ("news.fr.gz") ..."""
    name = Path(path).name
    if Path(name).suffix.lower() in PACKED:
        name = name[: -len(Path(name).suffix)]
    ending = Path(name).suffix[1:]
    is_language = bool(meanings(ending)) or CODE_SHAPE.fullmatch(ending) is not None
    return not ending or ending.lower() in PLAIN or ending.isdigit() or is_language


def refuse_unknown(path: str | Path) -> None:
    """Raise ValueError for a name that is neither a table nor plain text."""
    if not is_plain_text(path):
        raise ValueError(
            f"{path}: unknown file type; name it .txt if each line is a text, or use one of {KNOWN}"
        )


def open_file(
    path: Path,
    *,
    is_header: Callable[[list[str]], bool] = lambda fields: True,
    without_header: Sequence[str] | None = ("source", "target"),
    langs: Languages = (None, None),
) -> Part:
    """Open a file as a `Part`; its beginning says its columns. "-" is TSV from standard input.

    ``is_header`` decides whether the first line of a TSV file names its columns. If not, the
    columns are called ``without_header`` (None: "1", "2" ...), and the first line is a row.
    ``langs`` chooses the languages of a TMX file or a Moses pair; the columns source_lang and
    target_lang hold those that are not given.
    """
    # The name alone says the kind; what is inside is read later.
    pair = moses_pair(path)
    if pair:
        return open_moses(path, *pair, langs)
    check_file(path)
    suffix = ".tsv" if str(path) == STANDARD else kind_of(path)
    if suffix is None:
        raise ValueError(f"{path}: unknown file type; use one of {KNOWN}")
    if suffix in (".srt", ".vtt"):
        raise ValueError(
            f"{path}: subtitles hold one language; give two files, whose cues translate each other"
        )
    if suffix in UNITS:
        return _open_units(path, suffix, langs)
    # Columnar files say their columns in the schema.
    if suffix in (".parquet", ".arrow"):
        with named(path):
            names = flat_names(_schema(path))
        _check_header(path, names)
        return Part(str(path), names, partial(_read_columnar, path), path)
    if suffix.startswith(".json"):
        return _open_json(path)
    return _open_delimited(path, suffix, is_header, without_header)


def _open_units(path: Path, suffix: str, langs: Languages) -> Part:
    """A file of translations by language: its first units say which languages there are."""
    if suffix == ".xml" and root_of(path) != "cesAlign":
        raise ValueError(
            f"{path}: XML, but not a sentence alignment of OPUS (cesAlign); use one of {KNOWN}"
        )
    units = partial(UNITS[suffix], path)
    sides = Sides(str(path), language_names(units(), langs), langs)
    return pair_part(str(path), units, sides, langs, path)


def _open_json(path: Path) -> Part:
    """Objects: the columns are the keys of the first block."""
    blocks = _json_blocks(path)
    rows, _, bad, _ = next(blocks, ([], [], [], 0))
    if not rows:
        where = f"{path}: no row"
        if bad:
            line, reason = bad[0]
            where = f"{path}:{line}: {reason}"
        raise ValueError(
            f"{where}; write one JSON object per line, or in a .json file one array of objects"
        )
    columns = list(dict.fromkeys(chain.from_iterable(map(_flat_keys, rows))))
    has_more = next(blocks, None) is not None
    return Part(str(path), columns, partial(_read_json, path), path, has_more)


def _open_delimited(
    path: Path,
    suffix: str,
    is_header: Callable[[list[str]], bool],
    without_header: Sequence[str] | None,
) -> Part:
    """TSV, CSV, or TSV from standard input, which can be read once."""
    is_stream = str(path) == STANDARD
    stream = text_blocks(path)
    head = next(stream, Lines([], [], []))
    # the end of a pipe that has let nothing through
    if is_stream and not head.texts and not head.bad:
        return Part(name_of(path), list(without_header or ("1", "2")), lambda names: iter(()))
    if not head.texts and not head.bad:
        raise ValueError(f"{name_of(path)} is empty; it needs a header or rows of two texts")
    if head.bad and head.bad[0][0] == 1:
        raise ValueError(f"{name_of(path)}:1: {head.bad[0][1]}")
    if not head.texts[0]:
        raise ValueError(f"{name_of(path)}: the first line is empty; it should name the columns")
    header_line = head.texts[0]
    is_csv = suffix == ".csv"
    delimiter = delimiter_of(header_line) if is_csv else "\t"
    has_quotes = is_csv or tsv_is_quoted(path, head, header_line.count("\t") + 1, is_stream)
    columns = header_line.split(delimiter)
    if has_quotes:
        columns = split_quoted(header_line, delimiter, not is_csv) or columns

    header = is_header(columns)
    if header:
        _check_header(path, columns)
    elif without_header is None:
        columns = [str(number) for number in range(1, len(columns) + 1)]
    else:
        columns = list(without_header)

    # What was read of a pipe is gone from it: it comes first again.
    blocks = partial(chain, [head], stream) if is_stream else partial(text_blocks, path)
    if has_quotes:
        read = partial(read_quoted, blocks, columns, header, delimiter, not is_csv, BLOCK)
    else:
        read = partial(read_plain, blocks, columns, header)
    return Part(
        name_of(path),
        columns,
        read,
        None if is_stream else path,
        is_quoted=has_quotes and not is_csv,
    )


def open_texts_of(path: Path, lang: str | None = None) -> Part | None:
    """A file that holds texts otherwise than as lines, as a table; None for lines of text.

    TMX, XLIFF and OPUS's XML have the column text: `lang` says which texts, where there are several
    languages.
    """
    kind = kind_of(path)
    if kind is None:
        refuse_unknown(path)
        return None
    check_file(path)
    if kind in (".srt", ".vtt"):
        return Part(
            str(path), ["text"], lambda names: blocks_of(_cues(path), ["text"], names), path
        )
    if kind == ".xml" and root_of(path) != "cesAlign":
        return Part(str(path), ["text"], lambda names: _sentences(path), path)
    if kind in UNITS:
        return text_part(str(path), partial(UNITS[kind], path), lang, path)
    return open_file(path)


def _cues(path: Path) -> Iterator[Unit]:
    for number, text in subtitle_texts(path):
        if text:
            yield number, [(text,)], None, {}
        else:
            yield number, [], None, {"cues without text": 1}


def _sentences(path: Path) -> Iterator[Block]:
    texts = [text for _, text in xces_sentences(path)]
    if not texts:
        raise ValueError(
            f"{path}: XML without sentences (<s>), as OPUS writes them; use one of {KNOWN}"
        )
    yield Block({"text": texts}, range(1, len(texts) + 1), [])


def open_text(path: Path) -> Part:
    """A plain text file as a table with the column text; empty lines are no rows."""
    return Part(str(path), ["text"], partial(_read_text, path), path)


def open_hub(label: str, dataset: Any) -> Part:
    """A Dataset of `load_dataset`; nested columns are called ``translation.fr``."""
    columns = flat_names(dataset.features.arrow_schema)
    return Part(label, columns, partial(_read_hub, dataset), (label, dataset._fingerprint))


def flat_names(schema: pa.Schema) -> list[str]:
    """Column names; a field inside a struct is written with a dot."""
    return schema.empty_table().flatten().column_names


def _flat_keys(row: Mapping[str, Any]) -> list[str]:
    """The names of an object's fields; of nested objects "outer.inner"."""
    keys = []
    for key, value in row.items():
        if isinstance(value, dict) and value:
            keys += [f"{key}.{name}" if name else key for name in value]
        else:
            keys.append(key)
    return keys


def _check_header(path: Path, names: list[str]) -> None:
    """Raises ValueError for column names with quotes, or twice."""
    for name in names:
        if len(name) > 1 and name[0] == name[-1] == '"':
            raise ValueError(
                f"{path}: the column name {name} has quotes; quote all fields that hold one, or none"
            )
        if name and names.count(name) > 1:
            raise ValueError(f"{path}: the column name {name!r} appears twice; rename one")


def _read_text(path: Path, names: Sequence[str]) -> Iterator[Block]:
    """Blocks of the lines of a text file; blank ones are counted."""
    for texts, numbers, bad in text_blocks(path):
        # Blank lines are counted, and are no error.
        rows = [(number, line) for number, line in zip(numbers, texts) if line.strip()]
        columns = {"text": [line for _, line in rows]}
        left_out = {"blank lines": len(texts) - len(rows)}
        yield Block(columns, [number for number, _ in rows], bad, left_out)


def _read_json(path: Path, names: Sequence[str]) -> Iterator[Block]:
    for rows, numbers, bad, blank in _json_blocks(path):
        columns = {name: [_dig(row, name) for row in rows] for name in names}
        yield Block(columns, numbers, bad, {"blank lines": blank})


def _json_blocks(path: Path) -> Iterator[tuple[list[dict], list[int], list[tuple[int, str]], int]]:
    """(objects, their numbers, bad lines, number of blank ones) of JSON lines, or of a .json file
    with one array, which is held in memory.
    """
    for lines in text_blocks(path):
        first = next((line.lstrip() for line in lines.texts if line.strip()), "")
        if path.suffix.lower() == ".json" and first.startswith("[") and lines.numbers[0] == 1:
            yield (*_objects(_json_array(path), []), 0)
            return
        entries = []
        bad = list(lines.bad)
        blank = 0
        for number, line in zip(lines.numbers, lines.texts):
            if not line.strip():
                blank += 1
                continue
            try:
                entries.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                bad.append((number, f"not valid JSON ({_why(error)})"))
        yield (*_objects(entries, bad), blank)


def _json_array(path: Path) -> list[tuple[int, Any]]:
    """(number from 1, entry) of a file that is one JSON array."""
    try:
        return list(enumerate(json.loads(path.read_text(encoding="utf-8-sig")), 1))
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{line}: not a valid JSON array ({_why(error)})") from None


def _why(error: Exception) -> str:
    """What is wrong with JSON, in the words of Python's parser."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    # a number of thousands of digits, deep nesting
    return next(iter(str(error).splitlines()), "too deep")


def _objects(
    entries: Sequence[tuple[int, Any]], bad: list[tuple[int, str]]
) -> tuple[list[dict], list[int], list[tuple[int, str]]]:
    """(objects, their numbers, bad rows) of the entries of a JSON file; `bad` are rows that could
    not be parsed."""
    rows = []
    numbers = []
    others = []
    for number, entry in entries:
        if isinstance(entry, dict):
            rows.append(entry)
            numbers.append(number)
        else:
            others.append((number, "not a JSON object"))
    return rows, numbers, sorted([*bad, *others])


def _dig(row: Mapping[str, Any], name: str) -> Any:
    """A field of a JSON object; "translation.en" is the field "en" of the object "translation"."""
    if name in row or "." not in name:
        return row.get(name)
    outer, inner = name.split(".", 1)
    return row[outer].get(inner) if isinstance(row.get(outer), dict) else None


def _open_arrow(path: Path) -> Dataset:
    from pyarrow.dataset import dataset  # imports pandas, which takes a second

    return dataset(path, format="arrow")


def _schema(path: Path) -> pa.Schema:
    is_parquet = path.suffix.lower() == ".parquet"
    return pq.read_schema(path) if is_parquet else _open_arrow(path).schema


def _read_columnar(path: Path, fields: Sequence[str]) -> Iterator[Block]:
    """Blocks of a Parquet or Arrow file, with the columns that hold wanted fields alone."""
    start = 1
    with named(path):
        # A field of a struct is wanted by its name behind that of the struct: translation.fr.
        names = []
        for name in _schema(path).names:
            if name in fields or any(field.startswith(f"{name}.") for field in fields):
                names.append(name)
        if path.suffix.lower() == ".parquet":
            # pyarrow.dataset reads ahead: rows before a damage would be lost.
            # pre_buffer would keep all bytes of the file in memory until its last row is read.
            batches = pq.ParquetFile(path, pre_buffer=False).iter_batches(BLOCK, columns=names)
        else:
            batches = _open_arrow(path).to_batches(columns=names, batch_size=BLOCK)
        for batch in batches:
            for column in batch.columns:
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    # text that is not UTF-8 is a bad row, reported later
                    if "UTF8" not in str(error):
                        raise
            yield _arrow_block(pa.Table.from_batches([batch]), fields, start)
            start += len(batch)


def _read_hub(dataset: Any, names: Sequence[str]) -> Iterator[Block]:
    start = 1
    for table in dataset.with_format("arrow").iter(BLOCK):
        yield _arrow_block(table, names, start)
        start += len(table)


def _arrow_block(table: pa.Table, names: Sequence[str], start: int) -> Block:
    """The wanted columns of a table, fields of structs included, as a block of rows from `start`
    on."""
    flat = table.flatten()
    columns = {}
    for name in names:
        column = flat[name]
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        columns[name] = column
    return Block(columns, range(start, start + len(table)), [])
