"""hf-echo data: prepare training data. One file per group of commands."""

from __future__ import annotations

import typer

from ..common import PLAIN
from . import code, engine, generate, mined, sources, speech

commands = typer.Typer(
    help="Training data: filter, sample, count, collect, segment, generate, mine, speak.", no_args_is_help=True, **PLAIN
)
for family in (engine, sources, code, generate, mined, speech):
    commands.add_typer(family.commands)
