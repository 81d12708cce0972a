"""Means of a table by language over scripts, families or resource levels."""

from __future__ import annotations

from typing import Any

from ..languages import LANGUAGES
from .results import Table

GROUPS = ("script", "family", "resource", "lang", "target_lang")


def grouped(table: Table, by: str) -> Table:
    """The mean of each averaged column over the languages of a group; `languages` says how many rows that is.

    by: "script", "family", "resource" (of the column lang), or a column itself: "lang", "target_lang" (of all
    pairs). Languages without that property (code, or outside OS Table 32) are the group "none". Groups come in
    order of first appearance; the average stays the table's own.

    Raises ValueError for an unknown `by`, or a table without averages or that column.
    """
    if by not in GROUPS:
        raise ValueError(f"by is {by!r}, must be one of {', '.join(GROUPS)}")
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
