"""hf-echo data code, math: snippets of source files, expressions of LaTeX."""

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

Out = Annotated[Path, typer.Option("--out", "-o", help="JSON lines: id, language, text, class, start, end.")]
OnBad = Annotated[str, typer.Option(help="error or skip: what to do at a file that cannot be read.")]


def _write(rows: Iterable[dict[str, Any]], out: Path) -> None:
    """Writes the rows and prints how many there are of each class."""
    classes: Counter[str] = Counter()
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            classes[row["class"]] += 1
    print_report({"out": str(out), "rows": classes.total(), **dict(classes.most_common())})


@commands.command(**example("hf-echo data code src/ tools/run.py --language python --out snippets.jsonl"))
def code(
    files: Annotated[list[Path], typer.Argument(help="Source files, and folders of them.")],
    language: Annotated[str, typer.Option("--language", "-l", help="python, java, javascript, go, c, cpp or ruby.")],
    out: Out,
    max_size: Annotated[int, typer.Option(min=1, help="Non-blank characters of a snippet at most.")] = 100,
    on_bad: OnBad = "error",
) -> None:
    """Source code into sentence-sized snippets along its syntax tree (OS A.3, Algorithm 1)."""
    from hf_echo.corpora.code_segments import snippet_rows

    _write(snippet_rows(files, language, max_size=max_size, on_bad=on_bad), out)


@commands.command(**example("hf-echo data math papers/ finemath.parquet --out math.jsonl"))
def math(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="LaTeX (.tex), running text (.md, .txt), tables with a column text (.parquet, .jsonl), and folders."
        ),
    ],
    out: Out,
    min_length: Annotated[int, typer.Option(min=1, help="Characters of an expression at least.")] = 20,
    max_length: Annotated[int, typer.Option(min=1, help="Characters of an expression at most.")] = 150,
    sentences: Annotated[bool, typer.Option(help="Also the sentences that hold an expression.")] = True,
    on_bad: OnBad = "error",
) -> None:
    """Mathematical expressions and the sentences that hold them, each text once (OS A.3, Table 30)."""
    from hf_echo.corpora.math_expressions import math_rows, read_documents

    documents = read_documents(files, on_bad=on_bad)
    _write(math_rows(documents, min_length=min_length, max_length=max_length, sentences=sentences), out)
