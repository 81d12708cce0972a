"""Write a report: report.json, and index.html, one page with its style and figures that needs no network.

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
MARKS = {
    "other": ("o", 7),
    "translation": ("o", 24),
    "target": ("*", 170),
    "negative": ("X", 46),
}  # shape and size
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
    """Write the report into a folder; return the files, the page first. Raises ImportError without matplotlib."""
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
    """{title, text, grids: [{caption, header, rows}], figures: [svg]} of each part that has data."""
    main = measured["main"]
    target = measured["target_lang"]
    colours = dict(
        zip((model["label"] for model in measured["models"]), COLOURS * len(measured["models"]))
    )
    text = (
        f"xsim: how often the nearest {target} sentence by cosine is not the translation, in percent; xsim++: the same "
        f"with hard negatives among the candidates ({_sources(measured)}). Average: the mean over languages, then over "
        "sets. "
    )
    text += " ".join(
        f"{model['label']}: {model['about']}." for model in measured["models"] if model["about"]
    )
    sets = [
        {"set": name} | about | {"languages": len(about["languages"])}
        for name, about in measured["sets"].items()
    ]
    parts = [
        section_of("Summary", text, {"": _summary(measured)}),
        section_of("Data", "", {"": sets}),
    ]
    for name, tables in measured["xsim"].items():
        grids = {"Error rate in percent by language": _side_by_side(tables)}
        grids |= {
            f"By {by}": _side_by_side(groups, by) for by, groups in measured["groups"][name].items()
        }
        parts.append(section_of(f"{name}: similarity search", "", grids))
    if measured["map"]:
        method = next(iter(measured["map"].values()))["method"]
        text = (
            f"{method} of sentences in all languages. Colours: three sentences with their translations (dots), the "
            "target (star) and its hard negatives (crosses); grey: other sentences."
        )
        drawn = [_map(label, content) for label, content in measured["map"].items()]
        parts.append(section_of(f"Translations against hard negatives ({main})", text, {}, drawn))
    if examples := [
        {"model": label} | row for label, rows in measured["examples"].items() for row in rows
    ]:
        text = "Sentences for which a model chose a hard negative instead of the translation."
        parts.append(section_of(f"Errors of xsim++ ({main})", text, {"": examples}))
    for name, by_lang in measured["topics"].items():
        text = (
            "Accuracy in percent of logistic regression on frozen embeddings, by mteb's protocol: ten draws of eight "
            "training sentences per topic. CLT: accuracy as a share of the training language's."
        )
        probes = {
            f"Trained on {_language(lang)}": _side_by_side(tables)
            for lang, tables in by_lang.items()
        }
        parts.append(section_of(f"{name}: topics", text, probes))
    if measured["geometry"]:
        rows = [
            {"model": label} | {n: row[n] for n in GEOMETRY}
            for label, row in measured["geometry"].items()
        ]
        text = "Below: singular values of all embeddings, as shares of the largest. Compare invariance at equal size."
        parts.append(
            section_of(
                f"Geometry ({main})",
                text,
                {"": rows},
                [_curves(measured["singular_values"], colours)],
            )
        )
    if measured["skipped"]:
        rows = [
            dict(zip(("model", "reason"), line.split(": ", 1), strict=False))
            for line in measured["skipped"]
        ]
        parts.append(section_of("Not measured", "", {"": rows}))
    return parts


def section_of(
    title: str, text: str, tables: Mapping[str, Rows], figures: Sequence[str] = ()
) -> dict[str, Any]:
    """A section of a page: tables (caption -> rows) and figures (SVG). Rows of sentences are set as prose."""
    grids = []
    for caption, rows in tables.items():
        header = list(dict.fromkeys(name for row in rows for name in row))
        best = _best(header, rows)
        cells = []
        for number, row in enumerate(rows):
            line = []
            for name in header:
                kind = "text" if isinstance(row.get(name), str) else "number"
                is_error = name == "retrieved" and row.get(name)
                content = _marked(row[name], row) if is_error else _cell(row.get(name))
                line.append({"text": content, "kind": kind, "best": (number, name) in best})
            cells.append(line)
        words = [{"text": WORDS.get(name, name), "kind": _kind(name, rows)} for name in header]
        grids.append(
            {
                "caption": caption,
                "header": words,
                "rows": cells,
                "prose": not PROSE.isdisjoint(header),
            }
        )
    return {"title": title, "text": text.strip(), "grids": grids, "figures": figures}


def _kind(name: str, rows: Rows) -> str:
    """ "text" for a column of texts, which is set flush left; else "number"."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return "text" if values and all(isinstance(value, str) for value in values) else "number"


def _is_lower_better(name: str) -> bool | None:
    """Whether a lower value of a column is better; None where no value is better than another."""
    if name.endswith(("xsim", "xsim++")):
        return True
    return False if name.endswith(("accuracy", "CLT")) or " topics from " in name else None


def _best(header: Sequence[str], rows: Rows) -> set[tuple[int, str]]:
    """(row, column) of the best values: of the models of a table, which are its rows or stand beside each other."""
    groups: list[list[tuple[int, str]]] = []
    if header and header[0] == "model":
        groups = [[(number, name) for number in range(len(rows))] for name in header]
    else:
        for number in range(len(rows)):
            by_measure: dict[str, list[tuple[int, str]]] = {}
            for name in header:
                by_measure.setdefault(name.rpartition(" ")[2], []).append((number, name))
            groups += by_measure.values()
    best = set()
    for group in groups:
        lower = _is_lower_better(group[0][1])
        values = {place: rows[place[0]].get(place[1]) for place in group}
        measured = {place: value for place, value in values.items() if isinstance(value, float)}
        if lower is None or len(set(measured.values())) < 2:
            continue
        target = min(measured.values()) if lower else max(measured.values())
        best |= {place for place, value in measured.items() if value == target}
    return best


def _marked(text: str, row: Mapping[str, Any]) -> Any:
    """The retrieved sentence as HTML; words that the desired one does not have at their place are marked."""
    from jinja2.utils import markupsafe

    words = text.split()
    matcher = SequenceMatcher(None, row["desired"].split(), words, autojunk=False)
    same = {
        number
        for block in matcher.get_matching_blocks()
        for number in range(block.b, block.b + block.size)
    }
    shown = [
        markupsafe.escape(word)
        if number in same
        else markupsafe.Markup("<mark>{}</mark>").format(word)
        for number, word in enumerate(words)
    ]
    return markupsafe.Markup(" ").join(shown)


def _sources(measured: dict[str, Any]) -> str:
    """Which negatives the sets have: "FLORES: published set; NTREX: rule negatives"."""
    sources = {name: about["negatives_from"] or "none" for name, about in measured["sets"].items()}
    if len(set(sources.values())) == 1:
        return next(iter(sources.values()))
    return "; ".join(f"{name}: {source}" for name, source in sources.items())


def _summary(measured: dict[str, Any]) -> Rows:
    rows = []
    for model in measured["models"]:
        row = {"model": model["label"]}
        label = model["label"]
        for name, tables in measured["xsim"].items():
            average = tables[label]["average"] or {}
            row |= {
                f"{name} {TITLES[column]}": average[column]
                for column in ("xsim", "xsimpp")
                if column in average
            }
        for name, by_lang in measured["topics"].items():
            for lang, tables in by_lang.items():
                row |= {f"{name} topics from {lang}": tables[label]["average"]["accuracy"]}
        averages = (measured["averages"].get(label) or {}).get("average", {})
        row |= {
            f"average {TITLES[column]}": averages[column]
            for column in ("xsim", "xsimpp")
            if column in averages
        }
        rows.append(row)
    return rows


def _side_by_side(tables: Mapping[str, dict[str, Any]], key: str = "lang") -> Rows:
    """One row per language (or group), with the averaged columns of every model beside each other."""
    first = next(iter(tables.values()))
    columns = [
        name
        for name in first["average"] or {}
        if name != key and name not in ("languages", "count")
    ]
    lines = [
        {row[key]: row for row in [*table["rows"], table["average"] or {key: "average"}]}
        for table in tables.values()
    ]
    rows = []
    for name in lines[0]:
        own = [of_model.get(name, {}) for of_model in lines]
        row = {key: _language(name)} | {
            what: own[0].get(what) for what in ("count", "languages") if what in first["rows"][0]
        }
        rows.append(
            row
            | {
                f"{lab} {TITLES.get(c, c)}": one.get(c)
                for c in columns
                for lab, one in zip(tables, own)
            }
        )
    return rows


def _language(code: Any) -> str:
    known = LANGUAGES.get(code)
    return f"{known.name} ({code})" if known else str(code)


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
    def draw(axis: Any) -> None:
        for x, y, role, focus in sorted(
            content["points"], key=lambda point: point[2:]
        ):  # the others lie below
            marker, size = MARKS[ROLES[role]]
            colour = "#9a9a9a" if focus < 0 else COLOURS[focus % len(COLOURS)]
            axis.scatter(x, y, size, color=colour, marker=marker, alpha=0.7)
        axis.set(xticks=[], yticks=[], title=label)

    return svg_of(draw, 4.0, 3.6)


def _curves(curves: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> str:
    def draw(axis: Any) -> None:
        for label, values in curves.items():
            shown = [value for value in values if value > 1e-7]  # smaller ones are rounding error
            axis.plot(range(1, len(shown) + 1), shown, color=colours[label], label=label)
        axis.set(yscale="log", xlabel="singular value")
        axis.legend(fontsize=9)

    return svg_of(draw, 4.8, 3.2)
