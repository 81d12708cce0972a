"""HTML of the Space: tables, a heat map and a scatter plot, drawn with the visitor's fonts.

Contract: texts, numbers and links in, HTML out. Every text is escaped and gets its own direction (`dir="auto"`), so
that hostile and right-to-left texts stay inside their cells. A plot library draws only the scripts of its one font.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

# Okabe and Ito's palette, without black and yellow: it can be told apart by colour-blind readers, on light and dark.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
SHAPES = ("circle", "square", "diamond")  # so that 18 languages look different
WIDTH, HEIGHT, EDGE = 640, 400, 28

CSS = """
textarea { unicode-bidi: plaintext; text-align: start; }
.echo-scroll { overflow-x: auto; margin-block: 0.75rem; }
.echo-scroll:focus-visible { outline: 2px solid currentColor; }
.echo table { border-collapse: collapse; width: 100%; }
.echo caption { text-align: start; font-weight: 600; padding-block: 0.5rem; overflow-wrap: anywhere; }
.echo th, .echo td { border: 1px solid var(--border-color-primary); padding: 0.35rem 0.6rem; text-align: start;
    color: var(--body-text-color); }
.echo td { overflow-wrap: anywhere; }
.echo td small { display: block; opacity: 0.75; }
.echo td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.echo .long { display: block; max-height: 8rem; overflow-y: auto; }
.echo table.heat { width: auto; }
.echo table.heat th { white-space: nowrap; max-width: 9rem; overflow: hidden; text-overflow: ellipsis; }
.echo table.heat tbody th { position: sticky; inset-inline-start: 0; background: var(--background-fill-primary); }
.echo table.heat td { text-align: center; min-width: 2.6rem; }
.echo table.heat td.dark-text { color: #111 !important; }
.echo table.heat td.link { outline: 3px solid var(--body-text-color); outline-offset: -3px; font-weight: 700; }
.echo td.number, .echo th.number { text-align: end; width: 4.5rem; }
.echo svg { width: 100%; min-width: 34rem; height: auto; display: block; }
.echo svg text { font-size: 13px; fill: var(--body-text-color); }
.echo svg .frame { fill: none; stroke: var(--border-color-primary); }
.echo .note { padding: 0.6rem 0.9rem; border-inline-start: 4px solid #e69f00; overflow-wrap: anywhere; }
.echo .key { display: inline-block; white-space: nowrap; }
.echo .key svg { display: inline-block; min-width: 0; width: 14px; height: 14px; vertical-align: -2px; }
"""


def note(text: str) -> str:
    """A line for the visitor, read aloud by screen readers."""
    return f'<div class="echo"><p class="note" role="status" dir="auto">{escape(text)}</p></div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table of texts; columns of numbers are set to the right. "text\\nsmall" has a small second line."""
    rows = list(rows)
    kinds = [" class='number'" * all(_is_number(row[column]) for row in rows) for column in range(len(headings))]
    head = "".join(f'<th scope="col"{kind}>{escape(heading)}</th>' for heading, kind in zip(headings, kinds))
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    title = f'<caption dir="auto"><span class="long">{escape(caption)}</span></caption>' if caption else ""
    return _scrolling(f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", caption or "Result")


def heat_map(rows: Sequence[str], columns: Sequence[str], cosines: np.ndarray, links: set[tuple[int, int]]) -> str:
    """Words against words: 100 x cosine in each cell, the darker the larger; linked words are outlined.

    Args:
        cosines: (rows, columns).
        links: (row, column), from 0.
    """
    low, high = float(cosines.min()), float(cosines.max())
    strength = (cosines - low) / max(high - low, 1e-9)
    head = "".join(_word(word, "col") for word in columns)
    lines = []
    for i, word in enumerate(rows):
        cells = []
        for j in range(len(columns)):
            classes = ["dark-text"] * bool(strength[i, j] > 0.7) + ["link"] * ((i, j) in links)
            colour = f"rgba(230, 159, 0, {0.95 * strength[i, j]:.2f})"
            cells.append(
                f'<td class="{" ".join(classes)}" style="background: {colour}">{round(100 * cosines[i, j])}</td>'
            )
        lines.append(f"<tr>{_word(word, 'row')}{''.join(cells)}</tr>")
    note = '<div class="echo"><p>100 × cosine of the words; an outline marks words that are aligned.</p></div>'
    whole = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return note + _scrolling(f'<table class="heat">{whole}</table>', "Word alignment")


def scatter(points: np.ndarray, shares: np.ndarray, texts: Sequence[str], groups: Sequence[str]) -> str:
    """Numbered points in the colour of their group, and the list of the numbered texts under them.

    Args:
        points: (n, 2). shares: (2,) of the variance. groups: name of each point's group.
    """
    places = _on_page(points)
    marks = {group: (COLOURS[n % 6], SHAPES[n // 6 % 3]) for n, group in enumerate(dict.fromkeys(groups))}
    labels = _label_places(places)
    drawn = []
    for number, ((x, y), (at_x, at_y), text, group) in enumerate(zip(places, labels, texts, groups), 1):
        title = f"<title>{escape(f'{number}. {group}: {text[:200]}')}</title>"
        drawn.append(f"<g>{title}{_mark(x, y, *marks[group])}</g>")
        drawn.append(f'<text x="{at_x:.1f}" y="{at_y + 4.5:.1f}" text-anchor="middle">{number}</text>')
    key = " ".join(
        f'<span class="key"><svg viewBox="0 0 14 14" aria-hidden="true">{_mark(7, 7, *mark)}</svg> '
        f"<bdi>{escape(group)}</bdi></span>&ensp;"
        for group, mark in marks.items()
    )
    name = f"Map of {len(texts)} sentences; they are listed below"
    plot = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">'
        f'<rect class="frame" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}"/>{"".join(drawn)}</svg>'
    )
    axes = f"Across {100 * shares[0]:.0f} %, upwards {100 * shares[1]:.0f} % of the variance (PCA)."
    rows = [(str(number), f"{text}\n{group}") for number, (group, text) in enumerate(zip(groups, texts), 1)]
    return f'{_scrolling(plot, name)}<div class="echo"><p>{key}</p><p>{axes}</p></div>' + table(["", "sentence"], rows)


def _cell(text: str) -> str:
    if _is_number(text):
        return f'<td class="number">{text}</td>'
    first, _, second = text.partition("\n")
    small = f'<small dir="ltr">{escape(second)}</small>' if second else ""
    return f'<td dir="auto"><span class="long">{escape(first)}</span>{small}</td>'


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None


def _word(word: str, scope: str) -> str:
    return f'<th scope="{scope}" dir="auto" title="{escape(word[:200])}">{escape(word[:200])}</th>'


def _scrolling(inner: str, name: str) -> str:
    """A region that scrolls sideways, with the keyboard too."""
    region = f'class="echo-scroll" tabindex="0" role="region" aria-label="{escape(name[:80])}"'
    return f'<div class="echo"><div {region}>{inner}</div></div>'


def _on_page(points: np.ndarray) -> np.ndarray:
    """(n, 2) in the pixels of the plot; y grows downwards. One scale for both axes would waste most of the page."""
    low, high = points.min(0), points.max(0)
    size = np.array([WIDTH, HEIGHT]) - 2 * EDGE
    places = EDGE + (points - low) / np.maximum(high - low, 1e-9) * size
    places[:, 1] = HEIGHT - places[:, 1]
    return places


def _label_places(places: np.ndarray) -> list[tuple[float, float]]:
    """Where each number stands: the first place around its point that covers no point and no other number."""
    taken = [tuple(place) for place in places]
    labels = []
    for x, y in places:
        around = [
            (x + radius * np.cos(angle), y + radius * np.sin(angle))
            for radius in (14, 22, 30, 40)
            for angle in np.arange(8) * np.pi / 4
        ]
        free = [
            (a, b)
            for a, b in around
            if 8 < a < WIDTH - 8
            and 8 < b < HEIGHT - 8
            and all(abs(a - c) > 15 or abs(b - d) > 12 for c, d in taken if (c, d) != (x, y))
        ]
        labels.append((free or around)[0])
        taken.append(labels[-1])
    return labels


def _mark(x: float, y: float, colour: str, shape: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    return f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" fill="{colour}"{turn}/>'
