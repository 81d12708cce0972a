"""Tables (word, count): sum, sort, and write as one Parquet file with at least one row group per language and kind.

`file.py` describes the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm.auto import tqdm

import hf_echo

from ...utils.files import write_whole

META = "hf_echo_word_counts"
VERSION = 1
SCHEMA = pa.schema(
    {
        "lang": pa.dictionary(pa.int32(), pa.string()),
        "kind": pa.dictionary(pa.int32(), pa.string()),
        "word": pa.large_string(),
        "count": pa.int64(),
    }
)
ROW_GROUP = 1_000_000
PENDING = 4_000_000  # rows in memory before they are summed


@dataclass(frozen=True)
class Entry:
    """Totals of one language and kind."""

    lang: str
    kind: str
    characters: int  # of the words: NFC, each text stripped and with one space in front
    sentences: int
    words: int
    distinct: int
    first_row_group: int
    row_groups: int

    @property
    def groups(self) -> range:
        return range(self.first_row_group, self.first_row_group + self.row_groups)


def sum_by_word(table: pa.Table) -> pa.Table:
    """One row per word, other columns summed in row order (so that float sums are reproducible)."""
    words = table["word"].combine_chunks().dictionary_encode()  # several times faster than Table.group_by
    rows, columns = words.indices.to_numpy(), {}
    for name in table.column_names:
        if name != "word":
            values = table[name].to_numpy()
            columns[name] = np.zeros(len(words.dictionary), values.dtype)
            np.add.at(columns[name], rows, values)
    return pa.table({"word": words.dictionary, **columns})


def summed(tables: Iterable[pa.Table], column: str = "count") -> pa.Table:
    """Sum tables to one row per word. Memory: the distinct words and at most `PENDING` rows."""
    kind = pa.int64() if column == "count" else pa.float64()
    total = pa.table({"word": pa.array([], pa.large_string()), column: pa.array([], kind)})
    pending, rows = [], 0
    for table in tables:
        pending.append(table)
        rows += len(table)
        if rows > max(PENDING, len(total)):
            total, pending, rows = sum_by_word(pa.concat_tables([total, *pending])), [], 0
    return sum_by_word(pa.concat_tables([total, *pending]))


def in_order(words: pa.Table) -> pa.Table:
    return words.sort_by([("count", "descending"), ("word", "ascending")])


def write_counts(
    out: Path,
    readers: Mapping[tuple[str, str], Sequence[Callable[[], pa.Table]]],
    sentences: Mapping[tuple[str, str], int],
    counting: Mapping[str, Any],
    *,
    progress: bool,
) -> None:
    """Sum the tables (word, count) of each (lang, kind) and write them to `out`, with `counting` as metadata."""
    entries, group = [], 0
    with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
        for lang, kind in tqdm(sorted(readers), desc="Merging counts", unit="table", disable=not progress):
            words = in_order(summed(read() for read in readers[lang, kind]))
            if not len(words):
                continue
            constants = [pa.repeat(pa.scalar(v), len(words)).dictionary_encode() for v in (lang, kind)]
            writer.write_table(pa.table([*constants, words["word"], words["count"]], schema=SCHEMA), ROW_GROUP)
            lengths = pc.multiply(pc.utf8_length(words["word"]).cast(pa.int64()), words["count"])
            groups = math.ceil(len(words) / ROW_GROUP)
            entries.append(
                Entry(
                    lang=lang,
                    kind=kind,
                    characters=pc.sum(lengths).as_py(),
                    sentences=sentences[lang, kind],
                    words=pc.sum(words["count"]).as_py(),
                    distinct=len(words),
                    first_row_group=group,
                    row_groups=groups,
                )
            )
            group += groups
        meta = {"version": VERSION, "hf_echo": hf_echo.__version__, "normalisation": "NFC", **counting}
        writer.add_key_value_metadata({META: json.dumps(meta | {"entries": [asdict(e) for e in entries]})})
