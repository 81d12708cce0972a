"""A step of a journey as its recipe has it: a training stage or an operation, and which overrides it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..utils.did_you_mean import did_you_mean
from .operation import is_operation, read_operation
from .operations import OPERATIONS
from .recipe import DataArguments, ModelArguments, find_recipes, read_recipe, read_values, unread_fields
from .table import STAGES


def output_dir(path: Path, overrides: dict[str, Any] | None = None) -> str:
    """Where a step saves its checkpoint; raises ValueError for a wrong recipe."""
    if is_operation(path):
        return read_operation(path, overrides)[1].output_dir
    return read_recipe(path, overrides)[3].output_dir


def step_fields(path: Path) -> set[str]:
    """The fields that a recipe may have, and that its stage or operation reads."""
    values = read_values(path)
    if "operation" in values:
        operation = OPERATIONS.get(str(values["operation"]))  # whatever the file holds there
        return set(operation.fields()) if operation else set()
    name = str(values.get("stage"))
    stage = STAGES.get(name)
    kinds = (ModelArguments, DataArguments, *((stage.config,) if stage else ()))
    return {f.name for kind in kinds for f in fields(kind) if f.init} - unread_fields(name) | {"stage"}


def known_overrides(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """Those overrides whose field the step has: `shape.hidden_size` is one of `shape`."""
    known = step_fields(path)
    return {key: value for key, value in overrides.items() if key.partition(".")[0] in known}


def check_overrides(paths: Sequence[Path], overrides: dict[str, Any]) -> None:
    """Raises ValueError for an override that no step of a journey knows."""
    known = {name for path in paths for name in step_fields(path)}
    for key in overrides:
        if (name := key.partition(".")[0]) not in known:
            raise ValueError(f"no step of the journey has a field {name!r}{did_you_mean(name, known)}")


def earlier_steps(path: Path, journey: Sequence[Path] | None) -> list[Path]:
    """The steps before `path` in its journey; without a journey, before it in its folder."""
    if journey is None:
        files = sorted(path.parent.glob("[0-9]*.yaml"))
        journey = [step for file in files for step in find_recipes(str(file))]
    return list(journey[: list(journey).index(path)]) if path in journey else []
