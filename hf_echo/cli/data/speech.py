"""hf-echo data speech: speak a corpus with speech engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import PLAIN, Json, example, print_report

commands = typer.Typer(**PLAIN)


@commands.command(
    **example("hf-echo data speech sentences.tsv spoken --engine espeak-ng --engine flite --copies 2", folder=True)
)
def speech(
    texts: Annotated[
        Path, typer.Argument(help="Sentences: lines (.txt), a table of text and lang, n-way, or parallel text.")
    ],
    out: Annotated[Path, typer.Argument(help="Output folder; an interrupted run resumes there.")],
    lang: Annotated[str | None, typer.Option(help="Language of TEXTS, if it has no column for it.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only-lang", help="Speak only this language; repeatable. Default: all.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="espeak-ng, flite, festival, pico, mbrola or rhvoice; repeatable. Default: all installed."),
    ] = None,
    voice: Annotated[
        list[str] | None,
        typer.Option(help="Use only this voice, ENGINE:VOICE (espeak-ng:de+f2); repeatable. Default: all."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Speak with the voices kept for measuring, which training refuses.")
    ] = False,
    phonemes: Annotated[
        bool, typer.Option("--phonemes", help="Write phonemes, which CTC can learn; needs espeak-ng.")
    ] = False,
    copies: Annotated[int, typer.Option(min=1, help="Clips of each sentence, with different voices.")] = 1,
    speed: Annotated[tuple[float, float], typer.Option(help="Lowest and highest speed, relative to a voice.")] = (
        0.8,
        1.25,
    ),
    pitch: Annotated[tuple[float, float], typer.Option(help="Lowest and highest pitch, relative to a voice.")] = (
        0.85,
        1.2,
    ),
    room: Annotated[float, typer.Option(min=0, max=1, help="Share of clips with the echo of a room.")] = 0.3,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of clips with noise (5 to 30 dB).")] = 0.5,
    band: Annotated[float, typer.Option(min=0, max=1, help="Share of clips with a narrow band, as a telephone.")] = 0.3,
    exclude: Annotated[
        list[Path] | None, typer.Option(help="File of lines that are not spoken, such as a test set; repeatable.")
    ] = None,
    longest: Annotated[
        int, typer.Option(min=1, help="Longest sentence in characters; longer ones are left out.")
    ] = 300,
    limit: Annotated[int | None, typer.Option(min=1, help="Draw so many sentences at random. Default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed gives the same clips.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Engines at a time. Default: one per processor.")] = None,
    on_bad_row: Annotated[str, typer.Option(help="For bad rows of TEXTS: error or skip.")] = "error",
    report: Json = None,
) -> None:
    """Speak sentences with speech engines such as espeak-ng: a speech corpus of Parquet files."""
    from ...corpora.speech import Effects, SpeechPlan, open_engines, read_sentences, speak_corpus
    from ...utils.text import read_lines

    plan = SpeechPlan(
        copies=copies,
        speed=speed,
        pitch=pitch,
        effects=Effects(room, noise, band),
        seed=seed,
        measure=measure,
        voices=tuple(voice or ()),
        phonemes=phonemes,
    )
    engines = open_engines(engine or ())
    left_out = {line for file in exclude or () for line in read_lines(file)}
    sentences = read_sentences(
        texts,
        lang=lang,
        langs=only or (),
        exclude=left_out,
        longest=longest,
        limit=limit,
        seed=seed,
        on_bad_row=on_bad_row,
    )
    print_report(speak_corpus(sentences, out, engines, plan, workers=workers, progress=True), report)
