"""What a run tells: rows kept and dropped by each step, and statistics of parallel data
(OS A.7, Table 34).

Statistics count, by provenance, pairs, directions (X to Y), source languages, target languages and
characters. As in the paper, code and mathematics are counted by the side with natural language
(Code/Math -> Eng, Eng -> Code).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset

from hf_echo.languages import language

from ...utils.results import markdown_table
from ..schema import OPTIONAL, PROVENANCES
from ..tables import BadRows
from .units import read_unit, units_of

Directions = dict[str, int]  # "fra_Latn>eng_Latn" -> rows
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


def by_direction(files: Iterable[Path]) -> Directions:
    """Number of rows of each direction in Parquet files."""
    names = [str(file) for file in files]
    if not names:
        return {}
    with duckdb.connect() as db:
        db.register("rows", pyarrow.dataset.dataset(names))
        query = (
            "SELECT source_lang || '>' || target_lang, count(*) FROM rows GROUP BY ALL ORDER BY ALL"
        )
        return dict(db.execute(query).fetchall())


def columns_with_values(files: Iterable[Path]) -> list[str]:
    """The optional columns of the schema that have a value in some row of Parquet files."""
    with duckdb.connect() as db:
        db.register("rows", pyarrow.dataset.dataset([str(file) for file in files]))
        query = "SELECT sum(len(hard_negatives)), count(quality) FROM rows"
        counts = db.execute(query).fetchone()
    return [name for name, count in zip(OPTIONAL, counts, strict=True) if count]


def as_json(steps: Sequence[tuple[str, Directions]]) -> list[dict[str, Any]]:
    """Rows in, kept and dropped of each step, in total and by direction;
    `steps` have the rows after each one. A step of sampling that repeats rows has "repeated"
    too."""
    reports = []
    before = steps[0][1]
    for name, after in steps:
        directions = {}
        for direction in sorted({*before, *after}):
            directions[direction] = _counts(before.get(direction, 0), after.get(direction, 0))
        total: Counter[str] = Counter({"in": 0, "kept": 0, "dropped": 0})
        for counts in directions.values():
            total.update(counts)
        reports.append({"step": name, **total, "directions": directions})
        before = after
    return reports


def _counts(before: int, after: int) -> dict[str, int]:
    counts = {"in": before, "kept": after, "dropped": max(before - after, 0)}
    if after > before:
        counts["repeated"] = after - before
    return counts


def steps_table(steps: Sequence[Mapping[str, Any]]) -> str:
    """Rows in, kept and dropped of each step of a data recipe, as Markdown."""
    columns = ["in", "kept", "dropped"]
    if any("repeated" in step for step in steps):
        columns.append("repeated")
    rows = []
    for step in steps:
        share = f"{100 * step['kept'] / step['in']:.1f}" if step["in"] else ""
        counts = [f"{step.get(name, 0):,}" for name in columns]
        rows.append([step["step"], *counts, share])
    return markdown_table(["step", "rows in", *columns[1:], "kept, %"], rows)


def as_markdown(steps: Sequence[Mapping[str, Any]]) -> str:
    """Two tables: the steps, and the rows of each direction (of the LINES largest) after each
    step."""
    header = ["direction"]
    kept_of_steps = []  # of each step: direction -> rows
    for number, step in enumerate(steps):
        header.append(f"{number} {step['step']}")
        kept = Counter({name: counts["kept"] for name, counts in step["directions"].items()})
        kept_of_steps.append(kept)
    largest = [name for name, _ in kept_of_steps[0].most_common(LINES)]
    rows = []
    for name in sorted(largest):
        rows.append([name, *(f"{kept[name]:,}" for kept in kept_of_steps)])
    by_direction = markdown_table(header, rows)
    return f"{steps_table(steps)}\n\nRows after each step, by direction:\n\n{by_direction}\n"


@dataclass(frozen=True)
class Statistics:
    """`directions`: a row for each provenance and direction, with its languages,
    pairs and characters."""

    directions: list[dict[str, Any]]

    @classmethod
    def of(cls, counted: Iterable[tuple]) -> Statistics:
        """Of the rows that `COUNT` gives."""
        order = {name: number for number, name in enumerate(PROVENANCES)}
        rows = sorted(counted, key=lambda row: (order[row[0]], *row))
        return cls([dict(zip(FIELDS, row)) for row in rows])

    def rows(self) -> list[dict[str, Any]]:
        """One row per kind of data (the provenance; for code and mathematics also the direction),
        and the total."""
        # Code and mathematics count by the side with natural language.
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
    # Each table is counted alone, then the counts are added up: rows need not fit into memory.
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
