"""hf-echo prune: a smaller model out of a larger one, to be distilled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...utils.text import read_lines
from ..common import Json, example, print_report

commands = typer.Typer()


@commands.command(
    **example("hf-echo prune outputs/echo outputs/echo-tiny --size tiny --tokenizer outputs/tokenizer-32k", folder=True)
)
def prune(
    model: Annotated[str, typer.Argument(help="Echo checkpoint or release: folder, org/name@v1.2.0 or echo-nano.")],
    out: Annotated[Path, typer.Argument(help="Output folder of the smaller model.")],
    size: Annotated[
        str | None, typer.Option(help="large, medium, small, tiny or xtiny (OS Table 36), nano, or half.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="FIELD=NUMBER,... that replace values of --size, such as num_hidden_layers=8.")
    ] = None,
    importance: Annotated[
        str,
        typer.Option(help="How to choose what to keep: weight, activation, or plain (the first ones)."),
    ] = "weight",
    calibration: Annotated[Path | None, typer.Option(help="For activation: texts, one per line.")] = None,
    lang: Annotated[str | None, typer.Option(help="Language of these texts. Default: unspecified.")] = None,
    decoder: Annotated[str, typer.Option(help="keep (as it is), prune (to the same shape) or drop.")] = "keep",
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Move the smaller model onto this tokenizer: folder, tokenizer.json or org/name@v1.2.0."),
    ] = None,
    report: Json = None,
) -> None:
    """Make an encoder smaller (structured pruning, OS 4.8): fewer layers, heads and units, the same embedding size."""
    from ...cards.model_card import write_checkpoint_card
    from ...checkpoints.pruning.prune_checkpoint import prune_checkpoint
    from ...checkpoints.pruning.shapes import read_shape

    if lang is not None and calibration is None:
        raise ValueError("--lang is the language of the --calibration texts: give these too, or leave it out")
    found = prune_checkpoint(
        model,
        out,
        size=size,
        shape=read_shape(shape) if shape else None,
        importance=importance,
        texts=read_lines(calibration) if calibration else None,
        calibration=calibration,
        lang=lang,
        decoder=decoder,
        tokenizer=tokenizer,
    )
    write_checkpoint_card(out)
    print_report(found, report)
