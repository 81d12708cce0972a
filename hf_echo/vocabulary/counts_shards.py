"""Counting one shard: blocks of rows -> tables (word, count) by language, in files that survive an interruption.

A shard becomes one or more Arrow files in the folder of parts: a piece whenever the table has reached its bound, and a
last one, which makes the shard complete and lists its figures. Files appear under their names only when they are whole.
This is what a worker process runs; it knows neither the other shards nor the final file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..data.formats import Block
from .counts_sources import Side, rows_of
from .pretokenizer import split_words

META = b"hf_echo"
CHUNK = 2_000  # texts counted between two looks at the bound
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
    """Count and write the parts; with bad rows that are errors, write nothing."""
    tables, bad = [], dict[int, str]()
    for block in shard.blocks:
        bad.update(block.bad)
        for side in shard.sides:
            table, wrong = rows_of(block, side, shard.split)
            tables.append(table)
            for line, reason in wrong:
                bad.setdefault(line, reason)
    read = sum(len(block.lines) for block in shard.blocks)
    found = Counted(shard.label, read, sorted(bad.items()))
    if bad and not settings.skip_bad:
        return found
    texts = pa.concat_tables(tables)
    writer = _PartWriter(shard, settings)
    for lang, times, chunk in _chunks(texts):
        writer.add(lang, times, chunk)
    sentences = {v["values"]: v["counts"] for v in pc.value_counts(texts["lang"]).to_pylist()}
    writer.finish({"last": shard.last, "rows_read": read, "rows": len(texts), "sentences": sentences})
    return found


def _chunks(texts: pa.Table) -> Iterator[tuple[str, int, list[str]]]:
    """(lang, times, different texts that stand `times` times in the shard). Interface strings, and the English side
    of n-way text, repeat a lot; a text is split once."""
    grouped = texts.group_by(["lang", "text"], use_threads=False).aggregate([([], "count_all")])
    runs = grouped.group_by(["lang", "count_all"], use_threads=False).aggregate([("text", "list")])
    for lang, times, column in zip(
        *(runs[name].to_pylist() for name in ("lang", "count_all", "text_list")), strict=True
    ):
        for start in range(0, len(column), CHUNK):
            yield lang, times, column[start : start + CHUNK]


class _PartWriter:
    """Tables by language that are written out and emptied whenever they hold `max_words` words together."""

    def __init__(self, shard: Shard, settings: Settings) -> None:
        self.stem, self.settings = f"{shard.key}-{shard.number:06d}", settings
        self.tables: dict[str, Counter[str]] = {}
        self.words = self.pieces = 0

    def add(self, lang: str, times: int, texts: Iterable[str]) -> None:
        table = self.tables.setdefault(lang, Counter())
        before, pattern = len(table), self.settings.pattern
        words = chain.from_iterable(split_words(text, pattern) for text in texts)
        if times == 1:
            table.update(words)
        else:
            for word, count in Counter(words).items():
                table[word] += count * times
        self.words += len(table) - before
        if self.words >= self.settings.max_words:
            self._write(f"{self.stem}.{self.pieces}.arrow", {})
            self.pieces += 1

    def finish(self, figures: dict[str, Any]) -> None:
        self._write(f"{self.stem}.arrow", {"pieces": self.pieces, **figures})

    def _write(self, name: str, figures: dict[str, Any]) -> None:
        langs = sorted(lang for lang, table in self.tables.items() if table)
        schema = PART_SCHEMA.with_metadata({META: json.dumps({"langs": langs, **figures})})
        unfinished = self.settings.parts / f"{name}.unfinished"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with (
            pa.OSFile(str(unfinished), "wb") as sink,
            pa.ipc.new_file(sink, schema, options=options) as writer,
        ):
            for lang in langs:
                table = _cut_long(self.tables[lang], self.settings.max_word_length)
                arrays = [
                    pa.array(list(table), pa.large_string()),
                    pa.array(list(table.values()), pa.int64()),
                ]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        unfinished.replace(self.settings.parts / name)
        self.tables, self.words = {}, 0


def _cut_long(table: Counter[str], length: int) -> Counter[str]:
    """Words beyond `length` characters in pieces of it. No sub-word is that long, so nothing is lost to BPE but the
    merges across a cut; a line of base64 does not stay a word of its own."""
    for word in [word for word in table if len(word) > length]:
        count = table.pop(word)
        for start in range(0, len(word), length):
            table[word[start : start + length]] += count
    return table


class Part(NamedTuple):
    """A complete shard on disk."""

    files: list[Path]
    figures: dict[str, Any]  # last, rows read, rows counted, sentences by language


def finished_parts(folder: Path, key: str) -> dict[int, Part]:
    """Shard number -> part, of one source; pieces of a shard that was not finished are not among them."""
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
