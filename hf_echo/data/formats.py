"""Open tables of text as blocks of raw columns with row numbers: TSV, JSON, Parquet, Arrow, TMX, Moses pairs, the Hub.

A `Part` is one file (or one split of a Hub dataset), read in blocks of `BLOCK` rows. Lines are parsed here, because the
CSV and JSON builders of `datasets` stop at the first bad line: here it is reported with its number. `schema` interprets
the columns.

TSV follows the convention of corpora, not CSV: a tab always separates fields, quotes are plain characters, nothing is
escaped. A Moses pair is two files of equal numbers of lines, PREFIX.en-fr.en and PREFIX.en-fr.fr; its path is
PREFIX.en-fr, or one of the two. TMX: lxml streams, translate-toolkit reads the units.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from ..languages import find_language, meanings
from ..utils.text import BLOCK, PACKED, STANDARD, BrokenFile, Lines, check_file, name_of, named, open_bytes, text_blocks

SUFFIXES = [kind + packed for kind in (".tsv", ".jsonl", ".tmx") for packed in ("", *PACKED)]
SUFFIXES += [".json", ".parquet", ".arrow"]
KNOWN = ".tsv, .jsonl, .tmx (each also with .gz, .zst or .xz), .json, .parquet, .arrow"
MOSES = re.compile(r"(?:.*\.)?([A-Za-z]{2,3}(?:_[A-Za-z]{2,4})*)-([A-Za-z]{2,3}(?:_[A-Za-z]{2,4})*)")
Languages = tuple[str | None, str | None]  # of source and target; None: whatever the file says


class Block(NamedTuple):
    columns: Mapping[str, Sequence | pa.Array | pa.ChunkedArray]
    lines: Sequence[int]  # number of each row: its line in a file of lines, else its place, from 1
    bad: list[tuple[int, str]]  # (line, reason) of lines that are not rows


class Part(NamedTuple):
    label: str  # its name in error messages
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Block]]  # names of the wanted columns -> blocks
    source: Any = None  # a path, a list of paths, or the fingerprint of a Hub dataset; None: unknown
    open_ended: bool = False  # later rows may have columns that the first block lacks; `read` takes any name

    @property
    def identity(self) -> Any:
        """Changes with the content, whatever the size and time of a file. None: unknown."""
        if isinstance(self.source, list):
            return tuple((str(path.resolve()), content_hash(path)) for path in self.source)
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
    without_header: Sequence[str] | None = ("source", "target"),
    langs: Languages = (None, None),
) -> Part:
    """Open a file as a `Part`; its beginning says its columns. "-" is TSV from standard input.

    ``is_header`` decides whether the first line of a TSV file names its columns. If not, the columns are called
    ``without_header`` (None: "1", "2" ...), and the first line is a row. ``langs`` chooses the languages of a TMX file
    or a Moses pair; the columns source_lang and target_lang hold those that are not given.
    """
    if pair := moses_pair(path):
        return _open_moses(path, *pair, langs)
    check_file(path)
    suffix = ".tsv" if str(path) == STANDARD else suffix_of(path)
    if suffix is None:
        raise ValueError(f"{path}: unknown file type; use one of {KNOWN}")
    if suffix.startswith(".tmx"):
        return _open_tmx(path, langs)
    if suffix in (".parquet", ".arrow"):
        with named(path):
            names = flat_names(_schema(path))
        _check_header(path, names)
        return Part(str(path), names, partial(_read_columnar, path), path)
    if suffix.startswith(".json"):
        blocks = _json_blocks(path)
        rows, numbers, bad = next(blocks, ([], [], []))
        if not rows:
            where = f"{path}:{bad[0][0]}: {bad[0][1]}" if bad else f"{path}: no row"
            raise ValueError(f"{where}; write one JSON object per line, or in a .json file one array of objects")
        columns = list(dict.fromkeys(chain.from_iterable(map(_flat_keys, rows))))  # those of the first block
        return Part(str(path), columns, partial(_read_json, path), path, next(blocks, None) is not None)
    blocks = text_blocks(path)
    head = next(blocks, Lines([], [], []))
    if str(path) == STANDARD and not head.texts and not head.bad:  # the end of a pipe that has let nothing through
        return Part(name_of(path), list(without_header or ("1", "2")), lambda wanted: iter(()))
    if not head.texts or not head.texts[0] or head.numbers[0] != 1:
        raise ValueError(f"{name_of(path)}: the first line is empty or not UTF-8; it should name the columns")
    columns = head.texts[0].split("\t")
    if header := is_header(columns):
        _check_header(path, columns)
    else:
        columns = list(map(str, range(1, len(columns) + 1))) if without_header is None else list(without_header)
    if str(path) == STANDARD:  # can be read once
        return Part(name_of(path), columns, partial(_read_tsv, partial(chain, [head], blocks), columns, header))
    return Part(str(path), columns, partial(_read_tsv, partial(text_blocks, path), columns, header), path)


def moses_pair(path: Path) -> tuple[list[Path], list[str]] | None:
    """([file of the source, file of the target], their names of languages) of a Moses pair, or None."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name
    prefix, _, code = name.rpartition(".")
    if code and (match := MOSES.fullmatch(prefix)) and code in match.groups():
        path = path.with_name(prefix)
    elif not (match := MOSES.fullmatch(path.name)):
        return None
    places = [[path.with_name(f"{path.name}.{code}{packed}") for packed in ("", *PACKED)] for code in match.groups()]
    files = [next(filter(Path.is_file, of_side), None) for of_side in places]
    return ([*files], [*match.groups()]) if all(files) else None


def files_of(path: Path) -> list[Path]:
    """The files that a path of `open_file` stands for: two for a Moses pair."""
    return pair[0] if (pair := moses_pair(path)) else [path]


def _choose(label: str, names: list[str], langs: Languages) -> list[tuple[str, str]]:
    """(name in the file, code) of source and target, from the names of languages of a file."""
    chosen: list[tuple[str, str] | None] = []
    for code in langs:
        name = next((name for name in names if _means(name, code)), None)
        if code is not None and name is None:
            raise ValueError(f"{label}: no text in {code}; its languages are {', '.join(names) or 'none'}")
        chosen.append((name, code) if code is not None and name is not None else None)
    rest = [name for name in names if not any(side and side[0] == name for side in chosen)]
    if None in chosen and len(rest) != chosen.count(None):
        there = ", ".join(names) or "no language"
        raise ValueError(f"{label} has texts in {there}: give source_lang and target_lang")
    others = iter(rest)
    return [side or (name := next(others), find_language(name, strict=True)) for side in chosen]


def _means(name: str, code: str | None) -> bool:
    """Whether a name of a language in a file may be that of a code; "en-US" may be eng_Latn too."""
    return code is not None and any(one == code or one.startswith(f"{code}_") for one in (*meanings(name), name))


def _of_pair(read: Callable[[], Iterator[Any]], sides: list[tuple[str, str]], wanted: Sequence[str]) -> Iterator[Block]:
    """Blocks of a reader of (number, texts of the two languages by name, reason why it is no row or None)."""
    rows = read()
    while block := list(islice(rows, BLOCK)):
        good = [(number, texts) for number, texts, reason in block if reason is None]
        columns: dict[str, Sequence] = {}
        for side, (name, code) in zip(("source", "target"), sides):
            columns |= {side: [texts[name] for _, texts in good], f"{side}_lang": [code] * len(good)}
        bad = [(number, reason) for number, _, reason in block if reason is not None]
        yield Block({name: columns[name] for name in wanted}, [number for number, _ in good], bad)


def _pair_part(label: str, read: Callable[[], Iterator[Any]], sides: list, langs: Languages, source: Any) -> Part:
    columns = ["source", "target"]
    columns += [name for name, given in zip(("source_lang", "target_lang"), langs) if given is None]
    return Part(label, columns, partial(_of_pair, read, sides), source)


def _open_moses(path: Path, files: list[Path], names: list[str], langs: Languages) -> Part:
    if None not in langs and not any(map(meanings, names)):  # corpus.src-tgt.src
        sides = list(zip(names, langs))
    else:
        sides = _choose(str(path), names, langs)
    return _pair_part(str(path), partial(_moses_rows, files, names), sides, langs, files)


def open_two(files: Sequence[Path], langs: Languages) -> Part:
    """Two files of texts, of which line i translates line i; one of them may be "-"."""
    for file in files:
        check_file(file)
    names = ["source", "target"]
    read = partial(_moses_rows, list(files), names)
    label = " and ".join(map(name_of, files))
    return Part(label, names, partial(_of_pair, read, list(zip(names, langs))), list(files))


def _moses_rows(files: list[Path], names: list[str]) -> Iterator[tuple[int, dict[str, str], str | None]]:
    counts = [0, 0]
    for pair in zip_longest(*map(_each_line, files)):
        counts = [count + (line is not None) for count, line in zip(counts, pair)]
        if counts[0] == counts[1]:
            (number, *_), reason = pair[0], next((reason for _, _, reason in pair if reason), None)
            yield number, dict(zip(names, (text for _, text, _ in pair))), reason
    if counts[0] != counts[1]:
        has = " and ".join(f"{name_of(file)} has {count} lines" for file, count in zip(files, counts))
        raise BrokenFile(files[0], f"{has}: line i must translate line i")


def _each_line(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """(number, text, reason why it is none) of every line, in order."""
    for texts, numbers, bad in text_blocks(path):
        lines = [(number, text, None) for number, text in zip(numbers, texts)]
        yield from sorted(lines + [(number, "", reason) for number, reason in bad]) if bad else lines


def _open_tmx(path: Path, langs: Languages) -> Part:
    sides = _choose(str(path), _tmx_languages(path, langs), langs)
    return _pair_part(str(path), partial(_tmx_units, path, tuple(name for name, _ in sides)), sides, langs, path)


def open_tmx_text(path: Path, lang: str | None) -> Part:
    """The texts of one language of a TMX file as a table with the column text."""
    names = _tmx_languages(path, (lang, lang))
    if lang is None and len(names) != 1:
        raise ValueError(f"{path} has texts in {', '.join(names) or 'no language'}: give the language of one of them")
    name = names[0] if lang is None else _choose(str(path), names, (lang, lang))[0][0]

    def read(wanted: Sequence[str]) -> Iterator[Block]:
        units = _tmx_units(path, [name])
        while block := list(islice(units, BLOCK)):
            yield Block({"text": [texts[name] for _, texts, _ in block]}, [number for number, *_ in block], [])

    return Part(str(path), ["text"], read, path)


def _tmx_languages(path: Path, langs: Languages) -> list[str]:
    """The names of languages in the first units, or in all if the given ones are not among the first."""
    names: dict[str, None] = {}
    for number, texts, _ in _tmx_units(path):
        names |= dict.fromkeys(texts)
        if number >= BLOCK and all(any(_means(name, lang) for name in names) for lang in langs if lang):
            break
    return list(names)


def _tmx_units(path: Path, needed: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str], None]]:
    """(number, {language as it is written there: text}, None) of the units that have the needed languages."""
    try:
        from lxml import etree
        from translate.misc.xml_helpers import getXMLlang
        from translate.storage.tmx import tmxunit
    except ImportError as error:
        raise ImportError("TMX files need the translate toolkit: pip install 'hf-echo[tmx]'") from error

    with open_bytes(path) as file:
        for number, (_, element) in enumerate(etree.iterparse(file, tag="{*}tu", no_network=True), 1):
            unit = tmxunit.createfromxmlElement(element)
            nodes = {getXMLlang(node) or node.get("lang") or "": node for node in unit.getlanguageNodes()}
            if all(name in nodes for name in needed):
                yield number, {name: unit.getNodeText(node) or "" for name, node in nodes.items()}, None
            element.clear()  # the units that were read leave the memory
            while element.getprevious() is not None:
                del element.getparent()[0]


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
    inner = {key: value if isinstance(value, dict) and value else [""] for key, value in row.items()}
    return [f"{key}.{name}" if name else key for key, names in inner.items() for name in names]


def _check_header(path: Path, names: list[str]) -> None:
    for name in names:
        if len(name) > 1 and name[0] == name[-1] == '"':
            raise ValueError(f"{path}: the column name {name} has quotes; write the file without quotes")
        if name and names.count(name) > 1:
            raise ValueError(f"{path}: the column name {name!r} appears twice; rename one")


def _read_text(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    for texts, numbers, bad in text_blocks(path):
        good = [(n, line) for n, line in zip(numbers, texts) if line.strip()]
        yield Block({"text": [line for _, line in good]}, [n for n, _ in good], bad)


def _read_tsv(
    blocks: Callable[[], Iterator[Lines]], columns: list[str], header: bool, wanted: Sequence[str]
) -> Iterator[Block]:
    width, skip = len(columns), int(header)
    for texts, numbers, bad in blocks():
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
    bad = bad + [(number, "not a JSON object") for number, entry in entries if not isinstance(entry, dict)]
    return [row for _, row in good], [number for number, _ in good], sorted(bad)


def _dig(row: Mapping[str, Any], name: str) -> Any:
    if name in row or "." not in name:
        return row.get(name)
    outer, inner = name.split(".", 1)
    return row[outer].get(inner) if isinstance(row.get(outer), dict) else None


def _schema(path: Path) -> pa.Schema:
    is_parquet = path.suffix.lower() == ".parquet"
    return pq.read_schema(path) if is_parquet else pyarrow.dataset.dataset(path, format="arrow").schema


def _read_columnar(path: Path, wanted: Sequence[str]) -> Iterator[Block]:
    start = 1
    with named(path):
        names = [n for n in _schema(path).names if any(w == n or w.startswith(f"{n}.") for w in wanted)]
        if path.suffix.lower() == ".parquet":  # pyarrow.dataset reads ahead: rows before a damage would be lost
            batches = pq.ParquetFile(path).iter_batches(BLOCK, columns=names)
        else:
            batches = pyarrow.dataset.dataset(path, format="arrow").to_batches(columns=names, batch_size=BLOCK)
        for batch in batches:
            for column in batch.columns:
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    if "UTF8" not in str(error):  # text that is not UTF-8 is a bad row, reported later
                        raise
            yield _arrow_block(pa.Table.from_batches([batch]), wanted, start)
            start += len(batch)


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
