"""HTML of the Space from space_parts.html.j2: the visitor's fonts draw;
those of a plot library lack scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment

# Okabe and Ito's palette, without black and yellow: it can be told apart by colour-blind readers,
# on light and dark.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
SHAPES = ("circle", "square", "diamond")  # so that 18 languages look different
WIDTH = 640
HEIGHT = 400
EDGE = 28

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_source = files(__package__).joinpath("space_parts.html.j2").read_text(encoding="utf-8")
_parts: Any = (
    Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_source).module
)
CSS = str(_parts.css())


def note(text: str) -> str:
    """A line for the visitor, read aloud by screen readers."""
    return str(_parts.note(text))


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str = "",
    kinds: Sequence[str] = (),
) -> str:
    """A table of texts; columns of numbers are set to the right. "text\\nsmall" has a small second
    line.

    `kinds` of the rows: "best" is tinted, "weak" dimmed, "" neither.
    """
    cells = []
    is_number = [True] * len(headings)  # of each column
    for row in rows:
        lines = []
        for column, cell in enumerate(row):
            large, _, small = cell.partition("\n")
            lines.append((large, small))
            is_number[column] = is_number[column] and NUMBER.fullmatch(cell) is not None
        cells.append(lines)
    return str(_parts.table(headings, cells, is_number, caption, kinds or [""] * len(cells)))


def heat_map(
    rows: Sequence[str], columns: Sequence[str], cosines: np.ndarray, links: set[tuple[int, int]]
) -> str:
    """Words against words: 100 x cosine (rows, columns) in each cell, the darker the larger; links
    (i, j) are outlined."""
    span = max(float(np.ptp(cosines)), 1e-9)
    strengths = (cosines - cosines.min()) / span
    cells = []
    for i in range(len(rows)):
        row = []
        for j in range(len(columns)):
            value = round(100 * float(cosines[i, j]))
            row.append(
                {"strength": float(strengths[i, j]), "value": value, "link": (i, j) in links}
            )
        cells.append(row)
    return str(_parts.heat_map(rows, columns, cells))


def scatter(
    points: np.ndarray, shares: np.ndarray, texts: Sequence[str], groups: Sequence[str]
) -> str:
    """Numbered points (n, 2) in the colour of their group, and the list of the texts;
    shares (2,) of the variance."""
    # In the pixels of the plot, y downwards. One scale for both axes would waste most of the page.
    shares_of_axis = (points - points.min(0)) / np.maximum(np.ptp(points, axis=0), 1e-9)
    places = EDGE + shares_of_axis * (np.array([WIDTH, HEIGHT]) - 2 * EDGE)
    places[:, 1] = HEIGHT - places[:, 1]
    marks = {}
    for number, group in enumerate(dict.fromkeys(groups)):
        colour = COLOURS[number % len(COLOURS)]
        shape = SHAPES[number // len(COLOURS) % len(SHAPES)]
        marks[group] = (colour, shape)
    drawn = []
    rows = []
    labels = _label_places(places)
    for number, (text, group) in enumerate(zip(texts, groups, strict=True)):
        x, y = places[number]
        drawn.append({"x": x, "y": y, "label": labels[number], "text": text, "group": group})
        rows.append((str(number + 1), f"{text}\n{group}"))
    return str(_parts.scatter(drawn, marks, shares, WIDTH, HEIGHT)) + table(["", "sentence"], rows)


def _label_places(places: np.ndarray) -> list[tuple[float, float]]:
    """Where each number stands: the first place around its point that covers no point and no other
    number."""
    angles = np.arange(8) * np.pi / 4
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    steps = np.concatenate([radius * circle for radius in (14, 22, 30, 40)])
    labels: list[tuple[float, float]] = []
    for point in places:
        others = places[(places != point).any(1)]
        taken = np.concatenate([others, np.array(labels).reshape(-1, 2)])
        candidates = point + steps
        chosen = candidates[0]  # where no place is free
        for place in candidates:
            is_inside = (place > 8).all() and (place < [WIDTH - 8, HEIGHT - 8]).all()
            covers = (np.abs(taken - place) <= [15, 12]).all(1)
            if is_inside and not covers.any():
                chosen = place
                break
        labels.append((float(chosen[0]), float(chosen[1])))
    return labels
