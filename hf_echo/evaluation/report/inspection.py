"""A page about sentence pairs: what each filter of a data recipe keeps and drops, with the pairs at
its border.

Every filter judges all pairs, so that one can see what it alone would drop. Nothing is written but
the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...data.formats import open_file
from ...data.pipeline.data_recipe import Step
from ...data.pipeline.filters import FILTERS, LengthRatio, build
from ...data.pipeline.filters.columns import by_direction, numbers
from ...data.pipeline.filters.threshold import DirectionThreshold, score
from ...data.pipeline.units import read_unit, units_of
from ...data.tables import BadRows
from ...inference.encoders import Encode
from ...utils.files import write_text
from .page import Rows, page_of, section_of, svg_of

# Filters of a page without a recipe; those of the recipe `mined`, and a threshold where the pairs
# have scores.
USUAL: tuple[tuple[str, dict[str, str]], ...] = (
    ("sanity", {}),
    ("length_ratio", {}),
    ("exact_duplicates", {"side": "both"}),
)
KEPT, DROPPED = "#3b82d6", "#d9822b"
BINS = 40


@dataclass(frozen=True)
class Judged:
    """What a filter says about every pair.

    Attributes:
        keep: (rows,) booleans. margin: (rows,) how far inside the filter's limit a pair is,
            negative for those that it drops; None for a filter that does not measure. line: the
            step in a recipe.
    """

    name: str
    keep: np.ndarray
    margin: np.ndarray | None
    line: str


def read_pairs(
    paths: Sequence[str | Path],
    *,
    limit: int,
    bad: BadRows | None = None,
    columns: Mapping[str, str] | None = None,
    **langs: str | None,
) -> pa.Table:
    """The first pairs of files, as a table of the parallel schema; a column `score` is the column
    `quality`.

    Args:
        bad: collects the rows that are no pairs, which are skipped.
        columns: names in the files of columns of the schema. langs: source_lang, target_lang, where
            no column has it.

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file, or no pairs.
    """
    bad = bad or BadRows("skip")
    tables = []
    rows = 0
    for table in _tables(paths, dict(columns or {}), langs, bad):
        tables.append(table.slice(0, limit - rows))
        rows += len(tables[-1])
        if rows >= limit:
            break
    if not rows:
        reason = f" ({bad.first[0]})" if bad.first else ""
        raise ValueError(f"{paths[0]} has no pairs{reason}")
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def _tables(
    paths: Sequence[str | Path],
    columns: dict[str, str],
    langs: Mapping[str, str | None],
    bad: BadRows,
) -> Iterator[pa.Table]:
    """The pairs of all files, in blocks."""
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"no file {path}; give a file or folder of pairs")
        names = columns
        if path.is_file() and "score" in open_file(path).columns:
            names = {"quality": "score"} | columns
        source: dict[str, Any] = {"path": str(path), "label": str(path), "split": None}
        source |= {name: value for name, value in langs.items() if value}
        if names:
            source["columns"] = names
        for unit in units_of([source]):
            yield from read_unit(unit, bad)


def judge(table: pa.Table, steps: Sequence[Step] | None = None) -> list[Judged]:
    """What the filters of a recipe say; without steps those of USUAL,
    and a threshold where there are scores."""
    if steps is None:
        steps = [Step(name, build(name, fields)) for name, fields in USUAL]
        if "quality" in table.column_names and not np.isnan(numbers(table, "quality")).all():
            steps.append(Step("threshold", build("threshold", {})))
    judged = []
    for step in steps:
        if step.kind == "rows":
            fitted = step.work.fit([table]) if hasattr(step.work, "fit") else step.work
            keep = np.asarray(fitted.keep(table), bool)
            margin = _margin(fitted, table)
        elif step.kind == "keys":
            keep = _first_of_each_key(
                step.work.keys(table), getattr(step.work, "shared_keys", False)
            )
            margin = None
        else:
            continue  # a column, or a cap by group, does not judge a pair by itself
        keep = keep | ~step.concerns(table)
        judged.append(Judged(step.name, keep, margin, recipe_line(step)))
    if not judged:
        raise ValueError("the recipe has no filter that judges pairs")
    return judged


def _margin(work: Any, table: pa.Table) -> np.ndarray | None:
    """How far inside its limit a pair is, for the filters that measure."""
    if isinstance(work, LengthRatio):
        return work.limit - np.abs(work.scores(table))
    if isinstance(work, DirectionThreshold):
        margin = numbers(table, "quality").astype(np.float64)
        for (source, target), rows in by_direction(table):
            margin[rows] -= work.threshold(source, target)
        return margin
    return None


def _first_of_each_key(keys: np.ndarray, shared: bool) -> np.ndarray:
    """(rows,) whether no earlier kept row has one of the keys
    (see `hf_echo.data.pipeline.filters`)."""
    keep = np.ones(len(keys), bool)
    seen: set[tuple[int, int]] = set()
    for row, of_row in enumerate(keys.reshape(len(keys), -1).tolist()):
        row_keys = {(0 if shared else column, key) for column, key in enumerate(of_row) if key}
        if row_keys & seen:
            keep[row] = False
        else:
            seen |= row_keys
    return keep


def recipe_line(step: Step) -> str:
    """The step as a recipe has it, in one line: `- {filter: length_ratio, limit: 3.0}`."""
    values: dict[str, Any] = {"filter": step.name}
    if step.name in FILTERS and not isinstance(step.work, type):
        usual = asdict(build(step.name))
        for name, value in asdict(step.work).items():
            if value != usual[name]:
                values[name] = value
    fields = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        fields.append(f"{name}: {text}")
    return f"- {{{', '.join(fields)}}}"


def inspect_pairs(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    steps: Sequence[Step] | None = None,
    scorer: Encode | None = None,
    limit: int = 20_000,
    examples: int = 8,
    columns: Mapping[str, str] | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> dict[str, Any]:
    """Write the page of the first `limit` pairs of files; returns counts. Rows that are no pairs are
    skipped and counted, with a warning.

    Args:
        out: an HTML file.
        steps: of a data recipe. scorer: gives the pairs scores, instead of their column.
        examples: pairs of each table.

    Raises:
        ImportError: without matplotlib. FileNotFoundError, ValueError: as `read_pairs` and `judge`.
    """
    bad = BadRows("skip")
    langs = {"source_lang": source_lang, "target_lang": target_lang}
    table = read_pairs(paths, limit=limit, bad=bad, columns=columns, **langs)
    skipped = bad.report()
    if scorer is not None:
        table = score(table, scorer, again=True)
    judged = judge(table, steps)
    title = f"Pairs of {', '.join(Path(path).name for path in paths)}"
    write_text(out, page_of(_sections(table, judged, examples, skipped), title))
    kept = np.logical_and.reduce([verdict.keep for verdict in judged])
    dropped = {verdict.name: int((~verdict.keep).sum()) for verdict in judged}
    return {
        "pairs": len(table),
        "bad_rows": bad.reasons.total(),
        "kept": int(kept.sum()),
        "dropped": dropped,
        "out": str(out),
    }


def _sections(
    table: pa.Table, judged: Sequence[Judged], examples: int, skipped: str | None
) -> list[dict[str, Any]]:
    """The sections of the page: all filters, the values, and each filter with examples."""
    kept = np.logical_and.reduce([verdict.keep for verdict in judged])
    text = f"{len(table):,} pairs, of which all filters together keep {kept.sum():,}. Blue is kept, orange is dropped."
    if skipped:
        text += f" Of the files: {skipped}."
    parts = [section_of("Filters", text, {"": _summary(judged)})]
    parts.append(
        section_of("Values", "", {"Languages": _languages(table, kept)}, _histograms(table, kept))
    )
    for verdict in judged:
        parts.append(_section_of_filter(table, verdict, examples))
    return parts


def _summary(judged: Sequence[Judged]) -> Rows:
    """What each filter drops: at all, alone, and what is left after it."""
    rows = []
    left = np.ones(len(judged[0].keep), bool)
    for number, verdict in enumerate(judged):
        others = [other.keep for place, other in enumerate(judged) if place != number]
        only = ~verdict.keep & np.logical_and.reduce([*others, np.ones(len(left), bool)])
        left = left & verdict.keep
        rows.append(
            {
                "filter": verdict.name,
                "drops": int((~verdict.keep).sum()),
                "percent": 100 * float((~verdict.keep).mean()),
                "which no other drops": int(only.sum()),
                "left after it": int(left.sum()),
                "in a recipe": verdict.line,
            }
        )
    return rows


def _languages(table: pa.Table, kept: np.ndarray) -> Rows:
    """Pairs of each direction, the 40 largest first."""
    langs = table.select(["source_lang", "target_lang"]).to_pandas()
    directions = langs.assign(kept=kept).groupby(["source_lang", "target_lang"]).kept
    kept_counts = directions.sum()
    rows = []
    for (source, target), count in directions.size().nlargest(40).items():
        kept_count = int(kept_counts[source, target])
        rows.append({"from": source, "to": target, "pairs": count, "kept": kept_count})
    return rows


def _histograms(table: pa.Table, kept: np.ndarray) -> list[str]:
    """Scores, lengths and their ratio, of kept and dropped pairs."""
    lengths = [pc.utf8_length(table[side]).to_numpy() for side in ("source", "target")]
    ratio = np.log2(np.maximum(lengths[0], 1) / np.maximum(lengths[1], 1))
    shown = [
        ("characters of the source", np.minimum(lengths[0], np.percentile(lengths[0], 99))),
        ("characters of the target", np.minimum(lengths[1], np.percentile(lengths[1], 99))),
        ("length of source by target, as a power of 2", ratio),
    ]
    if "quality" in table.column_names:
        shown.insert(0, ("score", numbers(table, "quality")))
    figures = []
    for label, values in shown:
        is_number = np.isfinite(values)
        if is_number.any():
            figures.append(_histogram(label, values[is_number & kept], values[is_number & ~kept]))
    return figures


def _histogram(label: str, kept: np.ndarray, dropped: np.ndarray) -> str:
    """A histogram of a value, of kept and dropped pairs, as SVG."""

    def draw(axis: Any) -> None:
        axis.hist(
            [kept, dropped],
            bins=BINS,
            stacked=True,
            color=[KEPT, DROPPED],
            label=["kept", "dropped"],
        )
        axis.set(xlabel=label, ylabel="pairs")
        axis.legend(fontsize=9)

    return svg_of(draw, 4.8, 2.6)


def _section_of_filter(table: pa.Table, verdict: Judged, examples: int) -> dict[str, Any]:
    """The worst and the borderline pairs of a filter that measures;
    of another one the first that it drops."""
    dropped = np.flatnonzero(~verdict.keep)
    text = f"Drops {len(dropped):,} pairs. In a recipe: {verdict.line}"
    if verdict.margin is None:
        tables = {f"The first that {verdict.name} drops": _pairs(table, dropped[:examples])}
    else:
        order = np.argsort(
            np.where(np.isnan(verdict.margin), np.inf, verdict.margin), kind="stable"
        )
        of_dropped = order[~verdict.keep[order]]
        of_kept = order[verdict.keep[order]]
        tables = {
            "The worst": _pairs(table, of_dropped[:examples], verdict.margin),
            "Just dropped": _pairs(table, of_dropped[::-1][:examples], verdict.margin),
            "Just kept": _pairs(table, of_kept[:examples], verdict.margin),
        }
    return section_of(
        f"Filter: {verdict.name}", text, {caption: rows for caption, rows in tables.items() if rows}
    )


def _pairs(table: pa.Table, rows: np.ndarray, margin: np.ndarray | None = None) -> Rows:
    """The rows of the table that are shown as examples."""
    shown = table.take(pa.array(rows))
    pairs = []
    for number, row in zip(rows.tolist(), shown.to_pylist(), strict=True):
        pair = {"row": number + 1, "source": row["source"], "target": row["target"]}
        if row.get("quality") is not None:
            pair["score"] = float(row["quality"])
        if margin is not None:
            pair["inside the limit by"] = f"{margin[number]:.2f}"
        pairs.append(pair)
    return pairs
