"""Run a data recipe: stages over blocks of rows on disk, then Parquet files, counts and statistics.

A stage is one pass: a step that compares rows (key filter, cap, fit, sample; in the first stage the reading of the
sources) and the row-local steps after it. A stopped run of the same recipe resumes at the first unfinished block.

    OUT/data/train-00000-of-00004.parquet ...   counts.json counts.md stats.json stats.md recipe.yaml fitted.json
    OUT/.work/                                  during the run: a folder of blocks per stage

A block is a Parquet file of the parallel schema with the columns origin and row (a number that grows over the whole
corpus and never changes); its metadata has the counts of the steps. An existing block is finished.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

import hf_echo

from ...utils.executors import LocalExecutor, RayExecutor
from ...utils.files import json_once, make_once, only_run, read_json, write_json, write_whole
from ..schema import COLUMNS, OPTIONAL
from ..tables import BadRows
from . import statistics
from .compare import compare, entries
from .data_recipe import Recipe, Sampling, Step
from .statistics import Directions, Statistics, by_direction, in_and_kept
from .units import Unit, read_unit, units_of

BLOCK = 50_000  # rows of a block; a worker needs a few times the memory of its text
FILE_ROWS = 1_000_000  # rows of an output file, if the recipe gives no number of files
VERSION = 2  # of the blocks; raising it discards old work
META = b"hf_echo"
NOTE = "stage.json"  # in the folder of a finished stage: its blocks, counts and fitted values
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
    executor: LocalExecutor | RayExecutor | None = None,
    on_bad_row: str = "error",
    block: int = BLOCK,
    overwrite: bool = False,
    fresh: bool = False,
) -> Outcome:
    """Run a recipe into the folder ``out``; resume an earlier run of the same recipe that was stopped.

    Args:
        executor: `LocalExecutor` (default) or `RayExecutor`; both give the same result.
        on_bad_row: "error" stops at the first block with bad rows and names file and line (finished blocks stay);
            "skip" drops them and lists them in counts.json.
        overwrite: replace the result of another recipe (or of changed sources) in ``out``.
        fresh: discard the work of a stopped run, or make a finished result again.

    Raises:
        FileNotFoundError: a source does not exist.
        ValueError: bad rows; ``out`` holds another result, or a folder ``data`` that is no result; another run writes
            into it; no row is left.
    """
    BadRows(on_bad_row)
    out = Path(out)
    executor = executor or LocalExecutor()
    units = units_of(recipe.sources)
    key = _key(recipe, units, block)
    if (out / "data").exists() and _holds_result(out, key, overwrite) and not fresh:
        return _outcome(out)
    with only_run(out):
        work = _open_work(out, key, fresh)
        stages = stages_of(recipe)
        folders = [work / f"{number:02d}" for number in range(len(stages))]
        # A stage with a note is complete. The run continues after the last complete stage.
        finished = [number for number in range(len(stages)) if (folders[number] / NOTE).exists()]
        for number in range(max(finished, default=-1) + 1, len(stages)):
            barrier, steps = stages[number]
            folder = folders[number]
            folder.mkdir(exist_ok=True)
            if barrier is None:
                note = _read(steps, units, folder, executor, block, on_bad_row)
            else:
                note = _apply(barrier, steps, folders[number - 1], folder, executor)
            write_json(folder / NOTE, note)
            if number:
                shutil.rmtree(folders[number - 1])
            _write_counts(_counts_folder(out), note, None)
        _write_output(recipe, folders[-1], out, key)
        shutil.rmtree(work)
    return _outcome(out)


def _key(recipe: Recipe, units: Sequence[Unit], block: int) -> str:
    """What decides the result: a run with another key has another result."""
    sources = [(unit.path, unit.label, dict(unit.arguments), unit.identity) for unit in units]
    rules = (recipe.steps, recipe.sampling, recipe.out)
    text = repr((hf_echo.__version__, VERSION, block, sources, *rules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _holds_result(out: Path, key: str, overwrite: bool) -> bool:
    """Whether ``out/data`` is the result of this recipe. Raises ValueError if it may not be replaced."""
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


def stages_of(recipe: Recipe) -> list[tuple[Step | Sampling | None, list[Step]]]:
    """(the step that compares rows, or None for the sources; the row-local steps after it) of each stage."""
    plan: list[tuple[Any, list[Step]]] = [(None, [])]
    for step in recipe.steps:
        if step.kind in ("keys", "groups") or hasattr(step.work, "fit"):
            plan.append((step, []))
        else:
            plan[-1][1].append(step)
    return [*plan, (recipe.sampling, [])] if recipe.sampling else plan


def _read(
    steps: Sequence[Step],
    units: Sequence[Unit],
    folder: Path,
    executor: LocalExecutor | RayExecutor,
    size: int,
    on_bad_row: str,
) -> dict[str, Any]:
    """The first stage: all sources into blocks. Returns its note."""
    read = partial(read_blocks, folder=folder, steps=steps, size=size, on_bad_row=on_bad_row)
    for _ in executor.map(read, units, "Reading", _gpus(steps)):
        pass
    names = []
    bad_rows = []
    for unit in units:
        unit_note = read_json(folder / f"u{unit.number:04d}.json")
        names += unit_note["names"]
        if unit_note["bad"]:
            bad_rows.append(unit_note["bad"])
    note = _collect(folder, names)
    if not note["steps"]:
        raise ValueError(f"no good row in {', '.join(unit.path for unit in units[:5])}")
    return note | {"bad": bad_rows, "fitted": {}}


def read_blocks(
    unit: Unit, folder: Path, steps: Sequence[Step], size: int, on_bad_row: str
) -> None:
    """Read one source, apply the steps, write blocks ``u0003-00012.parquet`` and finally the note ``u0003.json``."""
    unit_note = folder / f"u{unit.number:04d}.json"
    if unit_note.exists():
        return
    bad = BadRows(on_bad_row)
    names = []
    first = unit.number << UNIT
    for table in _blocks_of(read_unit(unit, bad), size):
        name = f"u{unit.number:04d}-{len(names):05d}.parquet"
        names.append(name)
        if not (folder / name).exists():
            numbers = pa.array(np.arange(first, first + len(table), dtype=np.uint64))
            counts = by_direction(table)
            read_rows = [("sources", in_and_kept(counts, counts))]
            _write_block(folder / name, table.append_column("row", numbers), steps, read_rows)
        first += len(table)
    bad.report()
    reported = None
    if bad.reasons:
        reasons = dict(bad.reasons)
        reported = {"source": unit.path, "rows": bad.reasons.total(), "reasons": reasons}
        reported["first"] = bad.first
    write_json(unit_note, {"names": names, "bad": reported})


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


def _apply(
    step: Step | Sampling,
    later_steps: Sequence[Step],
    before: Path,
    folder: Path,
    executor: LocalExecutor | RayExecutor,
) -> dict[str, Any]:
    """A later stage: the step that compares or learns, and the row-local steps after it. Returns its note."""
    earlier = read_json(before / NOTE)
    names = [name for name, _ in earlier["blocks"]]
    title = step.name if isinstance(step, Step) else f"sample: {step.method}"
    if isinstance(step, Step) and hasattr(step.work, "fit"):
        tables = partial(_tables, step, before, names)
        fitted = json_once(folder / "fitted.json", lambda: asdict(step.work.fit(tables())))
        earlier["fitted"][f"{len(earlier['steps'])} {title}"] = fitted
        step = replace(step, work=type(step.work)(**fitted))

    if isinstance(step, Step) and step.kind in ("rows", "column"):
        copies = None
        local_steps = [step, *later_steps]
    else:
        copies = _compared(step, title, before, folder, names, executor)
        local_steps = later_steps

    apply = partial(
        apply_block, before=before, folder=folder, name=title, copies=copies, steps=local_steps
    )
    for _ in executor.map(apply, names, title, _gpus(local_steps)):
        pass
    note = _collect(folder, names)
    return earlier | note | {"steps": [*earlier["steps"], *note["steps"]]}


def _compared(
    step: Step | Sampling,
    title: str,
    before: Path,
    folder: Path,
    names: Sequence[str],
    executor: LocalExecutor | RayExecutor,
) -> Path:
    """The file of (row, copies) that `compare` writes: of a sample from the blocks, of a filter from their entries."""
    entries_folder = folder / "compared"
    files = [before / name for name in names]
    if isinstance(step, Step):
        entries_folder.mkdir(exist_ok=True)
        files = [entries_folder / name for name in names]
        for _ in executor.map(partial(write_entries, step, before), files, f"{title}: keys"):
            pass
    copies = make_once(folder / "copies.parquet", partial(compare, step, files))
    shutil.rmtree(entries_folder, ignore_errors=True)
    return copies


def write_entries(step: Step, before: Path, file: Path) -> None:
    make_once(
        file, lambda part: pq.write_table(entries(step, pq.read_table(before / file.name)), part)
    )


def apply_block(
    block: str, before: Path, folder: Path, name: str, copies: Path | None, steps: Sequence[Step]
) -> None:
    """Copy the rows of a block as often as ``copies`` says (once if it does not), apply the steps, write the block."""
    if (folder / block).exists():
        return
    table = pq.read_table(before / block)
    notes = []
    if copies is not None:
        earlier = by_direction(table)
        table = _repeated(table, copies)
        notes.append((name, in_and_kept(earlier, by_direction(table))))
    _write_block(folder / block, table, steps, notes)


def _repeated(table: pa.Table, copies: Path) -> pa.Table:
    if not len(table):
        return table
    rows = table["row"].to_numpy()
    span = [("row", ">=", int(rows[0])), ("row", "<=", int(rows[-1]))]
    changed = pq.read_table(copies, filters=span)
    times = np.ones(len(rows), np.int64)
    times[np.searchsorted(rows, changed["row"].to_numpy())] = changed["copies"].to_numpy()
    return table.take(pa.array(np.repeat(np.arange(len(rows)), times)))


def _write_block(
    path: Path, table: pa.Table, steps: Sequence[Step], notes: list[tuple[str, Directions]]
) -> None:
    """Apply the row-local steps and write the block; ``notes`` are the counts of what came before them."""
    counts = by_direction(table)
    for step in steps:
        table = run_step(step, table)
        earlier = counts
        counts = by_direction(table)
        notes.append((step.name, in_and_kept(earlier, counts)))
    negatives = pc.list_value_length(table["hard_negatives"])
    has_values = {
        "quality": table["quality"].null_count < len(table),
        "hard_negatives": bool(pc.any(pc.greater(negatives, 0)).as_py()),
    }
    note = json.dumps({"rows": len(table), "has": has_values, "steps": notes})
    table = table.select(SCHEMA.names).cast(SCHEMA).replace_schema_metadata({META: note})
    make_once(path, lambda part: pq.write_table(table, part, compression="lz4"))


def run_step(step: Step, table: pa.Table) -> pa.Table:
    """Apply a row filter or a column step to the rows that it concerns."""
    mask = step.concerns(table)
    if mask is None:
        mask = np.ones(len(table), bool)
    if not mask.any():
        return table
    part = table.filter(pa.array(mask))
    if step.kind == "rows":
        keep = np.ones(len(table), bool)
        keep[mask] = step.work.keep(part)
        return table.filter(pa.array(keep))

    changed = step.work.add(part)
    if len(changed) != len(part):
        raise ValueError(
            f"step {step.name}: a column step must keep its rows, but returned {len(changed)}"
        )
    # The rows that the step does not concern stay where they were among the others.
    others = table.filter(pa.array(~mask))
    both = [rows.select(SCHEMA.names).cast(SCHEMA) for rows in (changed, others)]
    order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
    return pa.concat_tables(both).take(pa.array(np.argsort(order)))


def _gpus(steps: Sequence[Step]) -> float:
    return max([getattr(step.work, "gpus", 0) for step in steps], default=0)


def _tables(step: Step, before: Path, names: list[str]) -> Iterator[pa.Table]:
    """The rows that the step concerns, for its fit."""
    for name in names:
        table = pq.read_table(before / name)
        mask = step.concerns(table)
        yield table if mask is None else table.filter(pa.array(mask))


def _collect(folder: Path, names: list[str]) -> dict[str, Any]:
    """The blocks with their rows, the counts of the steps, and whether each optional column has values."""
    notes = [json.loads(pq.read_schema(folder / name).metadata[META]) for name in names]
    return {
        "blocks": [(name, note["rows"]) for name, note in zip(names, notes)],
        "steps": statistics.add_up(note["steps"] for note in notes),
        "has": {column: any(note["has"][column] for note in notes) for column in OPTIONAL},
    }


def _write_output(recipe: Recipe, last: Path, out: Path, key: str) -> None:
    """Write the blocks of the last stage as files of nearly equal size, and what is told about them."""
    note = read_json(last / NOTE)
    rows = sum(count for _, count in note["blocks"])
    if not rows:
        steps = statistics.as_json(note["steps"])
        culprit = next(step["step"] for step in steps if not step["kept"])
        file = _counts_folder(out) / "counts.md"
        raise ValueError(
            f"no row is left after the step {culprit}; {file} shows the rows after each step"
        )
    columns = [*COLUMNS, *(name for name in OPTIONAL if note["has"][name])]
    if recipe.out.origin:
        columns.append("origin")
    folder = last / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    blocks = (pq.read_table(last / name, columns=columns) for name, _ in note["blocks"])
    tables = _blocks_of(blocks, BLOCK)
    files = min(rows, recipe.out.shards or math.ceil(rows / FILE_ROWS))
    for number in range(files):
        file = folder / f"train-{number:05d}-of-{files:05d}.parquet"
        size = rows * (number + 1) // files - rows * number // files
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
