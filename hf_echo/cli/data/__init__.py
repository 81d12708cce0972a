"""hf-echo data: prepare training data. One file per group of commands."""

from __future__ import annotations

import typer

from ..common import PLAIN
from . import engine, generate, mined

commands = typer.Typer(
    help="Training data: filter, sample, count, segment, generate, mine.", no_args_is_help=True, **PLAIN
)
for family in (engine, generate, mined):
    commands.add_typer(family.commands)
