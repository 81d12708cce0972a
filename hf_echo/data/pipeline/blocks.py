"""Worker functions: read or filter one block of rows. Rows go to Arrow files, counts to notes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm.auto import tqdm

from ...utils.files import read_json, write_json
from ...utils.resume import make_once
from ..tables import BadRows
from .counts import by_direction, in_and_kept
from .entries import sample_groups
from .recipe import Sampling, Step
from .shards import SCHEMA, blocks_of, read_table, write_table
from .sources import Unit, read_unit


def read_blocks(unit: Unit, folder: Path, steps: Sequence[Step], size: int, on_bad_row: str, progress: bool) -> None:
    """Read one source, apply the steps, write blocks ``u0003-00012`` and finally the note ``u0003.unit``."""
    done = folder / f"u{unit.number:04d}.unit"
    if done.exists():
        return
    bad, names, raw = BadRows(on_bad_row), [], 0
    bar = tqdm(desc=f"Reading {unit.label}", unit="row", disable=None if progress else True, leave=False)
    for table in blocks_of(read_unit(unit, bad), size):
        names.append(f"u{unit.number:04d}-{len(names):05d}")
        raw += len(table)
        bar.update(len(table))
        if not (folder / f"{names[-1]}.json").exists():
            counts = by_direction(table)
            _finish(folder, names[-1], table, steps, [("sources", in_and_kept(counts, counts))])
    bar.close()
    bad.report()
    about = {
        "source": unit.path,
        "rows": bad.reasons.total(),
        "reasons": dict(bad.reasons),
        "first": bad.first,
    }
    write_json(done, {"names": names, "rows": raw, "bad": about if bad.reasons else None})


def apply_block(
    item: tuple[str, int],
    source: Path,
    folder: Path,
    barrier: tuple[str, str] | None,
    copies: tuple[Sampling, Mapping[str, int]] | None,
    steps: Sequence[Step],
) -> None:
    """Select a block's rows by ``flags``, then apply the row-local steps.

    Args:
        barrier: (name, file of flags) of the step that compared rows.
        copies: for a sample, group -> copies of each of its rows in addition to the flag.
    """
    name, first = item
    if (folder / f"{name}.json").exists():
        return
    table, notes = read_table(source / f"{name}.arrow"), []
    if barrier:
        before = by_direction(table)
        flags = np.load(barrier[1], mmap_mode="r")[first : first + len(table)].astype(np.int64)
        if copies:
            flags += _copies(table, *copies)
        table = table.take(pa.array(np.repeat(np.arange(len(table)), flags)))
        notes.append((barrier[0], in_and_kept(before, by_direction(table))))
    _finish(folder, name, table, steps, notes)


def _copies(table: pa.Table, sampling: Sampling, of_group: Mapping[str, int]) -> np.ndarray:
    encoded = sample_groups(sampling, table).dictionary_encode()
    copies = np.array([of_group[name] for name in encoded.dictionary.to_pylist()], np.int64)
    return copies[encoded.indices.to_numpy()] if len(table) else copies


def _finish(folder: Path, name: str, table: pa.Table, steps: Sequence[Step], notes: list) -> None:
    for step in steps:
        before = by_direction(table)
        table = run_step(step, table)
        notes.append((step.name, in_and_kept(before, by_direction(table))))
    has = {
        "quality": table["quality"].null_count < len(table),
        "hard_negatives": bool(pc.any(pc.greater(pc.list_value_length(table["hard_negatives"]), 0)).as_py()),
    }
    write_table(folder / f"{name}.arrow", table)
    write_json(folder / f"{name}.json", {"rows": len(table), "has": has, "steps": notes})


def run_step(step: Step, table: pa.Table) -> pa.Table:
    """Apply a row filter or a column step to the rows that it concerns."""
    if not len(table):
        return table
    mask = step.concerns(table)
    part = table if mask is None else table.filter(pa.array(mask))
    if not len(part):
        return table
    if step.kind == "column":
        return _put_back(table, mask, _checked(step, step.work.add(part), len(part)))
    keep = np.asarray(step.work.keep(part))
    if keep.dtype != bool or keep.shape != (len(part),):
        raise ValueError(f"step {step.name}: keep returned {keep.dtype}{keep.shape}, not bool({len(part)},)")
    if mask is not None:
        everybody = np.ones(len(table), bool)
        everybody[mask] = keep
        keep = everybody
    return table if keep.all() else table.filter(pa.array(keep))


def _checked(step: Step, table: pa.Table, rows: int) -> pa.Table:
    if len(table) != rows:
        raise ValueError(f"step {step.name}: a column step must keep its {rows} rows, but returned {len(table)}")
    return table.select(SCHEMA.names).cast(SCHEMA)


def _put_back(table: pa.Table, mask: np.ndarray | None, part: pa.Table) -> pa.Table:
    if mask is None:
        return part
    both = pa.concat_tables([part, table.filter(pa.array(~mask)).cast(SCHEMA)])
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    return both.take(pa.array(np.argsort(order)))


def write_file(
    item: tuple[str, Sequence[tuple[str, int, int]]], source: Path, folder: Path, columns: Sequence[str]
) -> None:
    """Write one Parquet file of the result; pieces: (block, from row, to row)."""
    import pyarrow.parquet as pq

    name, pieces = item
    schema = pa.schema([SCHEMA.field(column) for column in columns])
    tables = (read_table(source / f"{b}.arrow").slice(start, end - start).select(columns) for b, start, end in pieces)

    def write(part: Path) -> None:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for table in blocks_of(tables, 50_000):
                writer.write_table(table.combine_chunks(), row_group_size=50_000)

    make_once(folder / name, write)


def note_of(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / f"{name}.json")
