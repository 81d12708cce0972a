"""hf-echo report: several models on one folder of data, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import PLAIN, example, named_model

commands = typer.Typer(**PLAIN)


@commands.command(
    "report", **example("hf-echo report outputs/my-model minilm tfidf --data dev/ --out report/", folder=True)
)
def report(
    data: Annotated[Path, typer.Option(help="Folder of *.parquet: n-way tables (id, lang, text), word alignment.")],
    out: Annotated[Path, typer.Option(help="Folder for index.html, report.md and report.json.")],
    target_lang: Annotated[str, typer.Option(help="Language of the candidates.")] = "eng_Latn",
    main: Annotated[
        str | None, typer.Option(help="Set (file name without .parquet) of map, geometry and examples.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Wrongly retrieved sentences shown of a model.")] = 2,
    cache: Annotated[
        Path | None, typer.Option(help="Where embeddings are kept; ~/.cache/hf-echo/reports by default.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Embedding spaces",
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders or Hub names of encoders, echo-nano or echo-static; minilm and tfidf are baselines. "
            "Without: echo-nano, of this package."
        ),
    ] = None,
) -> None:
    """Measure models on a folder of data: one page, Markdown and JSON. A second run encodes only what is new."""
    from .. import reports
    from ..reports.models import BASELINES, open_models
    from ..reports.plots import check_matplotlib

    check_matplotlib()
    content = reports.read_folder(data, target_lang=target_lang)
    names = [name if name in BASELINES else named_model(name) for name in models or [""]]
    opened = open_models(names, content.texts)
    cache = cache or Path.home() / ".cache" / "hf-echo" / "reports"
    measured = reports.measure(opened, content, cache, main=main, examples=examples)
    for file in reports.write_report(measured, out, title=title):
        typer.echo(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
