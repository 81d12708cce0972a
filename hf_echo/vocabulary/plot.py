"""Plot a vocabulary report: tokens per sentence by language and tokenizer (needs matplotlib, extra `plots`)."""

from __future__ import annotations

from pathlib import Path

from .report import VocabularyReport

ROWS = 70  # languages per column
SCRIPTS = 9  # number of scripts with a colour; the others are grey
MARKERS = "osD^vPX*"
OTHER = "0.4"


def check_plot(path: str | Path) -> Path:
    """Return the path if a plot can be saved there; raises as `plot_report`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ImportError("the plot needs matplotlib: pip install 'hf-echo[plots]'") from None
    path = Path(path)
    if path.suffix.lower().lstrip(".") not in FigureCanvasAgg.get_supported_filetypes():
        raise ValueError(f"{path}: cannot draw a {path.suffix or 'file without suffix'}; use .png, .svg or .pdf")
    return path


def plot_report(report: VocabularyReport, path: str | Path) -> None:
    """Plot languages by descending fertility of the base tokenizer (open circles; the others are filled marks).

    Colours show scripts, as do the codes at the left. The suffix of `path` decides the format (.png, .svg, .pdf).

    Raises:
        ImportError: matplotlib is missing. ValueError: a suffix that matplotlib does not support.
    """
    path = check_plot(path)
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    languages = report.level("language")
    colours = _colours(report)
    names = list(report.sizes)
    columns = [list(languages.items())[i : i + ROWS] for i in range(0, len(languages), ROWS)]
    height = max(3.0, 0.165 * len(columns[0]) + 1.6)
    figure = Figure(figsize=(4.6 * len(columns) + 1.0, height), layout="constrained")
    axes = figure.subplots(1, len(columns), squeeze=False)[0]
    for axis, column in zip(axes, columns, strict=True):
        colour = [colours.get(cells[names[0]].script, OTHER) for _code, cells in column]
        values = [[cells[name].tokens_per_sentence for _code, cells in column] for name in names]
        places = range(len(column))
        axis.hlines(places, *(list(map(f, zip(*values))) for f in (min, max)), color=colour, linewidth=0.7, zorder=1)
        for i, xs in enumerate(values):
            face = "white" if i == 0 else colour
            axis.scatter(xs, places, 18, marker=_marker(i), edgecolors=colour, facecolors=face, zorder=2)
        axis.set_yticks(places, [code for code, _ in column], fontsize=7)
        for label, of_script in zip(axis.get_yticklabels(), colour, strict=True):
            label.set_color(of_script)
        axis.set_ylim(len(column) - 0.3, -0.7)
        axis.set_xlim(left=0)
        axis.grid(axis="x", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("tokens per sentence")

    marks = [
        Line2D(
            [],
            [],
            color="0.2",
            linestyle="",
            marker=_marker(i),
            label=_label(report, name),
            markerfacecolor="white" if i == 0 else "0.2",
        )
        for i, name in enumerate(names)
    ]
    scripts = [Line2D([], [], color=colour, linewidth=4, label=s) for s, colour in colours.items()]
    if any(cells[names[0]].script not in colours for cells in languages.values()):
        scripts.append(Line2D([], [], color=OTHER, linewidth=4, label="other scripts"))
    columns_of_legend = min(len(marks) + len(scripts), 4 * len(axes))
    figure.legend(handles=marks + scripts, loc="outside upper left", ncols=columns_of_legend, fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _marker(i: int) -> str:
    """Marker of tokenizer i; the base and the second tokenizer are circles, one open, one filled."""
    return MARKERS[max(i - 1, 0) % len(MARKERS)]


def _label(report: VocabularyReport, name: str) -> str:
    return f"{name}: {report.get(name).tokens_per_sentence:.1f}"


def _colours(report: VocabularyReport) -> dict[str, str]:
    """Colours of the scripts with most languages."""
    from matplotlib import colormaps

    palette = [c for i, c in enumerate(colormaps["tab10"](range(10))) if i != 7]  # tab10's 7th is grey
    rows = [row for row in report.rows if row.level == "script" and row.tokenizer == report.base]
    rows.sort(key=lambda row: -row.languages)
    return {row.name: colour for row, colour in zip(rows[:SCRIPTS], palette)}
