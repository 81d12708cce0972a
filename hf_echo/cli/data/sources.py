"""hf-echo data bible, gettext: parallel rows from verse-keyed texts and message catalogs."""

from __future__ import annotations

import typer

from ..common import PLAIN

commands = typer.Typer(**PLAIN)
