"""A journey: the recipes of a folder in the order of their file names, each a training stage or an operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .dry_run import dry_run
from .operation import describe_operation, is_operation, read_operation, run_operation
from .overrides import check_overrides, earlier_steps, known_overrides, output_dir
from .recipe import read_recipe
from .training import train_recipe


def run_journey(
    paths: Sequence[Path],
    overrides: dict[str, Any] | None = None,
    *,
    fresh: bool = False,
    changed_data: bool = False,
) -> Iterator[dict[str, Any]]:
    """Carry out the steps in order; yields the results of each. A finished step is not done again.

    Args:
        paths: of `find_recipes`.
        overrides: a single recipe takes all of them, each of several those that it has a field for.
        fresh, changed_data: see `train_recipe` and `run_operation`.

    Raises:
        ValueError: a recipe is wrong: said before the first step begins.
    """
    steps = _with_overrides(paths, overrides)
    for path, values in steps:
        (read_operation if is_operation(path) else read_recipe)(path, values)
    for path, values in steps:
        if is_operation(path):
            yield run_operation(path, values, fresh=fresh)
        else:
            yield train_recipe(path, values, fresh=fresh, changed_data=changed_data)


def describe_journey(paths: Sequence[Path], overrides: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Yield what each step would do, without doing it; what an earlier step makes counts as an input."""
    journey = paths if len(paths) > 1 else None
    for path, values in _with_overrides(paths, overrides):
        if is_operation(path):
            # As in `dry_run`: overrides of a single recipe are not those of its neighbours.
            others = (overrides or {}) if journey else {}
            earlier = earlier_steps(path, journey)
            made = [output_dir(step, known_overrides(step, others)) for step in earlier]
            yield describe_operation(path, values, made=made)
        else:
            yield dry_run(path, overrides if journey else values, journey=journey)


def _with_overrides(paths: Sequence[Path], overrides: dict[str, Any] | None) -> list[tuple[Path, dict[str, Any]]]:
    if len(paths) == 1:
        return [(paths[0], overrides or {})]
    check_overrides(paths, overrides or {})
    return [(path, known_overrides(path, overrides or {})) for path in paths]
