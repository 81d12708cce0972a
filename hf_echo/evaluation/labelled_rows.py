"""Read and check labelled training and test rows, and group them by language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.formats import Block, kind_of, open_file
from ..data.parts import log_left_out
from ..data.schema import as_list, language_codes

Check = Callable[[Mapping[str, Any], str], dict[str, Any]]


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str] | None = None, *, tsv: bool = True
) -> Iterator[tuple[int, dict]]:
    """Yield (line or row number, row) of Parquet, JSONL or (`tsv`) TSV: columns `needed` and `optional` (None: all)."""
    fix = f"give a {'Parquet, JSONL or TSV' if tsv else 'Parquet or JSONL'} file with {', '.join(needed)}"
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; {fix}")
    if not tsv and kind_of(path) in (".tsv", ".csv"):
        raise ValueError(f"{path}: the fields of a TSV or CSV file are text, not lists or numbers; {fix}")
    part = open_file(path)
    if missing := [name for name in needed if name not in part.columns]:
        raise ValueError(f"{path} has no column {', '.join(missing)}; found: {', '.join(part.columns)}")
    wanted = [name for name in part.columns if optional is None or name in (*needed, *optional)]
    wanted += [name for name in optional or () if part.open_ended and name not in wanted]
    left_out: Counter[str] = Counter()
    for block in part.read(wanted):
        left_out.update(block.left_out)
        if block.bad:
            raise ValueError(f"{path}:{block.bad[0][0]}: {block.bad[0][1]}")
        columns = [_values(path, block, name) for name in wanted]
        for line, values in zip(block.lines, zip(*columns)):
            yield line, dict(zip(wanted, values))
    log_left_out(str(path), left_out)


def _values(path: Path, block: Block, name: str) -> list:
    values = as_list(block.columns[name])
    for line, value in zip(block.lines, values):
        if isinstance(value, bytes) or (isinstance(value, str) and "\0" in value):
            reason = "holds a NUL character" if isinstance(value, str) else "is not UTF-8"
            raise ValueError(f"{path}:{line}: {name} {reason}")
    return language_codes(values) if name.endswith("lang") else values


def row_names(rows: Iterable[Mapping[str, Any]], what: str) -> list[str]:
    """Names of rows for error messages: "test row 3 (fra_Latn)"."""
    return [f"{what} {number} ({row.get('lang') or 'no language'})" for number, row in enumerate(rows, 1)]


def checked_rows(
    rows: Iterable[Mapping[str, Any]], what: str, columns: Sequence[str], check: Check
) -> list[dict[str, Any]]:
    """Apply `check(row, name of the row)` to each row and add its `lang`."""
    rows, checked = list(rows), []
    for row, where in zip(rows, row_names(rows, what)):
        missing = [name for name in columns if row.get(name) is None]
        if missing:
            raise ValueError(f"{where}: no {', '.join(missing)}; the columns are {', '.join(row)}")
        checked.append({"lang": row.get("lang")} | check(row, where))
    if not checked:
        raise ValueError(f"no {what}: give at least one")
    return checked


def rows_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str | None, list[int]]:
    """{language: indices of its rows}, in order of appearance."""
    indices: dict[str | None, list[int]] = {}
    for number, row in enumerate(rows):
        indices.setdefault(row["lang"], []).append(number)
    return indices
