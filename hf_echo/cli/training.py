"""hf-echo demo, train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import example, print_report

commands = typer.Typer()


@commands.command(**example("hf-echo demo --out outputs/demo", folder=True))
def demo(
    out: Annotated[Path, typer.Option(help="Where checkpoints, release and results.json go.")] = Path("outputs/demo"),
    fresh: Annotated[bool, typer.Option(help="Train again although stages are finished.")] = False,
) -> None:
    """Train stages 0 to 3 at nano size on the built-in corpus, then embed, search and translate with the result."""
    from .demo import run_demo

    run_demo(out, fresh=fresh)


@commands.command(**example("hf-echo train nano/2_contrastive max_steps=100 learning_rate=1e-3"))
def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, a folder of them, or a name such as nano or large.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="key=value, any field of the recipe; in a folder, of each step that has it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print sizes, steps, memory and problems; make nothing.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option(help="Start over: repeat finished steps, and drop the checkpoints of stopped ones.")
    ] = False,
    changed_data: Annotated[
        bool, typer.Option("--changed-data", help="Continue a run although its data have changed since.")
    ] = False,
) -> None:
    """Carry out a recipe, or the recipes of a folder in order: training stages and operations on checkpoints.

    A run that was stopped continues, and a finished step is not done again.
    """
    from ..steps.journey import describe_journey, run_journey
    from ..steps.recipe import find_recipes, parse_overrides

    values, paths = parse_overrides(overrides or []), find_recipes(recipe)
    steps = (
        describe_journey(paths, values)
        if dry_run
        else run_journey(paths, values, fresh=fresh, changed_data=changed_data)
    )
    for report in steps:
        print_report(report)
