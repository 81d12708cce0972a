"""Write a report as one HTML page, Markdown and JSON.

Contract: `measure`'s dict in; the files index.html, report.md and report.json out. The page includes its style and
figures and needs no network. It follows the reader's light or dark setting; wide tables scroll on a phone.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...utils.markdown import markdown_table
from .plots import figures
from .tables import Grid, Section, sections

TEMPLATE = "report.html.j2"
LIMIT = 2_000_000  # bytes of a page


def write_report(measured: dict[str, Any], out: str | Path, *, title: str = "Embedding spaces") -> list[Path]:
    """Write the report into a folder; return the files, the page first.

    Raises:
        ImportError: matplotlib is missing. ValueError: a page above 2 MB (too many languages or models).
    """
    out = Path(out)
    parts, drawings = sections(measured), figures(measured)
    page = render_html(parts, drawings, title)
    content = {
        "index.html": page,
        "report.md": render_markdown(parts, title),
        "report.json": json.dumps(measured, ensure_ascii=False, indent=1, default=float, allow_nan=False) + "\n",
    }
    too_large = len(page.encode()) > LIMIT
    out.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        if name != "index.html" or not too_large:
            (out / name).write_text(text, encoding="utf-8")
    if too_large:
        raise ValueError(
            f"the page has {len(page.encode()):,} bytes, more than {LIMIT:,}: split the sets or the models into "
            f"several reports. {out} has report.md and report.json"
        )
    return [out / name for name in content]


def render_html(parts: list[Section], drawings: dict[str, tuple[str, list[str]]], title: str) -> str:
    from jinja2 import Environment

    text = (files(__package__) / TEMPLATE).read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    return template.render(sections=parts, drawings=drawings, title=title)


def render_markdown(parts: list[Section], title: str) -> str:
    """The sections as Markdown, with the same tables and without figures."""
    lines = [f"# {title}", ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        lines += [part.text, ""] if part.text else []
        for grid in part.grids:
            lines += [f"{grid.caption}:", ""] if grid.caption else []
            lines += [_markdown_table(grid), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(grid: Grid) -> str:
    rows = [
        [f"**{cell}**" if (r, c) in grid.best else cell for c, cell in enumerate(row)]
        for r, row in enumerate(grid.rows)
    ]
    return markdown_table(grid.header, rows, left=grid.prose)
