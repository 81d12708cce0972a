"""Two helpers that the languages share: parts to a line, a line to a sentence."""

from __future__ import annotations


def join(*parts: str | None) -> str:
    """The non-empty parts, with spaces."""
    return " ".join(part for part in parts if part)


def finish(line: str) -> str:
    """Capital letter and full stop."""
    return line[0].upper() + line[1:] + "."
