"""Statistics of parallel data as in OS A.7 (Table 34), for everything that `load_parallel` reads.

By provenance: pairs, directions (X to Y), source languages, target languages and characters. As in the paper, code and
mathematics are counted separately by the side with natural language (Code/Math -> Eng, Eng -> Code).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hf_echo.languages import language

from ...utils.executors import LocalExecutor
from ..schema import PROVENANCES
from ..tables import BadRows
from .sources import Unit, read_unit, units_of

KEYS = ["provenance", "source_lang", "target_lang"]
COLUMNS = (
    "pairs",
    "directions",
    "source_languages",
    "target_languages",
    "source_characters",
    "target_characters",
)


@dataclass(frozen=True)
class Direction:
    provenance: str
    source_lang: str
    target_lang: str
    pairs: int
    source_characters: int
    target_characters: int

    @property
    def kind(self) -> str:
        """The provenance; for code and mathematics also the direction."""
        ends = [language(code).script is None for code in (self.source_lang, self.target_lang)]
        way = {(True, False): " to text", (False, True): " from text"}.get(tuple(ends), "")
        return self.provenance + way


@dataclass(frozen=True)
class Statistics:
    directions: tuple[Direction, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row per kind of data, and the total."""
        kinds: dict[str, list[Direction]] = {}
        for direction in self.directions:
            kinds.setdefault(direction.kind, []).append(direction)
        rows = [{"data": kind, **_sum(part)} for kind, part in kinds.items()]
        return [*rows, {"data": "total", **_sum(self.directions)}]

    def to_markdown(self) -> str:
        lines = [
            "| data | " + " | ".join(c.replace("_", " ") for c in COLUMNS) + " |",
            "|---|" + "--:|" * len(COLUMNS),
        ]
        for row in self.rows():
            lines.append("| " + " | ".join([row["data"], *(f"{row[c]:,}" for c in COLUMNS)]) + " |")
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        return {"table": self.rows(), "directions": [asdict(direction) for direction in self.directions]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Statistics:
        return cls(tuple(Direction(**direction) for direction in value["directions"]))


def _sum(part: Sequence[Direction]) -> dict[str, int]:
    return {
        "pairs": sum(d.pairs for d in part),
        "directions": len({(d.source_lang, d.target_lang) for d in part}),
        "source_languages": len({d.source_lang for d in part}),
        "target_languages": len({d.target_lang for d in part}),
        "source_characters": sum(d.source_characters for d in part),
        "target_characters": sum(d.target_characters for d in part),
    }


def collect_statistics(
    paths: Sequence[str | Path], *, executor: Any = None, on_bad_row: str = "error", **arguments: Any
) -> Statistics:
    """Count the pairs of files, folders and Hub datasets (everything that `load_parallel` reads).

    Args:
        arguments: of `load_parallel`; without `split` all rows count.

    Raises:
        FileNotFoundError: a source does not exist.
        ValueError: bad rows, or no row at all.
    """
    sources = [{"path": str(path), "label": str(path), "split": None, **arguments} for path in paths]
    units, totals = units_of(sources), Counter()
    for _, counts in (executor or LocalExecutor()).map(partial(count_unit, on_bad_row=on_bad_row), units, "Counting"):
        for key, values in counts.items():
            for name, value in zip(("pairs", "source", "target"), values):
                totals[key, name] += value
    if not totals:
        held = f" of split {arguments['split']!r}" if arguments.get("split") else ""
        raise ValueError(f"{', '.join(map(str, paths))}: no good row{held}")
    order = {name: i for i, name in enumerate(PROVENANCES)}
    keys = sorted({key for key, _ in totals}, key=lambda key: (order[key[0]], *key))
    return Statistics(tuple(Direction(*key, *(totals[key, n] for n in ("pairs", "source", "target"))) for key in keys))


def count_unit(unit: Unit, on_bad_row: str) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    """(provenance, source language, target language) -> (pairs, source characters, target characters)."""
    bad, totals = BadRows(on_bad_row), Counter()
    for table in read_unit(unit, bad):
        for key, values in _count(table):
            for i, value in enumerate(values):
                totals[key, i] += value
    bad.report()
    return {key: tuple(totals[key, i] for i in range(3)) for key, _ in totals}


def _count(table: pa.Table) -> Iterator[tuple[tuple, tuple]]:
    sides = {f"{side}_chars": pc.utf8_length(table[side]) for side in ("source", "target")}
    counted = pa.table({**{key: table[key] for key in KEYS}, **sides}).group_by(KEYS)
    counted = counted.aggregate([([], "count_all"), ("source_chars", "sum"), ("target_chars", "sum")])
    for row in counted.to_pylist():
        yield (
            tuple(row[k] for k in KEYS),
            (row["count_all"], row["source_chars_sum"], row["target_chars_sum"]),
        )
