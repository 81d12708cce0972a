"""Figures of a report as SVG text. Needs matplotlib (extra `plots`).

Contract: `measure`'s dict in, {name: (caption, [svg, ...])} out. Each SVG uses the text colour of its page, so that one
figure serves light and dark pages. Figures without data are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

from .space import ROLES

INK = "#010203"  # becomes currentColor
COLOURS = ("#3b82d6", "#e07b18", "#2a9d62", "#c8508f", "#8b6fd1", "#9a8a2a", "#1f9aa8", "#b5523b")
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hf-echo",  # ids depend on the content only, so that reports are reproducible
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **{name: INK for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")},
}


def check_matplotlib() -> None:
    """Raise ImportError, with the extra to install, before long measurements."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("a report needs matplotlib: pip install 'hf-echo[plots]'") from None


def figures(measured: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """{name: (caption, SVGs)} of every figure with data."""
    labels = [model["label"] for model in measured["models"]]
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    drawings: dict[str, tuple[str, list[str]]] = {}
    for name, tables in measured["xsim"].items():
        svgs = [_bars(tables, colours, m) for m in ("xsim", "xsimpp") if _has(tables, m)]
        drawings[f"xsim-{name}"] = (f"{name}: error rate in percent by language, lower is better.", svgs)
        if _has(tables, "xsimpp"):
            drawings[f"kinds-{name}"] = (
                f"{name}: wrong choices of xsim++ by kind, in percent of all sentences.",
                [_kinds(tables, colours)],
            )
    main = measured["main"]
    if measured["families"]:
        svgs = [_heat(label, content) for label, content in measured["families"].items()]
        drawings["families"] = (
            f"{main}: xsim in percent from a family (row) to a family (column), mean of its pairs of languages.",
            svgs,
        )
    if measured["map"]:
        svgs = [_map(label, content, measured["target_lang"]) for label, content in measured["map"].items()]
        method = next(iter(measured["map"].values()))["method"]
        drawings["map"] = (
            f"{main}: {method} of sentences in all languages. Colours: three sentences with their translations "
            "(dots), the English one (star) and its hard negatives (crosses); grey: other sentences. Good: dots around "
            "their star, crosses outside. Distances between clusters mean nothing.",
            svgs,
        )
    if measured["singular_values"]:
        drawings["singular"] = (
            f"{main}: singular values of all embeddings, as shares of the largest.",
            [_singular(measured["singular_values"], colours)],
        )
    for name, tables in measured["alignment"].items():
        drawings[f"aer-{name}"] = (
            f"{name}: alignment error rate by layer (itermax), mean of the language pairs; 0 is the embeddings.",
            [_aer(tables, colours)],
        )
    return drawings


def _has(tables: dict, column: str) -> bool:
    return all(column in row for content in tables.values() for row in content["rows"])


def _draw(draw: Callable, width: float, height: float) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(
        r"(<svg[^>]*?) width=\"[^\"]*\" height=\"[^\"]*\"|(<svg[^>]*?) height=\"[^\"]*\" width=\"[^\"]*\"",
        lambda m: m.group(1) or m.group(2),
        text,
        count=1,
    )
    text = text.replace("<svg", f'<svg style="max-width:{width * 96:.0f}px" role="img"', 1)
    text = re.sub(r' id="[A-Za-z0-9.]*_\d+"', "", text)  # remove ids of groups, which are equal in all figures
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", text)


def _bars(tables: dict, colours: dict[str, str], column: str) -> str:
    langs = [row["lang"] for row in next(iter(tables.values()))["rows"]]
    size = 0.8 / len(tables)

    def draw(axis) -> None:
        for i, (label, content) in enumerate(tables.items()):
            values = {row["lang"]: row[column] for row in content["rows"]}
            places = [n - 0.4 + size * (i + 0.5) for n in range(len(langs))]
            axis.barh(places, [values[lang] for lang in langs], size * 0.92, color=colours[label], label=label)
        axis.set_yticks(range(len(langs)), langs)
        axis.set_ylim(len(langs) - 0.45, -0.55)
        axis.set_xlim(0, 100)
        axis.set_xlabel(f"{'xsim++' if column == 'xsimpp' else 'xsim'} error, %")
        axis.tick_params(axis="y", length=0)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, fontsize=9)

    return _draw(draw, 4.4, 0.9 + 0.1 * len(langs) + 0.11 * len(langs) * len(tables))


def _kinds(tables: dict, colours: dict[str, str]) -> str:
    prefix = "xsimpp_errors/"
    totals = {
        label: {
            kind: 100 * sum(row.get(kind, 0) for row in content["rows"]) / sum(row["count"] for row in content["rows"])
            for kind in dict.fromkeys(k for row in content["rows"] for k in row if k.startswith(prefix))
        }
        for label, content in tables.items()
    }
    kinds = list(dict.fromkeys(kind for of_model in totals.values() for kind in of_model))
    names = {"other": "another sentence", "other_negative": "another's negative"}

    def draw(axis) -> None:
        from matplotlib import colormaps

        palette = colormaps["tab20"](range(20))
        left = {label: 0.0 for label in totals}
        for number, kind in enumerate(kinds):
            values = [of_model.get(kind, 0.0) for of_model in totals.values()]
            if not any(values):
                continue
            short = kind.removeprefix(prefix)
            axis.barh(
                range(len(totals)),
                values,
                0.6,
                left=list(left.values()),
                color=palette[(2 * number) % 20 + number // 10],
                label=names.get(short, short),
            )
            left = {label: left[label] + v for label, v in zip(left, values)}
        axis.set_yticks(range(len(totals)), [label.split("/")[-1] for label in totals])
        axis.set_ylim(len(totals) - 0.5, -0.5)
        axis.set_xlim(0, 100)
        axis.set_xlabel("% of sentences")
        axis.tick_params(axis="y", length=0)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, fontsize=8)

    shown = sum(any(of_model.get(kind) for of_model in totals.values()) for kind in kinds)
    return _draw(draw, 4.8, 0.7 + 0.45 * len(totals) + 0.1 * shown)


def _heat(label: str, content: dict) -> str:
    import numpy as np

    names = content["names"]
    values = np.array([[np.nan if v is None else v for v in row] for row in content["matrix"]], float)

    def draw(axis) -> None:
        axis.pcolormesh(values, cmap="viridis_r", vmin=0, vmax=100, edgecolors="none")
        for (i, j), value in np.ndenumerate(values):
            text, colour = ("–", INK) if np.isnan(value) else (f"{value:.0f}", "white" if value > 45 else "black")
            axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=9, color=colour)
        axis.set_xticks(np.arange(len(names)) + 0.5, names, rotation=40, ha="right", rotation_mode="anchor")
        axis.set_yticks(np.arange(len(names)) + 0.5, names)
        axis.invert_yaxis()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(label, fontsize=10)

    return _draw(draw, 2.0 + 0.4 * len(names), 1.6 + 0.34 * len(names))


def _map(label: str, content: dict, target_lang: str) -> str:
    points = content["points"]
    marks = {"other": ("o", 7), "translation": ("o", 24), "target": ("*", 170), "negative": ("X", 46)}

    def draw(axis) -> None:
        for role, (marker, size) in marks.items():
            for focus in range(-1, len(content["focus"])):
                own = [p for p in points if ROLES[p[2]] == role and p[3] == focus]
                if own:
                    colour = "#9a9a9a" if focus < 0 else COLOURS[focus % len(COLOURS)]
                    axis.scatter(
                        [p[0] for p in own],
                        [p[1] for p in own],
                        size,
                        color=colour,
                        marker=marker,
                        alpha=0.45 if focus < 0 else 0.9,
                        linewidths=0.5,
                        edgecolors={"other": "none", "negative": "black"}.get(role, "white"),
                    )
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(True)
        axis.spines[:].set_alpha(0.35)
        axis.set_title(label, fontsize=10)

    return _draw(draw, 4.0, 3.6)


def _singular(curves: dict[str, list[float]], colours: dict[str, str]) -> str:
    def draw(axis) -> None:
        for label, curve in curves.items():
            values = [v for v in curve if v > 1e-7]  # smaller values are rounding error (`singular_values`)
            axis.plot(range(1, len(values) + 1), values, color=colours[label], label=label, linewidth=1.8)
        axis.set_yscale("log")
        axis.set_xlabel("singular value, largest first")
        axis.grid(alpha=0.25, linewidth=0.6, color="#888888")
        axis.legend(fontsize=9)

    return _draw(draw, 4.8, 3.2)


def _aer(tables: dict[str, list[dict]], colours: dict[str, str]) -> str:
    def draw(axis) -> None:
        for label, rows in tables.items():
            x, y = zip(*((row["layer"], row["mean"]) for row in rows))
            axis.plot(x, y, color=colours[label], label=label, marker="o", markersize=5, linewidth=1.8)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("layer")
        axis.set_ylabel("AER")
        axis.grid(alpha=0.25, linewidth=0.6, color="#888888")
        axis.legend(fontsize=9)

    return _draw(draw, 4.8, 3.2)
