"""Average a table of languages by script, family or resource level."""

from __future__ import annotations

from typing import Any

from ..languages import LANGUAGES
from ..utils.results import Table

GROUPS = ("script", "family", "resource", "lang", "target_lang")


def grouped(table: Table, by: str) -> Table:
    """Average each averaged column over the languages of a group; `languages` is the number of rows in the group.

    Args:
        by: "script", "family" or "resource" of the column lang, or a column: "lang" or "target_lang" (of a table of
            all pairs). Languages without the property (code, or not in OS Table 32) form the group "none".

    Groups are in order of first appearance; the average is the table's own.

    Raises:
        ValueError: an unknown `by`, or a table without averages or without the column.
    """
    if by not in GROUPS:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(GROUPS)}")
    column = by if by.endswith("lang") else "lang"
    if not table.average or any(column not in row for row in table.rows):
        raise ValueError(f"grouping by {by} needs a table with an average and a column {column!r}")
    measures = [name for name in table.average if name in table.columns[1:]]
    groups: dict[Any, list[dict]] = {}
    for row in table.rows:
        code = row[column]
        known = code if by == column else getattr(LANGUAGES.get(code), by, None)
        groups.setdefault(known or "none", []).append(row)
    rows = []
    for name, members in groups.items():
        means = Table(members).with_average(measures).average or {}
        rows.append({by: name, "languages": len(members)} | {m: means[m] for m in measures})
    average = {by: "average", "languages": len(table.rows)} | {m: table.average[m] for m in measures}
    return Table(rows, average, table.notes)
