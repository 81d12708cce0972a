"""Recipes: YAML files of steps. This file finds and reads them; a step is a training stage or an operation.

stage: seq2seq                operation: prune              journey: nano
train_data: pairs.tsv         model: outputs/echo
output_dir: outputs/a         output_dir: outputs/tiny
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..utils.did_you_mean import did_you_mean
from ..utils.recipe_yaml import parse_overrides as parse_overrides
from ..utils.recipe_yaml import read_yaml, with_overrides
from ..utils.settings import fields_of, make
from .arguments import Training, read_training, training_fields
from .operations import Operation
from .table import OPERATIONS, STAGES

RECIPES = Path(__file__).parents[1] / "recipes"


def find_recipes(name: str, inside: tuple[Path, ...] = ()) -> list[Path]:
    """A YAML file, a folder, or a recipe or journey of the package; `inside`: files of journeys that lead here."""
    for path in (Path(name), RECIPES / name, RECIPES / f"{name}.yaml"):
        if path.is_file():
            return _with_journey(path, inside)
        if path.is_dir() and (found := sorted(path.glob("[0-9]*.yaml"))):
            return [step for file in found for step in _with_journey(file, inside)]
    known = sorted({str(p.parent.relative_to(RECIPES)) for p in RECIPES.rglob("[0-9]*.yaml")})
    raise FileNotFoundError(
        f"no recipe {name!r}; give a YAML file, a folder of them, or one of {', '.join(known)}"
    )


def _with_journey(path: Path, inside: tuple[Path, ...]) -> list[Path]:
    """The file, or the steps of the journey that it names: `journey: nano`."""
    values = read_values(path)
    if "journey" not in values:
        return [path]
    if set(values) != {"journey"}:
        raise ValueError(f"{path}: a file that names a journey has no other field")
    if path.resolve() in inside:
        raise ValueError(
            f"{path}: the journey {values['journey']!r} leads back to this file; name other recipes"
        )
    return find_recipes(str(values["journey"]), (*inside, path.resolve()))


def read_values(path: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a recipe as its YAML file has them, with the overrides."""
    return with_overrides(read_yaml(path), dict(overrides or {}), path)


def read_recipe(path: Path, overrides: Mapping[str, Any] | None = None) -> Training | Operation:
    """The step that a recipe describes, checked before anything is read.

    Raises:
        ValueError: no YAML mapping, an unknown stage, operation or field (named with those that exist), a missing
            field, or a value that cannot be.
    """
    values = read_values(path, overrides)
    if "operation" in values:
        name = values.pop("operation")
        if not isinstance(name, str) or name not in OPERATIONS:
            names = f"it must be one of {', '.join(OPERATIONS)}"
            raise ValueError(
                f"{path}: operation is {name!r}{did_you_mean(name, OPERATIONS, names)}"
            )
        step = make(OPERATIONS[name], values, path)
    else:
        step = read_training(path, values)
    if not values.get("output_dir"):
        raise ValueError(f"{path}: output_dir is missing: the folder of the result")
    return step


def step_fields(path: Path) -> set[str]:
    """The fields that a recipe may have, and that its stage or operation reads."""
    values = read_values(path)
    if "operation" in values:
        operation = OPERATIONS.get(str(values["operation"]))  # whatever the file holds there
        return set(fields_of(operation)) if operation else set()
    name = str(values.get("stage"))
    return training_fields(name) | {"stage"} if name in STAGES else {"stage"}


def known_overrides(path: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those overrides whose field the step has: `shape.hidden_size` is one of `shape`."""
    known = step_fields(path)
    return {key: value for key, value in overrides.items() if key.partition(".")[0] in known}


def check_overrides(paths: Sequence[Path], overrides: Mapping[str, Any]) -> None:
    """Raises ValueError for an override that no step of a journey knows."""
    known = {name for path in paths for name in step_fields(path)}
    for key in overrides:
        if (name := key.partition(".")[0]) not in known:
            raise ValueError(
                f"no step of the journey has a field {name!r}{did_you_mean(name, known)}"
            )


def earlier_steps(path: Path, journey: Sequence[Path] | None) -> list[Path]:
    """The steps before `path` in its journey; without a journey, before it in its folder."""
    if journey is None:
        files = sorted(path.parent.glob("[0-9]*.yaml"))
        journey = [step for file in files for step in find_recipes(str(file))]
    return list(journey[: list(journey).index(path)]) if path in journey else []
