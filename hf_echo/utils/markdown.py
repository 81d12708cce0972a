"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def cell_text(value: Any, digits: int = 2) -> str:
    """Format a table cell: "-" for None, a fixed number of digits for floats, `str` for other values."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def markdown_table(header: Sequence[Any], rows: Sequence[Sequence[Any]], *, left: bool = False) -> str:
    """Make a Markdown table: bars are escaped, line ends become spaces, columns after the first are right-aligned.

    Args:
        left: align all columns to the left.
    """
    rule = ["---" if left or i == 0 else "---:" for i in range(len(header))]
    return "\n".join(map(_line, [header, rule, *rows]))


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
