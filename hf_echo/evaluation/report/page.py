"""Write a report: report.json, and index.html, one page with its style and figures that needs no
network.

Numbers are rounded here only. Figures need matplotlib (extra `plots`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...languages import LANGUAGES
from .sentences import ROLES

TITLES = {"xsim": "xsim", "xsimpp": "xsim++", "clt": "CLT"}
COLOURS = ("#3b82d6", "#e07b18", "#2a9d62", "#c8508f", "#8b6fd1", "#9a8a2a", "#1f9aa8", "#b5523b")
GEOMETRY = (
    "dimensions",
    "spread",
    "effective_rank",
    "isotropy",
    "invariance",
    "calinski_harabasz",
    "rsim",
)
# shape and size
MARKS = {
    "other": ("o", 7),
    "translation": ("o", 24),
    "target": ("*", 170),
    "negative": ("X", 46),
}
WORDS = {
    "effective_rank": "effective rank",
    "calinski_harabasz": "Calinski-Harabasz: languages apart (low is mixed)",
    "rsim": "RSIM",
    "lang": "language",
}
PROSE = {"retrieved", "source", "target"}  # columns of sentences
Rows = list[dict[str, Any]]


def write_report(
    measured: dict[str, Any], out: str | Path, *, title: str = "Embedding spaces"
) -> list[Path]:
    """Write the report into a folder; return the files, the page first.
    Raises ImportError without matplotlib."""
    page = Path(out) / "index.html"
    data = Path(out) / "report.json"
    page.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(measured, ensure_ascii=False, indent=1, default=float, allow_nan=False) + "\n"
    data.write_text(text, encoding="utf-8")
    page.write_text(page_of(sections(measured), title), encoding="utf-8")
    return [page, data]


def page_of(parts: Sequence[dict[str, Any]], title: str) -> str:
    """The HTML of a page of sections (`section_of`), which needs no network."""
    from jinja2 import Environment

    source = (files(__package__) / "report.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        source
    )
    return template.render(sections=parts, title=title)


def sections(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """{title, text, grids: [{caption, header, rows}], figures: [svg]} of each part that has
    data."""
    main = measured["main"]
    parts = [*_overview(measured), *_searches(measured)]
    if measured["map"]:
        parts.append(_maps(measured["map"], main))
    examples: Rows = []
    for label, rows in measured["examples"].items():
        examples += [{"model": label} | row for row in rows]
    if examples:
        text = "Sentences for which a model chose a hard negative instead of the translation."
        parts.append(section_of(f"Errors of xsim++ ({main})", text, {"": examples}))
    parts += _probes(measured["topics"])
    if measured["geometry"]:
        parts.append(_geometry(measured))
    # A line of what was skipped is "model: reason".
    if measured["skipped"]:
        reasons = [line.split(": ", 1) for line in measured["skipped"]]
        rows = [dict(zip(("model", "reason"), reason, strict=False)) for reason in reasons]
        parts.append(section_of("Not measured", "", {"": rows}))
    return parts


def _overview(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """What was measured on what, and one row a model."""
    target = measured["target_lang"]
    text = (
        f"xsim: how often the nearest {target} sentence by cosine is not the translation, in percent; xsim++: the same "
        f"with hard negatives among the candidates ({_sources(measured)}). Average: the mean over languages, then over "
        "sets."
    )
    for model in measured["models"]:
        if model["about"]:
            text += f" {model['label']}: {model['about']}."
    sets = []
    for name, description in measured["sets"].items():
        sets.append({"set": name} | description | {"languages": len(description["languages"])})
    summary = section_of("Summary", text, {"": _summary(measured)})
    return [summary, section_of("Data", "", {"": sets})]


def _searches(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """A section for each data set of similarity search: error rates by language and by group."""
    parts = []
    for name, tables in measured["xsim"].items():
        grids = {"Error rate in percent by language": _side_by_side(tables)}
        for by, groups in measured["groups"][name].items():
            grids[f"By {by}"] = _side_by_side(groups, by)
        parts.append(section_of(f"{name}: similarity search", "", grids))
    return parts


def _maps(maps: Mapping[str, Any], main: str) -> dict[str, Any]:
    """The section of maps of translations among hard negatives, a map for each model."""
    method = next(iter(maps.values()))["method"]
    text = (
        f"{method} of sentences in all languages. Colours: three sentences with their translations (dots), the "
        "target (star) and its hard negatives (crosses); grey: other sentences."
    )
    figures = [_map(label, content) for label, content in maps.items()]
    return section_of(f"Translations against hard negatives ({main})", text, {}, figures)


def _probes(topics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sections about classification by topic."""
    text = (
        "Accuracy in percent of logistic regression on frozen embeddings, by mteb's protocol: ten draws of eight "
        "training sentences per topic. CLT: accuracy as a share of the training language's."
    )
    parts = []
    for name, by_lang in topics.items():
        grids = {}
        for lang, tables in by_lang.items():
            grids[f"Trained on {_language(lang)}"] = _side_by_side(tables)
        parts.append(section_of(f"{name}: topics", text, grids))
    return parts


def _geometry(measured: dict[str, Any]) -> dict[str, Any]:
    """The section on the geometry of the embeddings, with the curves of singular values."""
    labels = [model["label"] for model in measured["models"]]
    colours = dict(zip(labels, COLOURS * len(labels)))
    rows = []
    for label, values in measured["geometry"].items():
        rows.append({"model": label} | {name: values[name] for name in GEOMETRY})
    text = "Below: singular values of all embeddings, as shares of the largest. Compare invariance at equal size."
    figure = _curves(measured["singular_values"], colours)
    return section_of(f"Geometry ({measured['main']})", text, {"": rows}, [figure])


def section_of(
    title: str, text: str, tables: Mapping[str, Rows], figures: Sequence[str] = ()
) -> dict[str, Any]:
    """A section of a page: tables (caption -> rows) and figures (SVG).
    Rows of sentences are set as prose."""
    grids = [_grid(caption, rows) for caption, rows in tables.items()]
    return {"title": title, "text": text.strip(), "grids": grids, "figures": figures}


def _grid(caption: str, rows: Rows) -> dict[str, Any]:
    """A table as cells: its text, "text" (set flush left) or "number", whether it is the best,
    the bar behind it."""
    table = pd.DataFrame(rows, dtype=object)
    header = list(table)
    # Counts and sizes have no best value and no bar.
    numbers = table.map(lambda value: value if isinstance(value, float) else np.nan).astype(float)
    best = _best(numbers)
    bars = pd.DataFrame()
    if header[0] == "lang":  # they compare numbers of one measure, whatever the model
        largest = numbers.max().groupby(_measure).transform("max")
        bars = (100 * numbers.clip(lower=0) / largest).round()
    kinds = {name: _kind(table[name]) for name in header}
    lines = []
    for number, row in enumerate(rows):
        line = []
        for name in header:
            value = row.get(name)
            bar = bars[name][number] if name in bars else np.nan
            line.append(
                {
                    "text": _marked(value, row) if name == "retrieved" and value else _cell(value),
                    "kind": kinds[name],
                    "best": best[name][number],
                    "bar": None if np.isnan(bar) else int(bar),
                }
            )
        lines.append(line)
    words = [{"text": WORDS.get(name, name), "kind": kinds[name]} for name in header]
    prose = not PROSE.isdisjoint(header)
    return {"caption": caption, "header": words, "rows": lines, "prose": prose}


def _measure(column: str) -> str:
    """The measure of a column "MODEL MEASURE"."""
    return column.rpartition(" ")[2]


def _kind(column: pd.Series) -> str:
    return "text" if any(isinstance(value, str) for value in column) else "number"


def _is_lower_better(name: str) -> bool | None:
    """Whether a lower value of a column is better; None where no value is better than another."""
    if name.endswith(("xsim", "xsim++")):
        return True
    return False if name.endswith(("accuracy", "CLT")) or " topics from " in name else None


def _best(numbers: pd.DataFrame) -> pd.DataFrame:
    """Whether each number is the best of the models, which are the rows or stand beside each
    other."""
    models_are_rows = numbers.columns[0] == "model"
    best = pd.DataFrame(False, numbers.index, numbers.columns)
    for name in numbers:
        lower = _is_lower_better(name)
        if lower is None:
            continue
        of_measure = numbers.columns.map(_measure) == _measure(name)
        rivals = numbers[[name]] if models_are_rows else numbers.loc[:, of_measure].T
        # of (models, 1) or (models, rows)
        lowest = np.fmin.reduce(rivals.to_numpy())
        highest = np.fmax.reduce(rivals.to_numpy())
        is_extreme = numbers[name].to_numpy() == (lowest if lower else highest)
        best[name] = is_extreme & (lowest != highest)
    return best


def _marked(text: str, row: Mapping[str, Any]) -> Any:
    """The retrieved sentence as HTML; words that the desired one does not have at their place are
    marked."""
    from jinja2.utils import markupsafe

    words = text.split()
    matcher = SequenceMatcher(None, row["desired"].split(), words, autojunk=False)
    same: set[int] = set()
    for block in matcher.get_matching_blocks():
        same.update(range(block.b, block.b + block.size))
    shown = []
    for number, word in enumerate(words):
        mark = "{}" if number in same else "<mark>{}</mark>"
        shown.append(markupsafe.Markup(mark).format(word))
    return markupsafe.Markup(" ").join(shown)


def _sources(measured: dict[str, Any]) -> str:
    """Which negatives the sets have: "FLORES: published set; NTREX: rule negatives"."""
    sources = {
        name: description["negatives_from"] or "none"
        for name, description in measured["sets"].items()
    }
    if len(set(sources.values())) == 1:
        return next(iter(sources.values()))
    return "; ".join(f"{name}: {source}" for name, source in sources.items())


def _summary(measured: dict[str, Any]) -> Rows:
    """A row for each model: xsim, xsim++ and accuracies of all sets."""
    rows = []
    for model in measured["models"]:
        label = model["label"]
        row = {"model": label}
        for name, tables in measured["xsim"].items():
            row |= _errors(name, tables[label]["average"])
        for name, by_lang in measured["topics"].items():
            for lang, tables in by_lang.items():
                row[f"{name} topics from {lang}"] = tables[label]["average"]["accuracy"]
        averages = measured["averages"].get(label) or {}
        rows.append(row | _errors("average", averages.get("average")))
    return rows


def _errors(name: str, average: Mapping[str, Any] | None) -> dict[str, Any]:
    """The error rates of an average, under the title of each."""
    average = average or {}
    return {
        f"{name} {TITLES[column]}": average[column]
        for column in ("xsim", "xsimpp")
        if column in average
    }


def _side_by_side(tables: Mapping[str, dict[str, Any]], key: str = "lang") -> Rows:
    """One row per language (or group), with the averaged columns of every model beside each
    other."""
    first = next(iter(tables.values()))
    counts = [name for name in ("count", "languages") if name in first["rows"][0]]
    columns = [name for name in first["average"] or {} if name not in (key, "languages", "count")]
    # Model -> language -> its row; the average is the last.
    lines: dict[str, dict[Any, dict[str, Any]]] = {}
    for label, table in tables.items():
        average = table["average"] or {key: "average"}
        lines[label] = {row[key]: row for row in [*table["rows"], average]}

    rows = []
    of_first = next(iter(lines.values()))
    for name in of_first:
        row = {key: _language(name)} | {count: of_first[name].get(count) for count in counts}
        for column in columns:
            for label, of_model in lines.items():
                row[f"{label} {TITLES.get(column, column)}"] = of_model.get(name, {}).get(column)
        rows.append(row)
    return rows


def _language(code: Any) -> str:
    properties = LANGUAGES.get(code)
    return f"{properties.name} ({code})" if properties else str(code)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{3 if 0 < abs(value) < 1 else 1}f}"
    return "" if value is None else _language(value)


def svg_of(draw: Callable[[Any], None], width: float, height: float) -> str:
    """The figure as an SVG element; equal figures are equal texts."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "hf-echo", "legend.frameon": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def _map(label: str, content: Mapping[str, Any]) -> str:
    """The map of the sentences of a model, as SVG."""

    def draw(axis: Any) -> None:
        # the others lie below
        for x, y, role, focus in sorted(content["points"], key=lambda point: point[2:]):
            marker, size = MARKS[ROLES[role]]
            colour = "#9a9a9a" if focus < 0 else COLOURS[focus % len(COLOURS)]
            axis.scatter(x, y, size, color=colour, marker=marker, alpha=0.7)
        axis.set(xticks=[], yticks=[], title=label)

    return svg_of(draw, 4.0, 3.6)


def _curves(curves: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> str:
    """The singular values of each model on a logarithmic scale, as SVG."""

    def draw(axis: Any) -> None:
        for label, values in curves.items():
            shown = [value for value in values if value > 1e-7]  # smaller ones are rounding error
            axis.plot(range(1, len(shown) + 1), shown, color=colours[label], label=label)
        axis.set(yscale="log", xlabel="singular value")
        axis.legend(fontsize=9)

    return svg_of(draw, 4.8, 3.2)
