"""hf-echo data bible, gettext: make parallel rows from Bible texts and message catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import PLAIN, example, print_report

commands = typer.Typer(**PLAIN)


@commands.command(**example("hf-echo data bible corpus/ fra_Latn=my/usfm --out bible --on-bad skip", folder=True))
def bible(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files or folders of USFM, CES XML, vref text or TSV; optionally LANG=PATH."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.")],
    vref: Annotated[
        Path | None, typer.Option(help="List of verses (vref.txt) that .txt sources follow line by line.")
    ] = None,
    lid: Annotated[
        str | None,
        typer.Option(
            help="Identify languages with heliport or a fastText model file. Default: the declared languages."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(help="Encoder that chooses the pivot texts by cosine. Default: the source of best quality."),
    ] = None,
    pivots: Annotated[
        str | None, typer.Option(help="Pivot languages, comma-separated. Default: the five of the paper.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Largest length difference between sources of one language, as a share of the mean."),
    ] = 0.4,
    sigmas: Annotated[
        float, typer.Option(min=0, help="Largest length difference across languages, in standard deviations.")
    ] = 3.0,
    minimum_quality: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Lowest chrF++ of a source, as a share of the best source's; sources below are removed."
        ),
    ] = 0.75,
    sample: Annotated[
        int, typer.Option(min=0, help="Verses sampled for quality and language identification; 0 is all.")
    ] = 500,
    on_bad: Annotated[str, typer.Option(help="For broken files and rows: error or skip.")] = "error",
    seed: Annotated[int, typer.Option(help="Random seed of --sample.")] = 0,
) -> None:
    """Build a parallel Bible: n-way table, pairs with the pivots, list of removed texts with reasons (OS A.8)."""
    from hf_echo.corpora.bible import PIVOTS, build_bible, find_sources
    from hf_echo.languages import find_language

    options = {}
    if lid is not None:
        from hf_echo.data.pipeline.filters.identifiers import open_identifier

        identifier = open_identifier(None if lid == "heliport" else lid)
        options["lid"] = lambda texts: identifier.name(texts, 0.5)
        options["contradicts"] = lambda code, named: identifier.knows(code) and identifier.differ(code, named)
    if scorer is not None:
        from hf_echo.inference.scorer import EchoScorer

        options["scorer"] = EchoScorer(scorer)
    wanted = [find_language(lang) for lang in pivots.split(",")] if pivots else PIVOTS
    report = build_bible(
        find_sources(sources, vref=vref),
        out,
        pivot_languages=wanted,
        tolerance=tolerance,
        sigmas=sigmas,
        minimum_quality=minimum_quality,
        sample=sample or None,
        on_bad=on_bad,
        seed=seed,
        **options,
    )
    print_report({key: value for key, value in report.items() if key != "by_source"})


@commands.command(**example("hf-echo data gettext /usr/share/locale django.whl --out interface.parquet"))
def gettext(
    paths: Annotated[list[Path], typer.Argument(help="Catalogs (.po, .mo), folders, wheels or other zip files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file of parallel rows (Parquet).")],
    keep_equal: Annotated[bool, typer.Option(help="Keep rows with equal source and target.")] = False,
    strip_html: Annotated[bool, typer.Option(help="Remove HTML tags and decode entities.")] = False,
    on_bad: Annotated[str, typer.Option(help="For catalogs that cannot be read: skip or error.")] = "skip",
) -> None:
    """Extract translated messages from .po and .mo catalogs; counts go to OUT.counts.json."""
    from hf_echo.corpora.gettext import harvest

    counts = harvest(paths, out, keep_equal=keep_equal, strip_html=strip_html, on_bad=on_bad)
    print_report(counts)
