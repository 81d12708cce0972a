"""Rows with labels, some to learn on and some to be measured on: checked, named in errors, by language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Check = Callable[[Mapping[str, Any], str], dict[str, Any]]


def row_names(rows: Iterable[Mapping[str, Any]], what: str) -> list[str]:
    """What errors call them: "test row 3 (fra_Latn)"."""
    return [f"{what} {number} ({row.get('lang') or 'no language'})" for number, row in enumerate(rows, 1)]


def checked_rows(
    rows: Iterable[Mapping[str, Any]], what: str, columns: Sequence[str], check: Check
) -> list[dict[str, Any]]:
    """What `check(row, its name)` makes of each row, and its `lang`.

    Raises:
        ValueError: no rows, or one without a value in `columns`; whatever `check` raises.
    """
    rows, checked = list(rows), []
    for row, where in zip(rows, row_names(rows, what)):
        missing = [name for name in columns if row.get(name) is None]
        if missing:
            raise ValueError(f"{where}: no {', '.join(missing)}; the columns are {', '.join(row)}")
        checked.append(check(row, where) | {"lang": row.get("lang")})
    if not checked:
        raise ValueError(f"no {what}: rows to train on and rows to test on are needed")
    return checked


def rows_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str | None, list[int]]:
    """{language: numbers of its rows, from 0}, in order of appearance."""
    found: dict[str | None, list[int]] = {}
    for number, row in enumerate(rows):
        found.setdefault(row["lang"], []).append(number)
    return found
