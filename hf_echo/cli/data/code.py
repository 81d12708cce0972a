"""hf-echo data code, math: snippets of source files, expressions of LaTeX."""

from __future__ import annotations

import typer

from ..common import PLAIN

commands = typer.Typer(**PLAIN)
