"""Counts of kept and dropped rows per step, by direction and by language: counts.json and a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Directions = dict[str, list[int]]  # "fra_Latn>eng_Latn" -> [rows in, rows kept]
LINES = 250  # maximum length of the Markdown table; JSON has all directions


def by_direction(table: pa.Table) -> dict[str, int]:
    """Number of rows of each direction."""
    counts = table.select(["source_lang", "target_lang"]).group_by(["source_lang", "target_lang"])
    counts = counts.aggregate([([], "count_all")]).to_pydict()
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
    """Rows in, kept and dropped of each step: in total, by direction, by source and by target language."""
    return [
        {
            "step": name,
            **_three(directions.values()),
            "directions": {key: _three([value]) for key, value in directions.items()},
            "source_languages": _by_side(directions, 0),
            "target_languages": _by_side(directions, 1),
        }
        for name, directions in steps
    ]


def _three(pairs: Iterable[Sequence[int]]) -> dict[str, int]:
    pairs = list(pairs)
    before, after = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
    return {"in": before, "kept": after, "dropped": before - after}


def _by_side(directions: Directions, side: int) -> dict[str, dict[str, int]]:
    groups: dict[str, list] = {}
    for name, pair in directions.items():
        groups.setdefault(name.split(">")[side], []).append(pair)
    return {name: _three(pairs) for name, pairs in sorted(groups.items())}


def steps_table(steps: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| step | rows in | kept | dropped | kept, % |", "|---|--:|--:|--:|--:|"]
    for step in steps:
        share = f"{100 * step['kept'] / step['in']:.1f}" if step["in"] else ""
        numbers = " | ".join(f"{step[name]:,}" for name in ("in", "kept", "dropped"))
        lines.append(f"| {step['step']} | {numbers} | {share} |")
    return "\n".join(lines)


def as_markdown(steps: Sequence[Mapping[str, Any]]) -> str:
    """Two tables: the steps, and the rows of each direction (or source language, if too many) after each step."""
    kind = "directions" if len(steps[0]["directions"]) <= LINES else "source_languages"
    names = sorted({name for step in steps for name in step[kind]})
    head = " | ".join(f"{i} {step['step']}" for i, step in enumerate(steps))
    lines = [
        steps_table(steps),
        "",
        f"Rows after each step, by {kind.replace('_', ' ').removesuffix('s')}:",
        "",
    ]
    lines += [f"| | {head} |", "|---|" + "--:|" * len(steps)]
    for name in names:
        cells = (f"{step[kind].get(name, {'kept': 0})['kept']:,}" for step in steps)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
