"""hf-echo data filter, stats, push: run a recipe over parallel collections and count what it leaves."""

from __future__ import annotations

import typer

from ..common import PLAIN

commands = typer.Typer(**PLAIN)
