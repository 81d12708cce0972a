"""Read sources as blocks: each file (or Hub dataset, n-way folder, the built-in corpus) is one unit
of reading.

If reading a unit was stopped, it is read again from its start, but finished blocks are not written
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...utils.text import BrokenFile
from ..bitexts import files_of
from ..formats import open_file
from ..nway import find_nway_columns
from ..parts import Part, content_hash
from ..readers import looks_like_file, parallel_tables
from ..tables import BadRows, check_split, list_files


@dataclass(frozen=True)
class Unit:
    number: int
    path: str
    label: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    identity: tuple = ()  # changes with the content


def units_of(sources: Sequence[Mapping[str, Any]]) -> list[Unit]:
    """The units of reading, in order. A folder of pair files has one unit per file,
    unless a limit spans the files."""
    units: list[Unit] = []
    for source in sources:
        arguments = {key: value for key, value in source.items() if key not in ("path", "label")}
        path = Path(source["path"])
        split = arguments.get("split", "train")
        # The built-in corpus and datasets of the Hub have no files here.
        is_file = path.exists() or (source["path"] != "builtin" and looks_like_file(source["path"]))
        files = list_files(path, split) if is_file else []
        parts = list(filter(None, map(_readable, files)))
        if parts:
            check_split(path, parts, split)

        # A limit counts over all files, and an n-way folder may hold the languages of a text in
        # several.
        has_nway = any(find_nway_columns(part.columns) for part in parts)
        if not files or has_nway or arguments.get("limit") is not None:
            identity = tuple(map(_identity, files))
            units.append(Unit(len(units), source["path"], source["label"], arguments, identity))
            continue
        for file in files:
            identity = (_identity(file),)
            units.append(Unit(len(units), str(file), source["label"], arguments, identity))
    return units


def _identity(file: Path) -> tuple[tuple[str, str], ...]:
    """What changes with the content of a file, or of the files of a pair."""
    return tuple((str(part.resolve()), content_hash(part)) for part in files_of(file))


def _readable(path: Path) -> Part | None:
    """The file, or None if it is damaged; `read_unit` says so."""
    try:
        return open_file(path)
    except ValueError:
        return None


def read_unit(unit: Unit, bad: BadRows) -> Iterator[pa.Table]:
    """Yield the good rows. A damaged file counts as one bad row;
    rows before the damage are read."""
    path = Path(unit.path)
    row = 0
    try:
        if path.is_file():
            open_file(path)
    except ValueError as error:
        if not bad.skip:
            raise  # of the file: no row of it was read
        bad.add(unit.path, 1, str(error).removeprefix(f"{path}: "))
        bad.report()
        return
    tables = parallel_tables(unit.path, bad, **unit.arguments)
    while True:
        try:
            table = next(tables, None)
        except BrokenFile as error:
            bad.add(unit.path, row + 1, f"unreadable from here on: {error.reason}")
            bad.report(" so far") if not bad.skip else None
            return
        if table is None:
            return
        row += len(table)
        yield table.append_column("origin", pa.repeat(pa.scalar(unit.label), len(table)))
