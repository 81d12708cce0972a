"""`speech_data.json` in the folder of a speech encoder: the recordings that it was trained on, for
its card.

It is {"rows": [{"lang", "source", "voices", "recordings", "hours"}], "voices": {source: [name,
...]}}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .files import read_json, write_json
from .hub import snapshot

FILE = "speech_data.json"
MAX_VOICES = 100  # names per source


def read_speech_data(name: str | Path) -> dict[str, Any]:
    """The table of a folder or Hub name; empty without one."""
    file = Path(snapshot(name)) / FILE
    return read_json(file) if file.is_file() else {}


def write_speech_data(folder: str | Path, table: Mapping[str, Any]) -> None:
    """Write the table into a folder; nothing where it is empty."""
    if table:
        write_json(Path(folder) / FILE, table)


def merge_speech_data(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The recordings of several runs. Runs share most of their data: of equal language and source,
    the run with the most hours counts, and hours are not added."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    voices: dict[str, set[str]] = {}
    for table in tables:
        for row in table.get("rows", ()):
            key = row["lang"], row["source"]
            rows[key] = max(rows.get(key, row), row, key=lambda row: row["hours"])
        for source, names in table.get("voices", {}).items():
            voices.setdefault(source, set()).update(names)
    merged = {
        "rows": [rows[key] for key in sorted(rows)],
        "voices": {source: sorted(names)[:MAX_VOICES] for source, names in sorted(voices.items())},
    }
    return merged if rows else {}
