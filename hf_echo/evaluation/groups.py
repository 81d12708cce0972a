"""A table by language turned round: by script, family or resource level, as a matrix, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping
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


def as_matrix(table: Table, column: str = "xsim") -> Table:
    """All pairs as one row for each source language and one column for each target language."""
    rows: dict[Any, dict[str, Any]] = {}
    for row in table.rows:
        if "target_lang" not in row or column not in row:
            raise ValueError(
                f"a matrix needs the columns lang, target_lang and {column}; found {', '.join(row)}"
            )
        rows.setdefault(row["lang"], {"lang": row["lang"]})[row["target_lang"]] = row[column]
    order = dict.fromkeys([*rows, *(row["target_lang"] for row in table.rows)])
    return Table(
        [{"lang": lang} | {to: rows[lang].get(to) for to in order} for lang in rows], notes=table.notes
    )


def side_by_side(tables: Mapping[str, Table], column: str = "xsim") -> Table:
    """One column of several models' tables, languages below one another, with averages.

    Raises ValueError, naming model and language, where a model was not measured on a language of the others:
    its average would be of something else.
    """
    values = {name: {row["lang"]: row.get(column) for row in table.rows} for name, table in tables.items()}
    langs = list(dict.fromkeys(lang for found in values.values() for lang in found))
    for name, found in values.items():
        if missing := [lang for lang in langs if found.get(lang) is None]:
            raise ValueError(
                f"{name!r} has no {column} for {missing[0]!r} ({len(missing)} of {len(langs)} languages missing): "
                "measure all models on the same languages"
            )
    rows = [{"lang": lang} | {name: found[lang] for name, found in values.items()} for lang in langs]
    return Table(rows, notes={"column": column}).with_average(list(values))
