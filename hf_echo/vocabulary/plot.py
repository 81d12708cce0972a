"""Plot a vocabulary report: tokens per sentence by language and tokenizer (needs matplotlib, extra `plots`)."""

from __future__ import annotations

from pathlib import Path

from .report import VocabularyReport

ROWS = 70  # languages per column
MARKERS = "osD^vPX*"
OTHER = "0.4"  # colour of the scripts with fewest languages


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
    """Plot languages by descending fertility of the base tokenizer (open marks; those of the others are filled).

    Colours show scripts. The suffix of `path` decides the format (.png, .svg, .pdf).

    Raises:
        ImportError: matplotlib is missing. ValueError: a suffix that matplotlib does not support.
    """
    path = check_plot(path)
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    names, languages = list(report.sizes), report.level("language")
    rows = [row for row in report.rows if row.level == "script" and row.tokenizer == report.base]
    largest = [row.name for row in sorted(rows, key=lambda row: -row.languages)]
    palette = [colour for i, colour in enumerate(colormaps["tab10"](range(10))) if i != 7]  # the 7th is grey
    colours = dict(zip(largest, palette))
    columns = [list(languages.items())[i : i + ROWS] for i in range(0, len(languages), ROWS)]
    size = (4.6 * len(columns) + 1.0, max(3.0, 0.165 * len(columns[0]) + 1.6))
    figure = Figure(figsize=size, layout="constrained")
    for axis, column in zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        colour = [colours.get(cells[report.base].script, OTHER) for _, cells in column]
        values = [[cells[name].tokens_per_sentence for _, cells in column] for name in names]
        axis.hlines(range(len(column)), *(list(map(f, zip(*values))) for f in (min, max)), color=colour, linewidth=0.7)
        for i, of_name in enumerate(values):
            face = colour if i else "white"
            marker = MARKERS[i % len(MARKERS)]
            axis.scatter(of_name, range(len(column)), 18, marker=marker, edgecolors=colour, facecolors=face, zorder=2)
        axis.set_yticks(range(len(column)), [code for code, _ in column], fontsize=7)
        axis.set_ylim(len(column) - 0.3, -0.7)
        axis.set_xlim(left=0)
        axis.grid(axis="x", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("tokens per sentence")
    axis = figure.axes[0]
    for i, name in enumerate(names):
        label = f"{name}: {report.get(name).tokens_per_sentence:.1f}"
        face = "0.2" if i else "white"
        axis.plot([], [], MARKERS[i % len(MARKERS)], color="0.2", markerfacecolor=face, label=label)
    for script, colour in {**colours, **({"other scripts": OTHER} if len(largest) > len(palette) else {})}.items():
        axis.plot([], [], color=colour, linewidth=4, label=script)
    figure.legend(loc="outside upper left", ncols=4 * len(columns), fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
