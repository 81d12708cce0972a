"""Run the steps of a journey in order: a finished one is recognised by what it recorded,
and not done again."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..utils.fingerprint import fingerprint, sha256
from ..utils.hub import may_be_on_hub, packaged_model
from ..utils.lineage import read_lineage
from ..utils.settings import CHECKPOINT, DATA, check_outputs
from .dry_run import dry_run
from .recipe import Training, check_overrides, earlier_steps, known_overrides, read_recipe
from .record import read_record
from .step import Operation, is_missing
from .training import train_recipe

logger = logging.getLogger(__name__)

# Fields of a stage's recipe that name a checkpoint.
CHECKPOINTS = (
    *("model_name_or_path", "decoder", "tokenizer_name_or_path"),
    *("teacher", "guide", "base_languages_of"),
)


def run_journey(
    paths: Sequence[Path],
    overrides: dict[str, Any] | None = None,
    *,
    fresh: bool = False,
    changed_data: bool = False,
) -> Iterator[dict[str, Any]]:
    """Carry out the steps (of `find_recipes`) in order; yields the results of each. All are checked
    before the first.

    `overrides`: a single recipe takes all of them, each of several those that it has a field for.
    """
    steps = [
        (path, values, read_recipe(path, values))
        for path, values in _with_overrides(paths, overrides)
    ]
    _check_together({path: step for path, _, step in steps})
    for path, values, step in steps:
        if isinstance(step, Operation):
            yield run_operation(path, values, fresh=fresh)
        else:
            yield train_recipe(path, values, fresh=fresh, changed_data=changed_data)


def describe_journey(
    paths: Sequence[Path], overrides: dict[str, Any] | None = None, *, downloads: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield what each step would do, without doing it; what an earlier step makes, or a download,
    counts as an input.

    `downloads`: folders that are downloaded before the first step.
    """
    journey = paths if len(paths) > 1 else None
    for path, values in _with_overrides(paths, overrides):
        if isinstance(read_recipe(path, values), Operation):
            # As in `dry_run`: overrides of a single recipe are not those of its neighbours.
            others = (overrides or {}) if journey else {}
            outputs_before = [*downloads]
            for step in earlier_steps(path, journey):
                output = read_recipe(step, known_overrides(step, others)).output_dir
                outputs_before.append(str(output))
            yield describe_operation(path, values, outputs_before=outputs_before)
        else:
            yield dry_run(path, overrides if journey else values, journey=journey)


def _check_together(steps: Mapping[Path, Training | Operation]) -> None:
    """Raises where a later step would: it lacks what nobody makes,
    or two steps write one folder."""
    steps_by_folder: dict[Path, Path] = {}
    for path, step in steps.items():
        problems: Iterator[str] = iter(())
        if isinstance(step, Operation):
            problems = _input_problems(step, steps_by_folder)
        elif len(steps) > 1:  # a stage alone says it when it reads its data
            problems = _stage_problems(step, set(steps_by_folder))
        problem = next(problems, None)
        if problem is not None:
            raise FileNotFoundError(f"{path}: {problem}")
        other = steps_by_folder.setdefault(Path(step.output_dir), path)
        if other != path:
            raise ValueError(
                f"{path}: output_dir {step.output_dir!r} is that of {other} too: each step has its own"
            )


def _with_overrides(
    paths: Sequence[Path], overrides: dict[str, Any] | None
) -> list[tuple[Path, dict[str, Any]]]:
    """(recipe, its overrides) of each recipe; of several, each gets the fields that it has."""
    if len(paths) == 1:
        return [(paths[0], overrides or {})]
    check_overrides(paths, overrides or {})
    return [(path, known_overrides(path, overrides or {})) for path in paths]


def run_operation(
    path: Path, overrides: dict[str, Any] | None = None, *, fresh: bool = False
) -> dict[str, Any]:
    """Carry out an operation, unless its folder holds the result of the same one (and not `fresh`);
    what it counted."""
    operation = _operation(path, overrides)
    # Two processes would write one folder.
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(
            f"{path}: an operation runs in one process: start it without torchrun or accelerate"
        )
    problem = next(_input_problems(operation, ()), None)
    if problem is not None:
        raise FileNotFoundError(f"{path}: {problem}")
    check_outputs(operation)
    # Two runs would replace each other's files.
    with operation.alone():
        # The same command twice does the work once.
        if not fresh and is_made(operation):
            logger.info(
                "%s is made already (%s); --fresh makes it again", path.stem, operation.output_dir
            )
        else:
            logger.info("%s: %s", path.stem, operation.operation)
            operation.make()
        # A run that was stopped before its card gets it now.
        operation.write_card()
    return {"operation": operation.operation, **operation.counted()}


def describe_operation(
    path: Path, overrides: dict[str, Any] | None = None, *, outputs_before: Iterable[str] = ()
) -> dict[str, Any]:
    """What an operation would do, and "problems" (inputs, output); `outputs_before`:
    folders of earlier steps."""
    operation = _operation(path, overrides)
    reads = operation.names(CHECKPOINT) | operation.names(DATA)
    report: dict[str, Any] = {"recipe": path.stem, "operation": operation.operation, "reads": reads}
    report |= {"settings": operation.names(None), "output_dir": operation.output_dir}
    problems = [*_input_problems(operation, [Path(name) for name in outputs_before])]
    try:
        check_outputs(operation)
        # Settings and inputs are compared where all inputs are here.
        if not problems and all(
            Path(name).exists() for name in operation.names(CHECKPOINT).values()
        ):
            report["made already"] = is_made(operation)
    except (OSError, ValueError) as error:
        problems.append(str(error))
    return report | ({"problems": problems} if problems else {})


def is_made(
    operation: Operation, fix: str = "--fresh replaces it, or give another output_dir"
) -> bool:
    """Whether the folder holds the result of this operation, with these settings, on inputs of the
    same content.

    Raises ValueError where it holds another result; `fix` ends the message.
    """
    out = Path(operation.output_dir)
    before = read_lineage(out)
    if before is None:
        return False
    reason = _difference(operation, before)
    if reason:
        raise ValueError(f"{out} was made in another way: {reason}; {fix}")
    if not operation.is_whole():
        logger.warning("%s: its weights are missing or incomplete, it is made again", out)
        return False
    return True


def _operation(path: Path, overrides: dict[str, Any] | None) -> Operation:
    operation = read_recipe(path, overrides)
    if not isinstance(operation, Operation):
        raise ValueError(f"{path} names a training stage, not an operation")
    return operation


def _difference(operation: Operation, before: dict[str, Any]) -> str | None:
    """What differs from the lineage of an earlier run, as words; None if nothing does."""
    if before.get("stage") != operation.stage:
        return f"by {before.get('stage')}, not {operation.stage}"
    values = before.get("values", {})
    for name, value in operation.names(None).items():
        if values.get(name) != json.loads(json.dumps(value)):
            return f"{name} was {values.get(name)!r}, now {value!r}"
    # Inputs are compared by content: of checkpoints the fingerprint, of data files the SHA-256.
    models = operation.names(CHECKPOINT)
    inputs = models | operation.names(DATA)
    recorded = before.get("parents", {}) | before.get("data", {})
    for role in sorted({*inputs, *recorded}):
        input_name = inputs.get(role)
        was = recorded.get(role, {})
        if input_name is None or not was:
            return f"{role} was {was.get('name')}, now {input_name}"
        if role in models:
            is_same = fingerprint(input_name) == was.get("fingerprint")
        else:
            digest = sha256(input_name) if Path(input_name).is_file() else None
            is_same = digest == was.get("sha256")
        if not is_same:
            return f"{role} ({input_name}) has changed since"
    return None


def _input_problems(operation: Operation, outputs_before: Iterable[Path]) -> Iterator[str]:
    """Inputs that are neither here nor made by an earlier step.
    Names on the Hub are not looked up."""
    outputs_before = set(outputs_before)
    for role, name in operation.names(CHECKPOINT).items():
        if (
            not Path(name).exists()
            and not _is_made(name, outputs_before)
            and not may_be_on_hub(name)
        ):
            yield f"{role}: no folder {name}"
    for role, name in operation.names(DATA).items():
        if is_missing(name) and not _is_made(name, outputs_before):
            yield f"{role}: no file {name}"
    if not Path(operation.output_dir).exists():
        yield from operation.missing()


def _stage_problems(training: Training, outputs_before: set[Path]) -> Iterator[str]:
    """Checkpoints and files of a stage that are neither here nor made by an earlier step; a
    finished one reads none.

    Names on the Hub are not looked up.
    """
    if (read_record(training.output_dir) or {}).get("finished"):
        return
    data = training.data
    fields = vars(training.model) | vars(data)
    # A name without a slash is a model of the package or of the Hub.
    for role in CHECKPOINTS:
        place = packaged_model(fields[role] or "")
        is_there = Path(place).exists() or _is_made(place, outputs_before) or may_be_on_hub(place)
        if "/" in place and not is_there:
            yield f"{role}: no folder {fields[role]}"
    files = {"train_data": data.train_data, "teacher_xsimpp": data.teacher_xsimpp}
    for name, source in data.dev_data.items():
        files[f"dev_data.{name}"] = source.get("path") if isinstance(source, dict) else source
    # Names without a suffix may be folders, or data sets of the Hub.
    for role, name in files.items():
        is_file = isinstance(name, str) and bool(Path(name).suffix)
        if is_file and not Path(name).exists() and not _is_made(name, outputs_before):
            yield f"{role}: no file {name}"


def _is_made(name: str, outputs_before: set[Path]) -> bool:
    """Whether an earlier step makes this file or folder, or a folder around it."""
    return bool({Path(name), *Path(name).parents} & outputs_before)
