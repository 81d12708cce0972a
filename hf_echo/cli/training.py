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
    """Train stages 1 to 3 at nano size on the built-in corpus, then embed, search and translate with the result."""
    from .demo import run_demo

    run_demo(out, fresh=fresh)


@commands.command(**example("hf-echo train nano/2_contrastive max_steps=100 learning_rate=1e-3"))
def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, a folder of them, or a name such as nano or large.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, any field of the recipe.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print sizes, steps and memory; train nothing.")] = False,
    fresh: Annotated[bool, typer.Option(help="Train again although the stage is finished.")] = False,
    changed_data: Annotated[
        bool, typer.Option("--changed-data", help="Continue a run although its data have changed since.")
    ] = False,
) -> None:
    """Train a recipe: one stage, or every stage of a folder in order. A killed run continues where it was."""
    from ..stages.dry_run import dry_run as describe
    from ..stages.recipe import find_recipes, parse_overrides
    from ..stages.run import train_recipe

    values = parse_overrides(overrides or [])
    paths = find_recipes(recipe)
    for path in paths:
        if dry_run:
            report = describe(path, values, journey=paths if len(paths) > 1 else None)
        else:
            report = train_recipe(path, values, fresh=fresh, changed_data=changed_data)
        print_report(report)
