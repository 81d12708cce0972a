"""hf-echo data describe, back-translate, negatives: rows that a language model writes."""

from __future__ import annotations

import typer

from ..common import PLAIN

commands = typer.Typer(**PLAIN)
