"""Helpers of all languages: join parts to a line, turn a line into a sentence."""

from __future__ import annotations


def join(*parts: str | None) -> str:
    """Join the non-empty parts with spaces."""
    return " ".join(part for part in parts if part)


def finish(line: str) -> str:
    """Add a capital letter and a full stop."""
    return line[0].upper() + line[1:] + "."
