"""HTML of the Space from space_parts.html.j2: the visitor's fonts draw; those of a plot library lack scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment

# Okabe and Ito's palette, without black and yellow: it can be told apart by colour-blind readers, on light and dark.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
SHAPES = ("circle", "square", "diamond")  # so that 18 languages look different
WIDTH, HEIGHT, EDGE = 640, 400, 28

_source = files(__package__).joinpath("space_parts.html.j2").read_text(encoding="utf-8")
_parts: Any = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_source).module
CSS = str(_parts.css())


def note(text: str) -> str:
    """A line for the visitor, read aloud by screen readers."""
    return str(_parts.note(text))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table of texts; columns of numbers are set to the right. "text\\nsmall" has a small second line."""
    rows = list(rows)
    numbers = [all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", row[i]) for row in rows) for i in range(len(headings))]
    cells = [[cell.partition("\n")[::2] for cell in row] for row in rows]
    return str(_parts.table(headings, cells, numbers, caption))


def heat_map(rows: Sequence[str], columns: Sequence[str], cosines: np.ndarray, links: set[tuple[int, int]]) -> str:
    """Words against words: 100 x cosine (rows, columns) in each cell, the darker the larger; links (i, j) are
    outlined."""
    low, high = float(cosines.min()), float(cosines.max())
    strength = (cosines - low) / max(high - low, 1e-9)
    cells = [
        [
            {"strength": float(strength[i, j]), "value": round(100 * float(cosines[i, j])), "link": (i, j) in links}
            for j in range(len(columns))
        ]
        for i in range(len(rows))
    ]
    return str(_parts.heat_map(rows, columns, cells))


def scatter(points: np.ndarray, shares: np.ndarray, texts: Sequence[str], groups: Sequence[str]) -> str:
    """Numbered points (n, 2) in the colour of their group, and the list of the texts; shares (2,) of the variance."""
    # In the pixels of the plot, y downwards. One scale for both axes would waste most of the page.
    low, high = points.min(0), points.max(0)
    places = EDGE + (points - low) / np.maximum(high - low, 1e-9) * (np.array([WIDTH, HEIGHT]) - 2 * EDGE)
    places[:, 1] = HEIGHT - places[:, 1]
    marks = {group: (COLOURS[n % 6], SHAPES[n // 6 % 3]) for n, group in enumerate(dict.fromkeys(groups))}
    drawn = [
        {"x": x, "y": y, "label": label, "text": text, "group": group}
        for (x, y), label, text, group in zip(places, _label_places(places), texts, groups)
    ]
    rows = [(str(number), f"{text}\n{group}") for number, (group, text) in enumerate(zip(groups, texts), 1)]
    return str(_parts.scatter(drawn, marks, shares, WIDTH, HEIGHT)) + table(["", "sentence"], rows)


def _label_places(places: np.ndarray) -> list[tuple[float, float]]:
    """Where each number stands: the first place around its point that covers no point and no other number."""
    taken = [tuple(place) for place in places]
    labels = []
    around = [(r * np.cos(a), r * np.sin(a)) for r in (14, 22, 30, 40) for a in np.arange(8) * np.pi / 4]
    for x, y in places:
        free = [
            (x + a, y + b)
            for a, b in around
            if 8 < x + a < WIDTH - 8
            and 8 < y + b < HEIGHT - 8
            and all(abs(x + a - c) > 15 or abs(y + b - d) > 12 for c, d in taken if (c, d) != (x, y))
        ]
        labels.append(free[0] if free else (x + around[0][0], y + around[0][1]))
        taken.append(labels[-1])
    return labels
