"""Read and check labelled training and test rows, and group them by language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.formats import kind_of, open_file
from ..data.parts import Block, log_left_out
from ..data.schema import as_list, language_codes

Check = Callable[[Mapping[str, Any], str], dict[str, Any]]


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str] | None = None, *, tsv: bool = True
) -> Iterator[tuple[int, dict]]:
    """Yield (line or row number, row) of Parquet, JSONL or (`tsv`) TSV:
    columns `needed` and `optional` (None: all)."""
    formats = "Parquet, JSONL or TSV" if tsv else "Parquet or JSONL"
    fix = f"give a {formats} file with {', '.join(needed)}"
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; {fix}")
    if not tsv and kind_of(path) in (".tsv", ".csv"):
        raise ValueError(
            f"{path}: the fields of a TSV or CSV file are text, not lists or numbers; {fix}"
        )
    part = open_file(path)
    missing = [name for name in needed if name not in part.columns]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; found: {', '.join(part.columns)}"
        )
    names = list(part.columns)
    if optional is not None:
        # An open-ended file may have an optional column further down.
        names = [name for name in (*needed, *optional) if part.open_ended or name in part.columns]
    left_out: Counter[str] = Counter()
    for block in part.read(names):
        left_out.update(block.left_out)
        for line, reason in block.bad:
            raise ValueError(f"{path}:{line}: {reason}")
        # Columns become rows; an error names the line of the file.
        columns = [_values(path, block, name) for name in names]
        for line, *values in zip(block.lines, *columns, strict=True):
            yield line, dict(zip(names, values, strict=True))
    log_left_out(str(path), left_out)


def _values(path: Path, block: Block, name: str) -> list:
    """The values of a column; those of a column of languages as codes."""
    values = as_list(block.columns[name])
    for line, value in zip(block.lines, values, strict=True):
        if isinstance(value, bytes):
            raise ValueError(f"{path}:{line}: {name} is not UTF-8")
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{path}:{line}: {name} holds a NUL character")
    return language_codes(values) if name.endswith("lang") else values


def row_names(rows: Iterable[Mapping[str, Any]], row_kind: str) -> list[str]:
    """Names of rows for error messages: "test row 3 (fra_Latn)"."""
    names = []
    for number, row in enumerate(rows, 1):
        lang = row.get("lang") or "no language"
        names.append(f"{row_kind} {number} ({lang})")
    return names


def check_columns(row: Mapping[str, Any], columns: Sequence[str], where: str) -> None:
    """Raises ValueError where a row lacks the value of one of the columns."""
    missing = [name for name in columns if row.get(name) is None]
    if missing:
        raise ValueError(f"{where}: no {', '.join(missing)}; the columns are {', '.join(row)}")


def checked_rows(
    rows: Iterable[Mapping[str, Any]], row_kind: str, columns: Sequence[str], check: Check
) -> list[dict[str, Any]]:
    """Apply `check(row, name of the row)` to each row and add its `lang`."""
    rows = list(rows)
    if not rows:
        raise ValueError(f"no {row_kind}: give at least one")
    checked = []
    for row, where in zip(rows, row_names(rows, row_kind), strict=True):
        check_columns(row, columns, where)
        checked.append({"lang": row.get("lang")} | check(row, where))
    return checked


def rows_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str | None, list[int]]:
    """{language: indices of its rows}, in order of appearance."""
    indices: dict[str | None, list[int]] = {}
    for number, row in enumerate(rows):
        indices.setdefault(row["lang"], []).append(number)
    return indices
