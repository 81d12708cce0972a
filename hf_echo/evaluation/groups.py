"""Averages of tables by language: by script, family or resource level, over a paper's languages,
over benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..languages import LANGUAGES
from ..utils.results import Table
from .language_sets import FLORES_HEAD, LANGUAGE_SETS

FEATURES = ("script", "family", "resource", "head")
GROUPS = (*FEATURES, "lang", "target_lang", *LANGUAGE_SETS)


def grouped(table: Table, by: str) -> Table:
    """Average each averaged column over the languages of a group; `languages` is the number of rows
    in the group.

    Args:
        by: "script", "family" or "resource" of the column lang; "head", EMMA-X's head languages of
            FLORES against its long tail; a set of `LANGUAGE_SETS`, such as "mexma-72", against
            "others"; or a column: "lang" or "target_lang" (of a table of all pairs). Languages
            without the property (code, or not in OS Table 32) form the group "none".

    Groups are in order of first appearance; the average is the table's own. The language that a
    transfer table was trained on (note `train_lang`) is in no group, as it is not in the average.

    Raises:
        ValueError: an unknown `by`, or a table without the column.
    """
    check_grouping(by)
    column = by if by.endswith("lang") else "lang"
    if any(column not in row for row in table.rows):
        raise ValueError(f"grouping by {by} needs a table with a column {column!r}")
    # The first column of an average is its label; a table may have none.
    table_average = table.average or {}
    measures = [name for name in table_average if name in table.columns[1:]]
    averaged_rows = rows_of_average(table)
    groups: dict[str, list[dict]] = {}
    for row in averaged_rows:
        groups.setdefault(_group_of(row[column], by), []).append(row)
    rows = []
    for name, members in groups.items():
        rows.append({by: name, "languages": len(members), **_means(members, measures)})
    average = {by: "average", "languages": len(averaged_rows)}
    for measure in measures:
        average[measure] = table_average[measure]
    return Table(rows, average, table.notes)


def average_over_benchmarks(tables: Mapping[str, Table], languages: str | None = None) -> Table:
    """One score of several benchmarks: first the mean over languages in each, then over benchmarks
    (ECHO 5.2, OS 6.2).

    So a benchmark of 200 languages counts as much as one of five.

    Args:
        tables: {benchmark: table by language}.
        languages: a set of `LANGUAGE_SETS`; None is every language of each benchmark.

    Returns:
        Table with columns benchmark, languages (number of rows), and the measures.

    Raises:
        ValueError: an unknown set, no measure in common, a benchmark without a row to average.
    """
    if languages is not None and languages not in LANGUAGE_SETS:
        raise ValueError(
            f"languages is {languages!r}; it must be one of {', '.join(LANGUAGE_SETS)}"
        )
    measures = common_measures(tables)
    rows = []
    for benchmark, table in tables.items():
        members = rows_of_average(table)
        if languages is not None:
            members = [row for row in members if row["lang"] in LANGUAGE_SETS[languages]]
        # The languages of a benchmark come first, so that one with many counts as much as one with
        # few.
        means = _means(members, measures)
        unmeasured = [name for name in measures if means[name] is None]
        if unmeasured:
            among = f" in the languages of {languages}" if languages else ""
            raise ValueError(f"{benchmark} has no {', '.join(unmeasured)}{among}: leave it out")
        rows.append({"benchmark": benchmark, "languages": len(members), **means})
    return Table(rows, notes={"languages": languages}).with_average(measures)


def _means(rows: list[dict], measures: Sequence[str]) -> dict[str, float | None]:
    """The mean of each measure over the rows; None where no row has it."""
    average = Table(rows).with_average(measures).average or {}
    return {name: average.get(name) for name in measures}


def common_measures(tables: Mapping[str, Table]) -> list[str]:
    """The columns of which every table has an average; raises ValueError if there is none."""
    # Benchmark -> the columns that its average has as numbers.
    columns_of: dict[str, list[str]] = {}
    for benchmark, table in tables.items():
        columns_of[benchmark] = []
        for name, value in (table.average or {}).items():
            if isinstance(value, (int, float)):
                columns_of[benchmark].append(name)
    first, *others = columns_of.values()
    common = set(first).intersection(*others)
    if not common:
        benchmarks = []
        for name, columns in columns_of.items():
            measured = ", ".join(columns) or "none"
            benchmarks.append(f"{name}: {measured}")
        raise ValueError(f"the benchmarks have no measure in common ({'; '.join(benchmarks)})")
    return [name for name in first if name in common]


def rows_of_average(table: Table) -> list[dict]:
    """The rows that the average is over: all, or in a table of cross-lingual transfer those of the
    other languages."""
    train_lang = table.notes.get("train_lang")
    if train_lang is None:
        return table.rows
    others = [row for row in table.rows if row.get("lang") != train_lang]
    return others or table.rows


def check_grouping(by: str) -> None:
    """Raise ValueError if `grouped` does not know it."""
    if by not in GROUPS:
        raise ValueError(f"unknown group {by!r}; it must be one of {', '.join(GROUPS)}")


def _group_of(code: str, by: str) -> str:
    """The group that a language belongs to."""
    if by in LANGUAGE_SETS:
        return by if code in LANGUAGE_SETS[by] else "others"
    # EMMA-X's head languages, against all others.
    if by == "head":
        return "head" if code in FLORES_HEAD else "long tail"
    if by.endswith("lang"):
        return code or "none"
    # A property of OS Table 32; codes of other languages have none.
    return getattr(LANGUAGES.get(code), by, None) or "none"
