"""Run a data recipe: stages over blocks of rows on disk, then Parquet files, counts and statistics.

The first stage reads the sources, and each step is a stage of its own. A stopped run of the same
recipe resumes at the first unfinished block.

    OUT/data/train-00000-of-00004.parquet ...   counts.json counts.md stats.json stats.md recipe.yaml fitted.json
    OUT/.work/                                  during the run: a folder of blocks per stage

A block is a Parquet file of the parallel schema with the columns origin and row
(a number that grows over the whole corpus and never changes). An existing block is finished.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import hf_echo

from ...utils.executors import LocalExecutor, RayExecutor
from ...utils.files import (
    json_once,
    make_once,
    only_run,
    read_json,
    short_hash,
    write_json,
    write_whole,
)
from ..schema import COLUMNS
from ..tables import BadRows
from . import statistics
from .compare import compare, entries
from .data_recipe import Recipe, Sampling, Step
from .statistics import Statistics
from .units import Unit, read_unit, units_of

BLOCK = 50_000  # rows of a block; a worker needs a few times the memory of its text
FILE_ROWS = 1_000_000  # rows of an output file, if the recipe gives no number of files
VERSION = 3  # of the blocks; raising it discards old work
# In the folder of a finished stage: the counts so far, bad rows and fitted values.
NOTE = "stage.json"
BLOCKS = "u*.parquet"
UNIT = 40  # bits of a row number that count rows of one unit
SCHEMA = pa.schema(
    [(name, pa.string()) for name in COLUMNS]
    + [
        ("hard_negatives", pa.list_(pa.string())),
        ("quality", pa.float64()),
        ("origin", pa.string()),
    ]
    + [("row", pa.uint64())]
)
Executor = LocalExecutor | RayExecutor


@dataclass(frozen=True)
class Outcome:
    """Result of a run: the folder with ``data/``, its number of rows, the counts of each step."""

    folder: Path
    rows: int
    steps: list[dict[str, Any]]


def run(
    recipe: Recipe,
    out: str | Path,
    *,
    executor: Executor | None = None,
    on_bad_row: str = "error",
    block: int = BLOCK,
    overwrite: bool = False,
    fresh: bool = False,
) -> Outcome:
    """Run a recipe into the folder ``out``; resume an earlier run of the same recipe that was
    stopped.

    Args:
        executor: `LocalExecutor` (default) or `RayExecutor`; both give the same result.
        on_bad_row: "error" stops at the first block with bad rows and names file and line
            (finished blocks stay); "skip" drops them and lists them in counts.json.
        overwrite: replace the result of another recipe (or of changed sources) in ``out``.
        fresh: discard the work of a stopped run, or make a finished result again.

    Raises:
        FileNotFoundError: a source does not exist.
        ValueError: bad rows; ``out`` holds another result, or a folder ``data`` that is no result;
            another run writes into it; no row is left.
    """
    out = Path(out)
    executor = executor or LocalExecutor()
    units = units_of(recipe.sources)
    key = _key(recipe, units, block)
    if (out / "data").exists() and _holds_result(out, key, overwrite) and not fresh:
        return _outcome(out)
    with only_run(out):
        work = _open_work(out, key, fresh)
        stages = [*recipe.steps]
        if recipe.sampling is not None:
            stages.append(recipe.sampling)
        folders = [work / f"{number:02d}" for number in range(len(stages) + 1)]
        # A stage with a note is complete. The run continues after the last complete stage.
        finished = [number for number, folder in enumerate(folders) if (folder / NOTE).exists()]
        for number in range(max(finished, default=-1) + 1, len(folders)):
            folder = folders[number]
            folder.mkdir(exist_ok=True)
            if number == 0:
                note = _read(units, folder, executor, block, on_bad_row)
            else:
                note = _apply(stages[number - 1], folders[number - 1], folder, executor)
            write_json(folder / NOTE, note)
            if number > 0:
                shutil.rmtree(folders[number - 1])
            _write_counts(_counts_folder(out), note, None)
        _write_output(recipe, folders[-1], out, key)
        shutil.rmtree(work)
    return _outcome(out)


def _key(recipe: Recipe, units: Sequence[Unit], block: int) -> str:
    """What decides the result: a run with another key has another result."""
    sources = [(unit.path, unit.label, dict(unit.arguments), unit.identity) for unit in units]
    rules = (recipe.steps, recipe.sampling, recipe.out)
    # Another version of the package may filter the same rows otherwise.
    text = repr((hf_echo.__version__, VERSION, block, sources, *rules))
    return short_hash(text)


def _holds_result(out: Path, key: str, overwrite: bool) -> bool:
    """Whether ``out/data`` is the result of this recipe.
    Raises ValueError if it may not be replaced."""
    if not (out / "counts.json").exists():
        raise ValueError(f"{out / 'data'} was not made here: give another folder")
    is_same = read_json(out / "counts.json")["key"] == key
    if not is_same and not overwrite:
        fix = "give another folder, or overwrite it"
        raise ValueError(f"{out} holds the result of another recipe or of changed sources: {fix}")
    return is_same


def _open_work(out: Path, key: str, fresh: bool) -> Path:
    """The folder of blocks, without the blocks of another recipe."""
    work = out / ".work"
    if fresh or (work.exists() and json_once(work / "key.json", str) != key):
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / "key.json", key)
    return work


def _counts_folder(out: Path) -> Path:
    """Earlier data keep their counts beside them until new data replace them."""
    return out / ".work" if (out / "data").exists() else out


def _read(
    units: Sequence[Unit], folder: Path, executor: Executor, size: int, on_bad_row: str
) -> dict[str, Any]:
    """The first stage: all sources into blocks. Returns its note."""
    read = partial(read_blocks, folder=folder, size=size, on_bad_row=on_bad_row)
    list(executor.map(read, units, "Reading"))
    bad_rows = []
    for unit in units:
        bad_of_unit = read_json(folder / f"u{unit.number:04d}.json")
        if bad_of_unit:
            bad_rows.append(bad_of_unit)
    counts = statistics.by_direction(folder.glob(BLOCKS))
    if not counts:
        raise ValueError(f"no good row in {', '.join(unit.path for unit in units[:5])}")
    return {"steps": [("sources", counts)], "bad": bad_rows, "fitted": {}}


def read_blocks(unit: Unit, folder: Path, size: int, on_bad_row: str) -> None:
    """Read one source into blocks ``u0003-00012.parquet``, then write its bad rows, if any,
    into ``u0003.json``."""
    note = folder / f"u{unit.number:04d}.json"
    if note.exists():
        return
    bad = BadRows(on_bad_row)
    first = unit.number << UNIT
    for number, table in enumerate(_blocks_of(read_unit(unit, bad), size)):
        rows = pa.array(np.arange(first, first + len(table), dtype=np.uint64))
        file = folder / f"u{unit.number:04d}-{number:05d}.parquet"
        make_once(file, partial(_write_block, table.append_column("row", rows)))
        first += len(table)
    bad.report()
    bad_rows = None
    if bad.reasons:
        bad_rows = {
            "source": unit.path,
            "rows": bad.reasons.total(),
            "reasons": dict(bad.reasons),
            "first": bad.first,
        }
    write_json(note, bad_rows)


def _blocks_of(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Regroup the rows into tables of ``size`` rows; the last may be smaller."""
    held = []
    rows = 0
    for table in tables:
        while len(table):
            part = table.slice(0, size - rows)
            table = table.slice(len(part))
            held.append(part)
            rows += len(part)
            if rows == size:
                yield pa.concat_tables(held)
                held = []
                rows = 0
    if held:
        yield pa.concat_tables(held)


def _apply(step: Step | Sampling, before: Path, folder: Path, executor: Executor) -> dict[str, Any]:
    """A later stage: one step on the blocks of the stage before. Returns its note."""
    note = read_json(before / NOTE)
    files = sorted(before.glob(BLOCKS))
    title = step.name if isinstance(step, Step) else f"sample: {step.method}"
    # A filter that learns sees all rows that it will judge.
    if isinstance(step, Step) and hasattr(step.work, "fit"):
        tables = partial(_tables, step, files)
        fitted = json_once(folder / "fitted.json", lambda: asdict(step.work.fit(tables())))
        note["fitted"][f"{len(note['steps'])} {title}"] = fitted
        step = replace(step, work=type(step.work)(**fitted))

    gpus = 0
    if isinstance(step, Step) and step.kind in ("rows", "column"):
        change = partial(run_step, step)
        gpus = getattr(step.work, "gpus", 0)
    else:
        change = partial(_repeated, _compared(step, title, files, folder, executor))
    list(executor.map(partial(apply_block, change=change, folder=folder), files, title, gpus))
    note["steps"].append((title, statistics.by_direction(folder.glob(BLOCKS))))
    return note


def _compared(
    step: Step | Sampling, title: str, files: Sequence[Path], folder: Path, executor: Executor
) -> Path:
    """The file of (row, copies) that `compare` writes:
    of a sample from the blocks, of a filter from their entries."""
    entries_folder = folder / "compared"
    if isinstance(step, Step):
        entries_folder.mkdir(exist_ok=True)
        write = partial(write_entries, step=step, folder=entries_folder)
        list(executor.map(write, files, f"{title}: keys"))
        files = [entries_folder / file.name for file in files]
    copies = make_once(folder / "copies.parquet", partial(compare, step, files))
    shutil.rmtree(entries_folder, ignore_errors=True)
    return copies


def write_entries(file: Path, step: Step, folder: Path) -> None:
    def write(unfinished: Path) -> None:
        pq.write_table(entries(step, pq.read_table(file)), unfinished)

    make_once(folder / file.name, write)


def apply_block(file: Path, change: Callable[[pa.Table], pa.Table], folder: Path) -> None:
    """Write a block of the next stage."""
    make_once(
        folder / file.name,
        lambda unfinished: _write_block(change(pq.read_table(file)), unfinished),
    )


def _write_block(table: pa.Table, unfinished: Path) -> None:
    pq.write_table(table.select(SCHEMA.names).cast(SCHEMA), unfinished, compression="lz4")


def _repeated(copies: Path, table: pa.Table) -> pa.Table:
    """The rows of a block, each as often as `copies` says; once if it does not say."""
    if not len(table):
        return table
    rows = table["row"].to_numpy()
    span = [("row", ">=", int(rows[0])), ("row", "<=", int(rows[-1]))]
    changed = pq.read_table(copies, filters=span)
    times = np.ones(len(rows), np.int64)
    times[np.searchsorted(rows, changed["row"].to_numpy())] = changed["copies"].to_numpy()
    return table.take(pa.array(np.repeat(np.arange(len(rows)), times)))


def run_step(step: Step, table: pa.Table) -> pa.Table:
    """Apply a row filter or a column step to the rows that it concerns."""
    mask = step.concerns(table)
    if not mask.any():
        return table
    # The step sees only the rows that it concerns.
    part = table.filter(pa.array(mask))
    if step.kind == "rows":
        keep = np.ones(len(table), bool)
        keep[mask] = step.work.keep(part)
        return table.filter(pa.array(keep))

    changed = step.work.add(part)
    # The rows that the step does not concern stay where they were among the others.
    others = table.filter(pa.array(~mask))
    both = [rows.select(SCHEMA.names).cast(SCHEMA) for rows in (changed, others)]
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    return pa.concat_tables(both).take(pa.array(np.argsort(order)))


def _tables(step: Step, files: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows that the step concerns, for its fit."""
    for file in files:
        table = pq.read_table(file)
        yield table.filter(pa.array(step.concerns(table)))


def _write_output(recipe: Recipe, last: Path, out: Path, key: str) -> None:
    """Write the blocks of the last stage as files of nearly equal size,
    and what is told about them."""
    note = read_json(last / NOTE)
    steps = statistics.as_json(note["steps"])
    rows = steps[-1]["kept"]
    if not rows:
        culprit = next(step["step"] for step in steps if not step["kept"])
        file = _counts_folder(out) / "counts.md"
        raise ValueError(
            f"no row is left after the step {culprit}; {file} shows the rows after each step"
        )
    files = sorted(last.glob(BLOCKS))
    columns = [*COLUMNS, *statistics.columns_with_values(files)]
    if recipe.out.origin:
        columns.append("origin")
    folder = last / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tables = _blocks_of((pq.read_table(file, columns=columns) for file in files), BLOCK)
    shards = min(rows, recipe.out.shards or math.ceil(rows / FILE_ROWS))
    for number in range(shards):
        file = folder / f"train-{number:05d}-of-{shards:05d}.parquet"
        size = rows * (number + 1) // shards - rows * number // shards
        tables = _write_file(file, tables, size)
    with duckdb.connect() as db:
        db.register("rows", pyarrow.dataset.dataset(str(folder)))
        measured = Statistics.of(db.execute(statistics.COUNT).fetchall())

    # Earlier data go when everything of the new ones is ready.
    shutil.rmtree(out / "data", ignore_errors=True)
    (out / "stats.md").write_text(measured.to_markdown(), encoding="utf-8")
    (out / "recipe.yaml").write_text(recipe.text, encoding="utf-8")
    write_json(out / "stats.json", measured.to_json())
    write_json(out / "fitted.json", note["fitted"])
    _write_counts(out, note, key)
    folder.rename(out / "data")


def _write_file(path: Path, tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Write the next rows; returns the tables that are left."""
    # A file begins where the one before has ended, also inside of a table.
    writer = None
    while rows:
        table = next(tables)
        writer = writer or pq.ParquetWriter(
            path, table.schema.remove_metadata(), compression="zstd"
        )
        writer.write_table(table.slice(0, rows).replace_schema_metadata(None).combine_chunks())
        if len(table) > rows:
            tables = chain([table.slice(rows)], tables)
        rows -= min(rows, len(table))
    writer.close()
    return tables


def _write_counts(out: Path, note: dict[str, Any], key: str | None) -> None:
    steps = statistics.as_json(note["steps"])
    write_json(out / "counts.json", {"key": key, "steps": steps, "bad_rows": note["bad"]})
    with write_whole(out / "counts.md") as part:
        part.write_text(statistics.as_markdown(steps), encoding="utf-8")


def _outcome(out: Path) -> Outcome:
    steps = read_json(out / "counts.json")["steps"]
    return Outcome(out, steps[-1]["kept"], steps)
