"""Run one operation of a recipe, recognise a finished one by its lineage, or describe it in a dry run."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from ..cards.model_card import release_card, write_checkpoint_card
from ..cards.stamp import set_license
from ..utils.did_you_mean import did_you_mean
from ..utils.files import same_place, write_whole
from ..utils.fingerprint import fingerprint, sha256
from ..utils.hub import packaged_model, split_revision
from ..utils.lineage import read_lineage
from .operations import CHECKPOINT, DATA, OPERATIONS, Operation
from .recipe import checked_fields, read_values
from .record import check_output_folder, whole_weights

logger = logging.getLogger(__name__)


def is_operation(path: Path) -> bool:
    return "operation" in read_values(path)


def read_operation(path: Path, overrides: dict[str, Any] | None = None) -> tuple[Operation, Any]:
    """The operation that a recipe names, and its settings.

    Raises:
        ValueError: an unknown operation or field, a missing one, or a value that cannot be.
    """
    values = read_values(path, overrides)
    name = values.pop("operation", None)
    if not isinstance(name, str) or name not in OPERATIONS:
        names = f"it must be one of {', '.join(OPERATIONS)}"
        raise ValueError(f"{path}: operation is {name!r}{did_you_mean(name, OPERATIONS, names)}")
    operation = OPERATIONS[name]
    known = operation.fields()
    values = checked_fields(path, values, known)
    for field in known.values():
        if field.metadata.get("reads") == CHECKPOINT and values.get(field.name):
            values[field.name] = packaged_model(values[field.name])
        if field.default is MISSING and field.default_factory is MISSING and not values.get(field.name):
            raise ValueError(f"{path}: {field.name} is missing: {field.metadata['help']}")
    try:
        return operation, operation.settings(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def run_operation(path: Path, overrides: dict[str, Any] | None = None, *, fresh: bool = False) -> dict[str, Any]:
    """Carry out an operation, unless its folder holds the result of the same one; returns what it counted.

    Args:
        fresh: replace the checkpoint in `output_dir`.

    Raises:
        FileNotFoundError: an input is missing.
        ValueError: `output_dir` is an input, cannot be written, or holds what was made in another way.
    """
    operation, settings = read_operation(path, overrides)
    out = Path(settings.output_dir)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(f"{path}: an operation runs in one process: start it without torchrun or accelerate")
    if problem := next(iter(_input_problems(operation, settings, made=())), None):
        raise FileNotFoundError(f"{path}: {problem}")
    check_output(operation, settings)
    if not fresh and is_made(operation, settings):
        logger.warning("%s is made already (%s); --fresh makes it again", path.stem, out)
    else:
        logger.warning("%s: %s", path.stem, operation.name)
        operation.make(settings)
    write_card(settings)
    counted = (read_lineage(out) or {}).get("results", {})
    return {"operation": operation.name, "output_dir": str(out), **counted}


def check_output(operation: Operation, settings: Any) -> None:
    """Raises ValueError where the checkpoint could not be saved: said before anything is read."""
    check_output_folder(Path(settings.output_dir))
    for role, name in operation.names(settings, CHECKPOINT).items():
        if same_place(name, settings.output_dir):
            raise ValueError(f"output_dir is {name}, which is the {role} too; give another folder")


def is_made(operation: Operation, settings: Any) -> bool:
    """Whether the folder holds the result of this operation, with these settings, on inputs of the same content.

    Raises:
        ValueError: it holds something else.
    """
    out = Path(settings.output_dir)
    before = read_lineage(out)
    if before is None:
        return False
    if reason := _difference(operation, settings, before):
        raise ValueError(f"{out} was made in another way: {reason}; --fresh replaces it, or give another output_dir")
    if not whole_weights(out):
        logger.warning("%s: its weights are missing or incomplete, it is made again", out)
        return False
    return True


def _difference(operation: Operation, settings: Any, before: dict[str, Any]) -> str | None:
    """What differs from the lineage of an earlier run, as words; None if nothing does."""
    if before.get("stage") != operation.name:
        return f"by {before.get('stage')}, not {operation.name}"
    values = before.get("values", {})
    for name, value in operation.names(settings, None).items():
        if values.get(name) != json.loads(json.dumps(value)):
            return f"{name} was {values.get(name)!r}, now {value!r}"
    for reads, recorded, content in ((CHECKPOINT, "parents", fingerprint), (DATA, "data", _digest)):
        now, was = operation.names(settings, reads), before.get(recorded, {})
        for role in sorted({*now, *was}):
            if role not in now or role not in was:
                return f"{role} was {was.get(role, {}).get('name')}, now {now.get(role)}"
            if content(now[role]) != (was[role].get("fingerprint") if reads == CHECKPOINT else was[role].get("sha256")):
                return f"{role} ({now[role]}) has changed since"
    return None


def _digest(name: str) -> str | None:
    return sha256(name) if Path(name).is_file() else None


def write_card(settings: Any) -> None:
    """Write the card: from a template always, since figures may be newer than the weights; else where there is none."""
    license = getattr(settings, "license", None)
    if not getattr(settings, "card", None):
        write_checkpoint_card(settings.output_dir, license)
    else:
        text = release_card(settings.output_dir, settings.card, settings.results)
        with write_whole(Path(settings.output_dir) / "README.md") as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        if license:
            set_license(Path(settings.output_dir) / "README.md", license)


def describe_operation(
    path: Path, overrides: dict[str, Any] | None = None, *, made: Iterable[str] = ()
) -> dict[str, Any]:
    """What an operation would do, for a dry run.

    Args:
        made: folders that earlier steps of the journey make.

    Returns:
        The report. Its "problems", where there are any, say which input is missing or why the output cannot be used.
    """
    operation, settings = read_operation(path, overrides)
    made = [Path(name) for name in made]
    report = {"recipe": path.stem, "operation": operation.name, "reads": _reads(operation, settings)}
    report |= {"settings": operation.names(settings, None), "output_dir": settings.output_dir}
    problems = [*_input_problems(operation, settings, made)]
    try:
        check_output(operation, settings)
        if not problems and all(Path(name).exists() for name in operation.names(settings, CHECKPOINT).values()):
            report["made already"] = is_made(operation, settings)
    except (OSError, ValueError) as error:
        problems.append(str(error))
    return report | ({"problems": problems} if problems else {})


def _reads(operation: Operation, settings: Any) -> dict[str, str]:
    return operation.names(settings, CHECKPOINT) | operation.names(settings, DATA)


def _input_problems(operation: Operation, settings: Any, made: Iterable[Path]) -> Iterable[str]:
    """Inputs that are neither here nor made by an earlier step. Names on the Hub are not looked up."""
    for role, name in operation.names(settings, CHECKPOINT).items():
        if not Path(name).exists() and Path(name) not in made and not _on_hub(name):
            yield f"{role}: no folder {name}"
    for role, name in operation.names(settings, DATA).items():
        if name != "builtin" and not Path(name).exists() and (Path(name).suffix or not _on_hub(name)):
            yield f"{role}: no file {name}"


def _on_hub(name: str) -> bool:
    """Whether a name that is not here may be on the Hub: org/name or org/name@v1.2.0, and no folder `org` is here."""
    name, _ = split_revision(name)
    return name.count("/") == 1 and name[0] not in "./~" and not Path(name).parent.is_dir()
