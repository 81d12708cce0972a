"""hf-echo data code, math: extract snippets from source code and expressions from LaTeX."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ...utils.files import write_whole
from ..common import PLAIN, example, print_report

commands = typer.Typer(**PLAIN)

Out = Annotated[
    Path, typer.Option("--out", "-o", help="Output file, JSON lines: id, language, text, class, start, end.")
]
OnBad = Annotated[str, typer.Option(help="For files that cannot be read: error or skip.")]


def _write(rows: Iterable[dict[str, Any]], out: Path) -> None:
    """Write the rows as JSON lines and print their number per class."""
    classes: Counter[str] = Counter()
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            classes[row["class"]] += 1
    print_report({"out": str(out), "rows": classes.total(), **dict(classes.most_common())})


@commands.command(**example("hf-echo data code src/ tools/run.py --language python --out snippets.jsonl"))
def code(
    files: Annotated[list[Path], typer.Argument(help="Source files or folders.")],
    language: Annotated[
        str,
        typer.Option("--language", "-l", help="Programming language: python, java, javascript, go, c, cpp or ruby."),
    ],
    out: Out,
    max_size: Annotated[int, typer.Option(min=1, help="Largest snippet, in non-blank characters.")] = 100,
    on_bad: OnBad = "error",
) -> None:
    """Split source code along its syntax tree into sentence-sized snippets (OS A.3, Algorithm 1)."""
    from hf_echo.corpora.code_segments import snippet_rows

    _write(snippet_rows(files, language, max_size=max_size, on_bad=on_bad), out)


@commands.command(**example("hf-echo data math papers/ finemath.parquet --out math.jsonl"))
def math(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="LaTeX (.tex), text (.md, .txt), tables with a column text (.parquet, .jsonl), or folders."
        ),
    ],
    out: Out,
    min_length: Annotated[int, typer.Option(min=1, help="Shortest expression, in characters.")] = 20,
    max_length: Annotated[int, typer.Option(min=1, help="Longest expression, in characters.")] = 150,
    sentences: Annotated[bool, typer.Option(help="Also extract the sentences that contain an expression.")] = True,
    on_bad: OnBad = "error",
) -> None:
    """Extract mathematical expressions and the sentences that contain them, without duplicates (OS A.3, Table 30)."""
    from hf_echo.corpora.math_expressions import math_rows, read_documents

    documents = read_documents(files, on_bad=on_bad)
    _write(math_rows(documents, min_length=min_length, max_length=max_length, sentences=sentences), out)
