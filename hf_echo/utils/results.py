"""Results: a dataclass that converts to a row and JSON, and tables with averages;
only Markdown rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


class Result:
    """Mixin for result dataclasses: rows and JSON leave arrays out;
    dicts become "name/key" columns."""

    def to_row(self) -> dict[str, Any]:
        """The result as one flat dict of plain Python values."""
        row: dict[str, Any] = {}
        for declared in fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, dict):
                for key, entry in value.items():
                    row[f"{declared.name}/{key}"] = _plain(entry)
            elif not isinstance(value, np.ndarray):
                row[declared.name] = _plain(value)
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
    def of(
        cls,
        results: Iterable[Result],
        average: Sequence[str] = (),
        notes: dict[str, Any] | None = None,
    ) -> Table:
        """A table with one row per result and an average row for the columns `average`."""
        rows = [result.to_row() for result in results]
        return cls(rows, notes=notes or {}).with_average(average)

    def with_average(self, columns: Sequence[str]) -> Table:
        """The same table with an average row: the mean over rows of these columns, without None."""
        if not columns or not self.rows:
            return self
        average: dict[str, Any] = {self.columns[0]: "average"}
        for column in columns:
            # What was not measured does not count as 0.
            values = [row[column] for row in self.rows if row.get(column) is not None]
            average[column] = sum(values) / len(values) if values else None
        return Table(self.rows, average, self.notes)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self.rows for key in row))

    def to_json(self, indent: int | None = 2) -> str:
        content = {"rows": self.rows, "average": self.average, "notes": self.notes}
        return json.dumps(content, ensure_ascii=False, indent=indent)

    def to_markdown(self, columns: Sequence[str] | None = None) -> str:
        """The rows and the average as a Markdown table; `columns` chooses and orders."""
        header = list(columns or self.columns)
        rows = list(self.rows)
        if self.average:
            rows.append(self.average)
        cells = []
        for row in rows:
            cells.append([cell_text(row.get(name)) for name in header])
        return markdown_table(header, cells)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def cell_text(value: Any, digits: int = 2) -> str:
    """Format a table cell: "-" for None, a fixed number of digits for floats,
    `str` for other values."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return str(value)


def markdown_table(header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """Make a Markdown table: bars are escaped, line ends become spaces,
    columns after the first are right-aligned."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    lines = []
    for row in [header, rule, *rows]:
        cells = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
