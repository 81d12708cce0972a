"""Run a data recipe: stages over blocks on disk, then Parquet files, counts and statistics.

A stage is one pass: a step that compares rows (key filter, cap, fit, sample; in the first stage the reading of the
sources) and the row-local steps after it. The name of its folder is a hash of everything that its rows depend on
(sources with size and time, steps with all fields, the version), so a changed recipe never uses old blocks. A stopped
run resumes at the first unfinished block of its first unfinished stage.

    OUT/data/train-00000-of-00004.parquet ...   counts.json counts.md stats.json stats.md recipe.yaml fitted.json
    OUT/.work/00-1f0c.../                       during the run; kept with keep_work
"""

from __future__ import annotations

import hashlib
import math
import pickle
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm.auto import tqdm

import hf_echo

from ...utils.executors import LocalExecutor
from ...utils.files import read_json, write_json, write_whole
from ...utils.resume import json_once, make_once
from ..schema import COLUMNS, OPTIONAL
from . import counts
from .blocks import apply_block, note_of, read_blocks, write_file
from .decide import Blocks, decide
from .recipe import Recipe, Sampling, Step
from .shards import read_table
from .sources import Unit, units_of
from .statistics import Statistics, collect_statistics

BLOCK = 50_000  # rows of a block; a worker needs a few times the memory of its text
FILE_ROWS = 1_000_000  # rows of an output file, if the recipe gives no number of files
VERSION = 1  # of the stages' output; raising it discards old work


@dataclass(frozen=True)
class Stage:
    barrier: Step | Sampling | None  # None: the sources
    steps: tuple[Step, ...]
    key: str

    @property
    def name(self) -> str:
        if self.barrier is None:
            return "sources"
        return self.barrier.name if isinstance(self.barrier, Step) else f"sample: {self.barrier.method}"


@dataclass(frozen=True)
class Outcome:
    """Result of a run: the folder with ``data/``, its number of rows, the counts of each step, the statistics."""

    folder: Path
    rows: int
    steps: list[dict[str, Any]]
    statistics: Statistics


def run(
    recipe: Recipe,
    out: str | Path,
    *,
    executor: Any = None,
    on_bad_row: str = "error",
    block: int = BLOCK,
    keep_work: bool = False,
    overwrite: bool = False,
    fresh: bool = False,
) -> Outcome:
    """Run a recipe into the folder ``out``; resume an earlier run of the same recipe that was stopped.

    Args:
        executor: `LocalExecutor` (default) or `RayExecutor`; both give the same result.
        on_bad_row: "error" stops at the first block with bad rows and names file and line (finished blocks stay);
            "skip" drops them and lists them in counts.json.
        keep_work: keep the blocks of every stage, so that a recipe that differs only in a late step resumes there.
            Otherwise a stage's blocks are deleted when the next stage is done.
        overwrite: replace the result of another recipe (or of changed sources) in ``out``.
        fresh: discard the work of a stopped run.

    Raises:
        FileNotFoundError: a source does not exist.
        ValueError: bad rows; ``out`` holds another result, or a folder ``data`` that is no result; no row is left.
    """
    out, executor = Path(out), executor or LocalExecutor()
    units = units_of(recipe.sources)
    stages = stages_of(recipe, units, block)
    key = _digest(stages[-1].key, recipe.out)
    if (out / "data").exists() and not fresh and _key_of(out) == key:
        return _outcome(out)
    if (out / "data").exists() and not (out / "counts.json").exists():
        raise ValueError(f"{out / 'data'} was not made here: give another folder")
    if (out / "data").exists() and not overwrite:
        fix = "give another folder, or overwrite it"
        raise ValueError(f"{out} holds the result of another recipe or of changed sources: {fix}")
    work = out / ".work"
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    folders = [work / f"{number:02d}-{stage.key}" for number, stage in enumerate(stages)]
    done = max((i for i, folder in enumerate(folders) if (folder / "stage.json").exists()), default=-1)
    for number in range(done + 1, len(stages)):
        folders[number].mkdir(parents=True, exist_ok=True)
        if number == 0:
            note = _read(stages[0], units, folders[0], executor, block, on_bad_row)
        else:
            note = _apply(stages[number], folders[number - 1], folders[number], executor)
        write_json(folders[number] / "stage.json", note)
        shutil.rmtree(folders[number] / "compared", ignore_errors=True)
        if number and not keep_work:
            shutil.rmtree(folders[number - 1])
        _write_counts(work if (out / "data").exists() else out, note, None)  # earlier data keep their counts
    _write_output(recipe, folders[-1], out, key, executor)
    if not keep_work:
        shutil.rmtree(work)
    return _outcome(out)


def stages_of(recipe: Recipe, units: Sequence[Unit], block: int) -> list[Stage]:
    """The stages of a recipe; the key of each depends on all stages before it."""
    plan: list[tuple[Any, list[Step]]] = [(None, [])]
    for step in recipe.steps:
        if step.kind in ("keys", "groups") or hasattr(step.work, "fit"):
            plan.append((step, []))
        else:
            plan[-1][1].append(step)
    if recipe.sampling:
        plan.append((recipe.sampling, []))
    sources = [(unit.path, unit.label, dict(unit.arguments), unit.identity) for unit in units]
    stages, key = [], _digest(hf_echo.__version__, VERSION, block, sources)
    for barrier, steps in plan:
        key = _digest(key, barrier, steps)
        stages.append(Stage(barrier, tuple(steps), key))
    return stages


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _read(stage: Stage, units, folder: Path, executor, block: int, on_bad_row: str) -> dict[str, Any]:
    read = partial(
        read_blocks,
        folder=folder,
        steps=stage.steps,
        size=block,
        on_bad_row=on_bad_row,
        progress=executor.local and executor.progress,
    )
    for _ in executor.map(read, units, "Reading", _gpus(stage)):
        pass
    notes = [read_json(folder / f"u{unit.number:04d}.unit") for unit in units]
    names = [name for note in notes for name in note["names"]]
    steps, blocks, has = _collect(folder, names)
    if not steps:
        raise ValueError(f"no good row in {', '.join(unit.path for unit in units[:5])}")
    bad = [note["bad"] for note in notes if note["bad"]]
    return {"blocks": blocks, "steps": steps, "has": has, "bad": bad, "fitted": {}}


def _apply(stage: Stage, before: Path, folder: Path, executor) -> dict[str, Any]:
    old = read_json(before / "stage.json")
    names, rows = [name for name, _ in old["blocks"]], [count for _, count in old["blocks"]]
    firsts = [0, *accumulate(rows)][:-1]
    blocks, barrier, steps, copies = Blocks(before, names, firsts, sum(rows)), None, stage.steps, None
    step = stage.barrier
    if hasattr(getattr(step, "work", None), "fit"):
        step = _fit(step, before, names, folder, executor.progress)
        old["fitted"][f"{len(old['steps'])} {step.name}"] = asdict(step.work)
    if isinstance(step, Step) and step.kind in ("rows", "column"):
        steps = (step, *steps)
    else:
        flags = folder / "compared" / "flags.npy"
        extra = json_once(folder / "copies.json", lambda: decide(step, blocks, flags.parent, executor, stage.name))
        barrier = (stage.name, str(flags))
        copies = (step, extra) if isinstance(step, Sampling) else None
    apply = partial(apply_block, source=before, folder=folder, barrier=barrier, copies=copies, steps=steps)
    for _ in executor.map(apply, list(zip(names, firsts)), stage.name, _gpus(stage)):
        pass
    new, blocks, has = _collect(folder, names)
    return old | {"blocks": blocks, "steps": [*old["steps"], *new], "has": has}


def _gpus(stage: Stage) -> float:
    return max([getattr(step.work, "gpus", 0) for step in stage.steps], default=0)


def _fit(step: Step, before: Path, names: list[str], folder: Path, progress: bool) -> Step:
    """The step with its filter fitted on the rows that reach it; fitted once per run."""

    def tables():
        for name in tqdm(names, f"{step.name}: fit", unit="part", disable=None if progress else True):
            table = read_table(before / f"{name}.arrow")
            mask = step.concerns(table)
            yield table if mask is None else table.filter(pa.array(mask))

    path = make_once(folder / "fitted.pickle", lambda part: part.write_bytes(pickle.dumps(step.work.fit(tables()))))
    return replace(step, work=pickle.loads(path.read_bytes()))


def _collect(folder: Path, names: list[str]) -> tuple[list, list, dict[str, bool]]:
    """(counts of the steps, (name, rows) of the blocks, optional column -> whether it has values)."""
    notes = [note_of(folder, name) for name in names]
    steps = counts.add_up(note["steps"] for note in notes)
    blocks = [(name, note["rows"]) for name, note in zip(names, notes)]
    return steps, blocks, {column: any(note["has"][column] for note in notes) for column in OPTIONAL}


def _write_output(recipe: Recipe, last: Path, out: Path, key: str, executor) -> None:
    note = read_json(last / "stage.json")
    rows = sum(count for _, count in note["blocks"])
    if not rows:
        steps = counts.as_json(note["steps"])
        culprit = next(step["step"] for step in steps if not step["kept"])
        file = (out / ".work" if (out / "data").exists() else out) / "counts.md"
        raise ValueError(f"no row is left after the step {culprit}; {file} shows the rows after each step")
    files = min(rows, recipe.out.shards or math.ceil(rows / FILE_ROWS))
    columns = [*COLUMNS, *(c for c in OPTIONAL if note["has"][c]), *(["origin"] if recipe.out.origin else [])]
    folder = last / "data"
    folder.mkdir(exist_ok=True)
    write = partial(write_file, source=last, folder=folder, columns=columns)
    for _ in executor.map(write, _pieces(note["blocks"], rows, files), "Writing"):
        pass
    measured = collect_statistics([folder], executor=executor)
    shutil.rmtree(out / "data", ignore_errors=True)
    for name, text in (("stats.md", measured.to_markdown()), ("recipe.yaml", recipe.text)):
        (out / name).write_text(text, encoding="utf-8")
    write_json(out / "stats.json", measured.to_json())
    write_json(out / "fitted.json", note["fitted"])
    _write_counts(out, note, key)
    folder.rename(out / "data")


def _pieces(blocks: Sequence[tuple[str, int]], rows: int, files: int) -> list[tuple[str, list]]:
    """(name, [(block, from row, to row)]) of each file; the files' numbers of rows differ by at most one."""
    edges, plan, first = [rows * i // files for i in range(files + 1)], [], 0
    spans = []
    for name, count in blocks:
        spans.append((name, first, first + count))
        first += count
    at = 0
    for number, (start, end) in enumerate(zip(edges, edges[1:])):
        pieces = []
        while at < len(spans) and spans[at][1] < end:
            name, low, high = spans[at]
            if high > start:
                pieces.append((name, max(start, low) - low, min(end, high) - low))
            if high > end:
                break
            at += 1
        plan.append((f"train-{number:05d}-of-{files:05d}.parquet", pieces))
    return plan


def _write_counts(out: Path, note: dict[str, Any], key: str | None) -> None:
    steps = counts.as_json(note["steps"])
    write_json(out / "counts.json", {"key": key, "steps": steps, "bad_rows": note["bad"]})
    with write_whole(out / "counts.md") as part:
        part.write_text(counts.as_markdown(steps), encoding="utf-8")


def _key_of(out: Path) -> str | None:
    return read_json(out / "counts.json")["key"] if (out / "counts.json").exists() else None


def _outcome(out: Path) -> Outcome:
    steps = read_json(out / "counts.json")["steps"]
    return Outcome(out, steps[-1]["kept"], steps, Statistics.from_json(read_json(out / "stats.json")))
