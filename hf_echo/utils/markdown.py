"""Tables as Markdown text; what stands in them is not known here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def cell_text(value: Any, digits: int = 2) -> str:
    """None is "-", a float has so many digits; all else as `str` has it."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def markdown_table(header: Sequence[Any], rows: Sequence[Sequence[Any]], *, left: bool = False) -> str:
    """Bars are escaped, line ends become spaces. All columns but the first are set to the right, if not `left`."""
    rule = ["---" if left or i == 0 else "---:" for i in range(len(header))]
    return "\n".join(map(_line, [header, rule, *rows]))


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
