"""Count one shard: blocks of rows -> tables (word, count) by language, in files that survive an interruption.

A shard is one or more Arrow files in the folder of parts: one piece each time the table reaches its limit, and a last
one that completes the shard and has its totals. Files are renamed to their final names when they are complete. A worker
process runs this code; it is independent of other shards and of the final file.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...data.formats import Block
from ...utils.files import write_whole
from ..pretokenizer import split_words
from .sources import Side, rows_of

META = b"hf_echo"
CHUNK = 2_000  # texts counted between two checks of the limit
PART_SCHEMA = pa.schema({"word": pa.large_string(), "count": pa.int64()})


class Settings(NamedTuple):
    parts: Path
    pattern: str
    max_word_length: int
    max_words: int
    skip_bad: bool


class Shard(NamedTuple):
    label: str
    key: str
    number: int
    last: bool  # no shard of this source follows
    kind: str
    sides: tuple[Side, ...]
    split: str | None
    blocks: list[Block]


class Counted(NamedTuple):
    label: str
    rows: int
    bad: list[tuple[int, str]]


def count_shard(shard: Shard, settings: Settings) -> Counted:
    """Count a shard and write its parts; write nothing if bad rows are errors."""
    tables, bad = [], dict[int, str]()
    for block in shard.blocks:
        bad.update(block.bad)
        for side in shard.sides:
            table, bad_rows = rows_of(block, side, shard.split)
            tables.append(table)
            for line, reason in bad_rows:
                bad.setdefault(line, reason)
    read = sum(len(block.lines) for block in shard.blocks)
    counted = Counted(shard.label, read, sorted(bad.items()))
    if bad and not settings.skip_bad:
        return counted
    texts = pa.concat_tables(tables)
    writer = _PartWriter(shard, settings)
    of_lang = texts.group_by("lang", use_threads=False).aggregate([("text", "list")])
    for lang, column in zip(*(of_lang[name].to_pylist() for name in ("lang", "text_list")), strict=True):
        for start in range(0, len(column), CHUNK):
            writer.add(lang, column[start : start + CHUNK])
    sentences = {v["values"]: v["counts"] for v in pc.value_counts(texts["lang"]).to_pylist()}
    writer.finish({"last": shard.last, "rows_read": read, "rows": len(texts), "sentences": sentences})
    return counted


def word_groups(text: str) -> list[str]:
    """Divide a text at spaces into pieces whose `split_words`, concatenated, are those of the text.

    This is correct because no word contains a space after its first character, and none depends on text after the next
    space. Text with other white space, or several spaces in a row, stays whole. Most pieces occur often, so the
    regular expression, the slow part, runs once for each.
    """
    groups = text.split()
    return groups if " ".join(groups) == text.strip() else [text]


class _PartWriter:
    """Collects word groups by language; splits and writes them whenever there are `max_words` distinct ones."""

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.stem, self.settings = f"{shard.key}-{shard.number:06d}", settings
        self.tables: dict[str, Counter[str]] = {}
        self.size = self.pieces = 0

    def add(self, lang: str, texts: Iterable[str]) -> None:
        table = self.tables.setdefault(lang, Counter())
        before = len(table)
        table.update(chain.from_iterable(map(word_groups, texts)))
        self.size += len(table) - before
        if self.size >= self.settings.max_words:
            self._write(f"{self.stem}.{self.pieces}.arrow", {})
            self.pieces += 1

    def finish(self, figures: dict[str, Any]) -> None:
        self._write(f"{self.stem}.arrow", {"pieces": self.pieces, **figures})

    def _write(self, name: str, figures: dict[str, Any]) -> None:
        langs = sorted(lang for lang, table in self.tables.items() if table)
        schema = PART_SCHEMA.with_metadata({META: json.dumps({"langs": langs, **figures})})
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with (
            write_whole(self.settings.parts / name) as unfinished,
            pa.OSFile(str(unfinished), "wb") as sink,
            pa.ipc.new_file(sink, schema, options=options) as writer,
        ):
            for lang in langs:
                table = self._words(self.tables.pop(lang))
                arrays = [
                    pa.array(list(table), pa.large_string()),
                    pa.array(list(table.values()), pa.int64()),
                ]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        self.tables, self.size = {}, 0

    def _words(self, groups: Counter[str]) -> dict[str, int]:
        pattern, words = self.settings.pattern, defaultdict[str, int](int)
        for group, count in groups.items():
            for word in split_words(group, pattern):
                words[word] += count
        return _cut_long(words, self.settings.max_word_length)


def _cut_long(words: defaultdict[str, int], length: int) -> dict[str, int]:
    """Divide words longer than `length` characters into pieces. BPE tokens are shorter, so only merges across a cut are
    lost; a line of base64 does not stay one word."""
    for word in [word for word in words if len(word) > length]:
        count = words.pop(word)
        for start in range(0, len(word), length):
            words[word[start : start + length]] += count
    return words


class Part(NamedTuple):
    """A complete shard on disk: its files and totals."""

    files: list[Path]
    figures: dict[str, Any]  # last, rows read, rows counted, sentences by language


def finished_parts(folder: Path, key: str) -> dict[int, Part]:
    """{shard number: part} of a source's complete shards."""
    parts = {}
    for last in folder.glob(f"{key}-[0-9]*.arrow"):
        stem, *piece = last.name.removesuffix(".arrow").split(".")
        if not piece:
            figures = part_meta(last)
            files = [folder / f"{stem}.{i}.arrow" for i in range(figures["pieces"])]
            parts[int(stem.rpartition("-")[2])] = Part([*files, last], figures)
    return parts


def part_meta(path: Path) -> dict[str, Any]:
    with pa.memory_map(str(path)) as file:
        return json.loads(pa.ipc.open_file(file).schema.metadata[META])


def read_part(path: Path, batch: int) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.Table.from_batches([pa.ipc.open_file(file).get_batch(batch)]).replace_schema_metadata(None)
