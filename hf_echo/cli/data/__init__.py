"""hf-echo data: from raw collections to what each stage is fed. One file a family of commands."""

from __future__ import annotations

import typer

from ..common import PLAIN
from . import code, engine, generate, mined, sources

commands = typer.Typer(help="Data: filter, count, harvest, segment, generate, mine.", no_args_is_help=True, **PLAIN)
for family in (engine, sources, code, generate, mined):
    commands.add_typer(family.commands)
