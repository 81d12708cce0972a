"""hf-echo evaluate: measure a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import analyse
from .common import PLAIN, Json, Model, example, print_report, read_lines

commands = typer.Typer(help="Measure a model: xsim, xsim++, translation.", no_args_is_help=True, **PLAIN)

SourceFile = Annotated[Path, typer.Option("--source", help="Texts to search for, one a line.")]
TargetFile = Annotated[
    Path, typer.Option("--target", help="Their translations, line by line: the candidates.")
]


@commands.command("xsim", **example(
    "hf-echo evaluate xsim --model M --source a.txt --source-lang fra_Latn --target b.txt --target-lang eng_Latn"
))  # fmt: skip
def evaluate_xsim(
    model: Model,
    source: SourceFile,
    target: TargetFile,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of --target.")] = "eng_Latn",
    margin: Annotated[str | None, typer.Option(help="ratio or distance; cosine by default (OS 6.1).")] = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the margin.")] = 4,
    hard_negatives: Annotated[
        bool, typer.Option(help="xsim++ too, with hard negatives by rule (English).")
    ] = False,
    out: Json = None,
) -> None:
    """Error rate in percent of finding each line's translation. Any SentenceTransformer will do as model."""
    from ..evaluation import xsim, xsimpp
    from ..inference.any_encoder import any_encoder

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i"
        )
    encoder = any_encoder(model)
    x, y = encoder(sources, source_lang), encoder(targets, target_lang)
    found = xsim(x, y, margin=margin, k=k)
    report = {"model": model, "source_lang": source_lang, "target_lang": target_lang, **found.to_row()}
    if hard_negatives:
        from ..synthesis import hard_negatives_for

        flat = [(i, text, kind) for i, row in enumerate(hard_negatives_for(targets)) for text, kind in row]
        if not flat:
            raise ValueError(f"no hard negatives could be made from {target}: is it English?")
        owners, texts, kinds = zip(*flat, strict=True)
        hard = xsimpp(
            x,
            y,
            encoder(list(texts), target_lang),
            list(owners),
            negative_kind=list(kinds),
            margin=margin,
            k=k,
        )
        report["xsimpp"] = hard.to_row()
    print_report(report, out)


@commands.command("translation", **example(
    "hf-echo evaluate translation --model M --source a.txt --source-lang fra_Latn --target b.txt"
))  # fmt: skip
def evaluate_translation(
    model: Model,
    source: SourceFile,
    target: TargetFile,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str, typer.Option(help="Language of --target.")] = "eng_Latn",
    num_beams: Annotated[int, typer.Option(min=1, help="1 is greedy.")] = 1,
    out: Json = None,
) -> None:
    """chrF++ and spBLEU of the decoder, with sacrebleu's signatures."""
    from .. import inference
    from ..evaluation import translation_scores

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i"
        )
    translator, tokenizer = inference.load_translator(model)
    hypotheses = inference.translate(
        translator, tokenizer, sources, source_lang, target_lang, num_beams=num_beams
    )
    scores = translation_scores(hypotheses, targets, source_lang=source_lang or "", target_lang=target_lang)
    print_report({"model": model, **scores.to_row()}, out)


analyse.add_to(commands)
