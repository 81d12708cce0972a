"""hf-echo data mine-negatives, consistency, segment: rows that an encoder or a segmenter makes."""

from __future__ import annotations

import typer

from ..common import PLAIN

commands = typer.Typer(**PLAIN)
