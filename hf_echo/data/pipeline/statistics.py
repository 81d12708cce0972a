"""What a run tells: rows kept and dropped by each step, and statistics of parallel data (OS A.7, Table 34).

Statistics count, by provenance, pairs, directions (X to Y), source languages, target languages and characters. As in
the paper, code and mathematics are counted by the side with natural language (Code/Math -> Eng, Eng -> Code).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hf_echo.languages import language

from ...utils.results import markdown_table
from ..schema import PROVENANCES
from ..tables import BadRows
from .units import read_unit, units_of

Directions = dict[str, list[int]]  # "fra_Latn>eng_Latn" -> [rows in, rows kept]
LINES = 250  # maximum length of the Markdown table; JSON has all directions
COLUMNS = (
    "pairs",
    "directions",
    "source_languages",
    "target_languages",
    "source_characters",
    "target_characters",
)
FIELDS = (
    "provenance",
    "source_lang",
    "target_lang",
    "pairs",
    "source_characters",
    "target_characters",
)
COUNT = """SELECT provenance, source_lang, target_lang, count(*)::BIGINT AS pairs,
    sum(length(source))::BIGINT AS source_characters, sum(length(target))::BIGINT AS target_characters FROM rows
    GROUP BY ALL"""


def by_direction(table: pa.Table) -> dict[str, int]:
    """Number of rows of each direction."""
    counts = (
        table.group_by(["source_lang", "target_lang"]).aggregate([([], "count_all")]).to_pydict()
    )
    names = map(">".join, zip(counts["source_lang"], counts["target_lang"]))
    return dict(zip(names, counts["count_all"]))


def in_and_kept(before: Mapping[str, int], after: Mapping[str, int]) -> Directions:
    return {name: [before.get(name, 0), after.get(name, 0)] for name in {**before, **after}}


def add_up(parts: Iterable[Sequence[tuple[str, Directions]]]) -> list[tuple[str, Directions]]:
    """Add up the step counts of many blocks."""
    total: list[tuple[str, Directions]] = []
    for part in parts:
        total = total or [(name, {}) for name, _ in part]
        for (_, into), (_, directions) in zip(total, part, strict=True):
            for name, (before, after) in directions.items():
                was = into.get(name, (0, 0))
                into[name] = [was[0] + before, was[1] + after]
    return [(name, dict(sorted(directions.items()))) for name, directions in total]


def as_json(steps: Sequence[tuple[str, Directions]]) -> list[dict[str, Any]]:
    """Rows in, kept and dropped of each step: in total and by direction."""
    reports = []
    for name, directions in steps:
        before = sum(rows for rows, _ in directions.values())
        after = sum(rows for _, rows in directions.values())
        by_direction = {key: _three(*rows) for key, rows in directions.items()}
        reports.append({"step": name, **_three(before, after), "directions": by_direction})
    return reports


def _three(before: int, after: int) -> dict[str, int]:
    return {"in": before, "kept": after, "dropped": before - after}


def steps_table(steps: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for step in steps:
        share = f"{100 * step['kept'] / step['in']:.1f}" if step["in"] else ""
        counts = [f"{step[name]:,}" for name in ("in", "kept", "dropped")]
        rows.append([step["step"], *counts, share])
    return markdown_table(["step", "rows in", "kept", "dropped", "kept, %"], rows)


def as_markdown(steps: Sequence[Mapping[str, Any]]) -> str:
    """Two tables: the steps, and the rows of each direction (of the LINES largest) after each step."""
    read = steps[0]["directions"]
    by_size = sorted(read, key=lambda name: -read[name]["kept"])
    rows = []
    for name in sorted(by_size[:LINES]):
        kept = [step["directions"].get(name, {"kept": 0})["kept"] for step in steps]
        rows.append([name, *(f"{count:,}" for count in kept)])
    header = ["direction", *(f"{number} {step['step']}" for number, step in enumerate(steps))]
    by_direction = markdown_table(header, rows)
    return f"{steps_table(steps)}\n\nRows after each step, by direction:\n\n{by_direction}\n"


@dataclass(frozen=True)
class Statistics:
    """`directions`: a row for each provenance and direction, with its languages, pairs and characters."""

    directions: list[dict[str, Any]]

    @classmethod
    def of(cls, counted: Iterable[tuple]) -> Statistics:
        """Of the rows that `COUNT` gives."""
        order = {name: number for number, name in enumerate(PROVENANCES)}
        rows = sorted(counted, key=lambda row: (order[row[0]], *row))
        return cls([dict(zip(FIELDS, row)) for row in rows])

    def rows(self) -> list[dict[str, Any]]:
        """One row per kind of data (the provenance; for code and mathematics also the direction), and the total."""
        ways = {(True, False): " to text", (False, True): " from text"}
        kinds: dict[str, list[dict[str, Any]]] = {}
        for direction in self.directions:
            is_formal = tuple(
                language(direction[side]).script is None for side in ("source_lang", "target_lang")
            )
            kind = direction["provenance"] + ways.get(is_formal, "")
            kinds.setdefault(kind, []).append(direction)
        return [
            {"data": kind, **_sum(part)}
            for kind, part in [*kinds.items(), ("total", self.directions)]
        ]

    def to_markdown(self) -> str:
        header = ["data", *(name.replace("_", " ") for name in COLUMNS)]
        rows = []
        for row in self.rows():
            rows.append([row["data"], *(f"{row[name]:,}" for name in COLUMNS)])
        return markdown_table(header, rows) + "\n"

    def to_json(self) -> dict[str, Any]:
        return {"table": self.rows(), "directions": self.directions}


def _sum(part: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The values of COLUMNS, of rows of which several may share a direction."""
    directions = {(row["source_lang"], row["target_lang"]) for row in part}
    sums = {
        "directions": len(directions),
        "source_languages": len({source for source, _ in directions}),
        "target_languages": len({target for _, target in directions}),
    }
    for name in ("pairs", "source_characters", "target_characters"):
        sums[name] = sum(row[name] for row in part)
    return sums


def collect_statistics(
    paths: Sequence[str | Path], *, on_bad_row: str = "error", **arguments: Any
) -> Statistics:
    """Count the pairs of files, folders and Hub datasets (everything that `load_parallel` reads).

    Args:
        arguments: of `load_parallel`; without `split` all rows count.

    Raises:
        FileNotFoundError: a source does not exist.
        ValueError: bad rows, or no row at all.
    """
    sources = [
        {"path": str(path), "label": str(path), "split": None, **arguments} for path in paths
    ]
    parts = []
    with duckdb.connect() as db:
        for unit in units_of(sources):
            bad = BadRows(on_bad_row)
            for table in read_unit(unit, bad):
                db.register("rows", table)
                parts.append(db.sql(COUNT).to_arrow_table())
            bad.report()
        if not parts:
            split = f" of split {arguments['split']!r}" if arguments.get("split") else ""
            raise ValueError(f"{', '.join(map(str, paths))}: no good row{split}")
        db.register("parts", pa.concat_tables(parts))
        counted = db.execute("""
            SELECT provenance, source_lang, target_lang, sum(pairs)::BIGINT,
                sum(source_characters)::BIGINT, sum(target_characters)::BIGINT
            FROM parts GROUP BY ALL
        """)
        return Statistics.of(counted.fetchall())
