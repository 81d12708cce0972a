"""Blocks of rows on disk: Arrow files of the parallel schema plus the column ``origin``, and notes as JSON.

Files are written under another name first, so an existing file is complete. A block's note is written after its rows,
so a block with a note is finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from ...utils.files import write_whole
from ..schema import COLUMNS

SCHEMA = pa.schema(
    [(name, pa.string()) for name in COLUMNS]
    + [("hard_negatives", pa.list_(pa.string())), ("quality", pa.float64()), ("origin", pa.string())]
)


def write_table(path: Path, table: pa.Table) -> None:
    table = table.select(SCHEMA.names).cast(SCHEMA).combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with write_whole(path) as part, pa.OSFile(str(part), "wb") as sink:
        with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
            writer.write_table(table)


def read_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def blocks_of(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Regroup the rows into tables of ``size`` rows; the last may be smaller."""
    held, rows = [], 0
    for table in tables:
        while len(table):
            part = table.slice(0, size - rows)
            table = table.slice(len(part))
            held.append(part)
            rows += len(part)
            if rows == size:
                yield pa.concat_tables(held)
                held, rows = [], 0
    if held:
        yield pa.concat_tables(held)
