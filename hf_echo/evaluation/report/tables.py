"""Sections of a report: the tables and figures of `measure`'s dict, in page order. Numbers are rounded here.

Contract: plain dicts in, `Section`s of text cells out; `render` makes HTML and Markdown from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...languages import LANGUAGES


@dataclass
class Grid:
    """A table of text. The first column is left-aligned, the others right-aligned; with `prose` all are left-aligned.
    `best`: cells (row, column) with the best value of their group. `average`: the last row is an average."""

    caption: str
    header: list[str]
    rows: list[list[str]]
    average: bool = False
    prose: bool = False
    best: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Section:
    """A heading, a text, tables, and names of figures (keys of `plots.figures`)."""

    title: str
    text: str
    grids: list[Grid] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)


def sections(measured: dict[str, Any]) -> list[Section]:
    """The sections of the page that have data."""
    parts = [_summary(measured), _data(measured)]
    parts += [_set(measured, name) for name in measured["xsim"]]
    main = measured["main"]
    if measured["families"]:
        rows = [[label, _number(content["average"])] for label, content in measured["families"].items()]
        parts.append(
            Section(
                f"Between families ({main})",
                "All ordered pairs of languages, without hard negatives.",
                [Grid("Mean xsim over all pairs, %", ["model", "xsim"], rows)],
                ["families"],
            )
        )
    if measured["map"]:
        parts.append(_cosines(measured))
    if any(measured["examples"].values()):
        parts.append(_examples(measured))
    parts += [_topics(name, by_lang) for name, by_lang in measured["topics"].items()]
    if measured["geometry"]:
        parts.append(_geometry(measured))
    parts += [_alignment(name, tables) for name, tables in measured["alignment"].items()]
    parts += [_speech(name, tables, measured["models"][0]["label"]) for name, tables in measured["speech"].items()]
    if measured["cost"]:
        parts.append(_cost(measured))
    if measured["skipped"]:
        rows = [line.split(": ", 1) for line in measured["skipped"]]
        parts.append(Section("Not measured", "", [Grid("", ["model", "measure and reason"], rows, prose=True)]))
    return parts


def language(code: str) -> str:
    known = LANGUAGES.get(code)
    return f"{known.name} ({code})" if known else code


def _summary(measured: dict) -> Section:
    columns: list[tuple[str, dict[str, float | None], bool]] = []
    for name, tables in measured["xsim"].items():
        for measure, title in (("xsim", "xsim"), ("xsimpp", "xsim++")):
            values = {label: (content["average"] or {}).get(measure) for label, content in tables.items()}
            if any(value is not None for value in values.values()):
                columns.append((f"{name} {title} ↓", values, True))
    for name, by_lang in measured["topics"].items():
        for lang, tables in by_lang.items():
            for measure, title in (
                ("accuracy", "topic accuracy"),
                ("clt", "CLT"),
            ):  # a weak probe can also have a high CLT
                values = {label: content["average"][measure] for label, content in tables.items()}
                columns.append((f"{name} {title} from {lang} ↑", values, False))
    for name, tables in measured["alignment"].items():
        values = {label: 100 * min(row["mean"] for row in rows) for label, rows in tables.items()}
        columns.append((f"{name} AER, best layer ↓", values, True))
    labels = [model["label"] for model in measured["models"]]
    rows = [[title, *(_number(values.get(label)) for label in labels)] for title, values, _ in columns]
    grid = Grid("Averages over languages, %", ["measure", *labels], rows)
    for at, (_, values, low) in enumerate(columns):
        grid.best |= _best([values.get(label) for label in labels], at, low)
    about = " ".join(f"{m['label']}: {m['about']}." for m in measured["models"] if m["about"])
    text = (
        f"xsim: how often the nearest {measured['target_lang']} sentence by cosine is not the translation; xsim++: the "
        f"same with rule-based hard negatives among the candidates. ↓ lower is better, ↑ higher. {about}"
    )
    return Section("Summary", text.strip(), [grid])


def _data(measured: dict) -> Section:
    rows = [
        [name, str(len(s["languages"])), str(s["sentences"]), str(s["in_all_languages"]), str(s["negatives"])]
        for name, s in measured["sets"].items()
    ]
    header = ["set", "languages", "target sentences", "in all languages", "hard negatives"]
    return Section("Data", "", [Grid("", header, rows)])


def _set(measured: dict, name: str) -> Section:
    tables = measured["xsim"][name]
    measures = [m for m in ("xsim", "xsimpp") if all(m in (c["average"] or {}) for c in tables.values())]
    titles = {"xsim": "xsim", "xsimpp": "xsim++"}
    header = ["language", "sentences", *(f"{label} {titles[m]}" for m in measures for label in tables)]
    by_model = {label: {row["lang"]: row for row in content["rows"]} for label, content in tables.items()}
    first = next(iter(by_model.values()))
    grid = Grid("Error rate in percent by language", header, [], average=True)
    for lang, row in first.items():
        numbers = [by_model[label][lang][m] for m in measures for label in tables]
        grid.best |= _best_by_measure(numbers, len(tables), len(grid.rows), shift=2)
        grid.rows.append([language(lang), str(row["count"]), *map(_number, numbers)])
    numbers = [tables[label]["average"][m] for m in measures for label in tables]
    grid.best |= _best_by_measure(numbers, len(tables), len(grid.rows), shift=2)
    grid.rows.append(["average", "", *map(_number, numbers)])
    grids = [
        grid,
        *(_group(measured["groups"][name], by, measures, titles) for by in ("family", "script", "resource")),
    ]
    figures = [f"xsim-{name}", *([f"kinds-{name}"] if "xsimpp" in measures else [])]
    return Section(f"{name}: similarity search", "", grids, figures)


def _group(groups: dict, by: str, measures: list[str], titles: dict[str, str]) -> Grid:
    labels = list(groups)
    header = [by, "languages", *(f"{label} {titles[m]}" for m in measures for label in labels)]
    grid = Grid(f"By {by}", header, [])
    for number, row in enumerate(groups[labels[0]][by]):
        numbers = [groups[label][by][number][m] for m in measures for label in labels]
        grid.best |= _best_by_measure(numbers, len(labels), number, shift=2)
        grid.rows.append([str(row[by]), str(row["languages"]), *map(_number, numbers)])
    return grid


def _cosines(measured: dict) -> Section:
    rows = [
        [label, _number(c["translations"], 3), _number(c["negatives"], 3), _number(c["nearer"])]
        for label, c in measured["cosines"].items()
    ]
    header = ["model", "with translations", "with hard negatives", "translation nearer, %"]
    caption = "Mean cosine of a target sentence; share of translations nearer than every hard negative"
    return Section(
        f"Translations against hard negatives ({measured['main']})",
        "As in OS Figure 17.",
        [Grid(caption, header, rows)],
        ["map"],
    )


def _examples(measured: dict) -> Section:
    rows = [
        [label, language(e["lang"]), e["kind"], e["source"], e["desired"], e["retrieved"]]
        for label, errors in measured["examples"].items()
        for e in errors
    ]
    header = ["model", "language", "kind", "source", "desired", "retrieved"]
    text = "Sentences for which a model chose a hard negative instead of the translation (as in ECHO Table 16)."
    return Section(f"Errors of xsim++ ({measured['main']})", text, [Grid("", header, rows, prose=True)])


def _topics(name: str, by_lang: dict) -> Section:
    grids = []
    for train_lang, tables in by_lang.items():
        labels = list(tables)
        by_model = {label: {row["lang"]: row for row in content["rows"]} for label, content in tables.items()}
        header = ["language", *(f"{label} {what}" for what in ("accuracy", "CLT") for label in labels)]
        grid = Grid(f"Probe trained on {language(train_lang)}", header, [], average=True)
        entries = [
            (language(lang), [by_model[la][lang][m] for m in ("accuracy", "clt") for la in labels])
            for lang in by_model[labels[0]]
        ]
        entries.append(
            ("average of the others", [tables[la]["average"][m] for m in ("accuracy", "clt") for la in labels])
        )
        for title, numbers in entries:
            grid.best |= _best_by_measure(numbers, len(labels), len(grid.rows), shift=1, low=False)
            grid.rows.append([title, *map(_number, numbers)])
        grids.append(grid)
    text = "A linear probe on frozen embeddings, in percent; CLT: accuracy as a share of the training language's own, "
    text += "so it says little if that is low."
    return Section(f"{name}: topics", text, grids)


def _geometry(measured: dict) -> Section:
    names = {
        "dimensions": "dimensions",
        "spread": "spread (1: no collapse)",
        "effective_rank": "effective rank",
        "centred_effective_rank": "effective rank, centred",
        "isotropy": "isotropy",
        "invariance": "invariance, nats (0 is best)",
        "calinski_harabasz": "Calinski-Harabasz",
        "rsim": "RSIM",
    }
    tables = measured["geometry"]
    rows = [[title, *(_number(row[key], 3) for row in tables.values())] for key, title in names.items()]
    text = "Invariance depends on the number of dimensions: compare only models of equal embedding size."
    return Section(f"Geometry ({measured['main']})", text, [Grid("", ["measure", *tables], rows)], ["singular"])


def _alignment(name: str, tables: dict) -> Section:
    grid = Grid("Alignment error rate in percent at each model's best layer, by language pair", ["pair"], [])
    best = {label: min(rows, key=lambda row: row["mean"]) for label, rows in tables.items()}
    grid.header += [f"{label} (layer {row['layer']})" for label, row in best.items()]
    pairs = [key for key in next(iter(best.values())) if "-" in key]
    for key in [*pairs, "mean"]:
        numbers = [100 * row[key] for row in best.values()]
        grid.best |= _best(numbers, len(grid.rows), True)
        grid.rows.append([key, *map(_number, numbers)])
    grid.average = True
    skipped = sum(rows[0].get("skipped_too_long", 0) for rows in tables.values())
    text = f"{skipped} pairs are longer than a model's limit and are left out." if skipped else ""
    return Section(f"{name}: word alignment", text, [grid], [f"aer-{name}"])


def _speech(name: str, tables: dict, text_model: str) -> Section:
    titles = {"xsim": "to English", "xsimpp": "to English, xsim++", "own_xsim": "to its text"}
    labels = list(tables)
    header = ["language", "recordings", *(f"{label} {title}" for title in titles.values() for label in labels)]
    grid = Grid("Error rate in percent by language", [*header, f"text by {text_model}"], [], average=True)
    by_lang = {label: {row["lang"]: row for row in content["rows"]} for label, content in tables.items()}
    lines = [(language(lang), str(row["count"]), lang) for lang, row in by_lang[labels[0]].items()]
    for title, count, lang in [*lines, ("average", "", None)]:
        rows = {label: by_lang[label][lang] if lang else tables[label]["average"] for label in labels}
        numbers = [rows[label].get(measure) for measure in titles for label in labels]
        grid.best |= _best_by_measure(numbers, len(labels), len(grid.rows), shift=2)
        grid.rows.append([title, count, *map(_number, [*numbers, rows[labels[0]].get("text_xsim")])])
    text = "How often the nearest text is another one: English text, with rule-based hard negatives (xsim++), and the "
    text += "transcription. The last column is the written sentence to English text, without speech."
    return Section(f"{name}: speech", text, [grid])


def _cost(measured: dict) -> Section:
    rows = measured["cost"].values()
    first = next(iter(rows))
    header = ["model", "sentences per second", "seconds, fastest to slowest round", "peak memory, MiB"]
    lines = [
        [
            label,
            _number(row["sentences_per_second"], 0),
            f"{row['fastest']:.2f} to {row['slowest']:.2f}",
            _number(row["peak_memory"], 0),
        ]
        for label, row in measured["cost"].items()
    ]
    grid = Grid("", header, lines)
    fastest = _best([row["sentences_per_second"] for row in rows], 0, False, shift=0)
    grid.best |= {(at, 1) for _, at in fastest}
    text = f"{first['sentences']} sentences of {measured['main']} in {measured['target_lang']}, median of "
    text += (
        f"{first['rounds']} rounds after one warm-up round, {first['threads']} of {first['cores']} cores, each model "
    )
    text += "in a separate process; memory is that of the process, with library and weights."
    return Section("Cost", text, [grid])


def _best(values: Iterable[float | None], row: int, low: bool, shift: int = 1) -> set[tuple[int, int]]:
    """Cells (row, column) of the best value; none for fewer than two values."""
    known = [(value, at) for at, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return set()
    best = (min if low else max)(value for value, _ in known)
    return {(row, at + shift) for value, at in known if value == best}


def _best_by_measure(numbers: list, models: int, row: int, shift: int, low: bool = True) -> set[tuple[int, int]]:
    parts = range(0, len(numbers), models)
    return set().union(*(_best(numbers[at : at + models], row, low, shift + at) for at in parts))


def _number(value: Any, digits: int = 1) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
