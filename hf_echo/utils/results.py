"""Results: a dataclass that converts to a row and JSON, and tables with averages; only Markdown rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


class Result:
    """Mixin for result dataclasses: rows and JSON leave arrays out; dicts become "name/key" columns."""

    def to_row(self) -> dict[str, Any]:
        """The result as one flat dict of plain Python values."""
        row: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, dict):
                row.update({f"{f.name}/{key}": _plain(v) for key, v in value.items()})
            elif not isinstance(value, np.ndarray):
                row[f.name] = _plain(value)
        return row

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_row(), ensure_ascii=False, indent=indent)


@dataclass
class Table:
    """Rows (dicts, keys may differ), an optional average row, and notes about the settings."""

    rows: list[dict[str, Any]]
    average: dict[str, Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Result], average: Sequence[str] = (), notes: dict[str, Any] | None = None) -> Table:
        """A table with one row per result and an average row for the columns `average`."""
        return cls([r.to_row() for r in results], notes=notes or {}).with_average(average)

    def with_average(self, columns: Sequence[str]) -> Table:
        """The same table with an average row: the mean over rows of these columns, without None."""
        if not columns or not self.rows:
            return self
        average: dict[str, Any] = {self.columns[0]: "average"}
        for column in columns:
            values = [row[column] for row in self.rows if row.get(column) is not None]
            average[column] = sum(values) / len(values) if values else None
        return Table(self.rows, average, self.notes)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def to_json(self, indent: int | None = 2) -> str:
        content = {"rows": self.rows, "average": self.average, "notes": self.notes}
        return json.dumps(content, ensure_ascii=False, indent=indent)

    def to_markdown(self, columns: Sequence[str] | None = None, digits: int = 2) -> str:
        header = list(columns or self.columns)
        rows = self.rows + ([self.average] if self.average else [])
        return markdown_table(header, [[cell_text(row.get(name), digits) for name in header] for row in rows])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def cell_text(value: Any, digits: int = 2) -> str:
    """Format a table cell: "-" for None, a fixed number of digits for floats, `str` for other values."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def markdown_table(header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """Make a Markdown table: bars are escaped, line ends become spaces, columns after the first are right-aligned."""
    rule = ["---", *["---:"] * len(header)][: len(header)]
    lines = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in [header, rule, *rows])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
