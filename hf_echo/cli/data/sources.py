"""hf-echo data bible, gettext: parallel rows from verse-keyed texts and message catalogs."""

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
        typer.Argument(help="Files or folders of USFM, CES XML, vref text or TSV, each with LANG= in front or not."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the result.")],
    vref: Annotated[Path | None, typer.Option(help="The list of verses that .txt files follow.")] = None,
    lid: Annotated[
        str | None,
        typer.Option(help="Relabel by heliport, or by a fastText model file; without, as declared."),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(help="Encoder whose cosine picks the pivots' texts; without, the best source."),
    ] = None,
    pivots: Annotated[
        str | None, typer.Option(help="Languages to pair with, with commas; default the paper's five.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Share of the mean length that sources of a language may differ by.")
    ] = 0.4,
    sigmas: Annotated[float, typer.Option(min=0, help="The same across languages, in deviations.")] = 3.0,
    minimum_quality: Annotated[
        float, typer.Option(min=0, max=1, help="Remove sources below this share of the best one's chrF++.")
    ] = 0.75,
    sample: Annotated[
        int, typer.Option(min=0, help="Verses that sources are compared and relabelled by; 0: all.")
    ] = 500,
    on_bad: Annotated[str, typer.Option(help="error or skip: what to do at broken files and rows.")] = "error",
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
) -> None:
    """Build a parallel Bible: n-way table, pairs with five pivots, what was removed and why (OS A.8)."""
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
    paths: Annotated[list[Path], typer.Argument(help="Catalogs, folders, wheels and other zip files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Parquet file of the parallel schema.")],
    keep_equal: Annotated[bool, typer.Option(help="Keep rows whose two texts are equal.")] = False,
    strip_html: Annotated[bool, typer.Option(help="Take HTML tags and entities out.")] = False,
    on_bad: Annotated[str, typer.Option(help="skip or error: what to do at unreadable catalogs.")] = "skip",
) -> None:
    """Harvest translated messages from .po and .mo catalogs; counts stand beside the file in OUT.counts.json."""
    from hf_echo.corpora.gettext import harvest

    counts = harvest(paths, out, keep_equal=keep_equal, strip_html=strip_html, on_bad=on_bad)
    print_report(counts)
