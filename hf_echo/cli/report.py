"""hf-echo report: compare models on a folder of data and write a page."""

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
    data: Annotated[
        Path, typer.Option(help="Folder of *.parquet files: n-way tables (id, lang, text), word alignment, speech.")
    ],
    out: Annotated[Path, typer.Option(help="Output folder of index.html and report.json.")],
    target_lang: Annotated[str, typer.Option(help="Language of the candidates.")] = "eng_Latn",
    main: Annotated[
        str | None, typer.Option(help="Set for the map, geometry and examples: a file name without .parquet.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Number of retrieval errors to show per model.")] = 2,
    speech: Annotated[
        list[str] | None,
        typer.Option(help="Speech encoder in the space of the first model, for files with audio; repeatable."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder for cached embeddings. Default: ~/.cache/hf-echo/reports.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Embedding spaces",
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Encoders: folder, Hub name, echo-nano, or the baselines minilm and tfidf. "
            "Default: echo-nano, included in the package."
        ),
    ] = None,
) -> None:
    """Compare models on a folder of data; write HTML and JSON. A second run reuses the cached embeddings."""
    from ..evaluation import report as reports
    from ..evaluation.report.models import BASELINES, open_models
    from ..evaluation.report.page import check_matplotlib

    check_matplotlib()
    content = reports.read_folder(data, target_lang=target_lang)
    names = [name if name in BASELINES else named_model(name) for name in models or [""]]
    opened = open_models(names, content.texts)
    cache = cache or Path.home() / ".cache" / "hf-echo" / "reports"
    measured = reports.measure(opened, content, cache, main=main, examples=examples, speech=speech or ())
    for file in reports.write_report(measured, out, title=title):
        typer.echo(f"{file} ({file.stat().st_size / 1000:.0f} kB)")
