"""hf-echo evaluate alignment: commands of `evaluate` that look at single tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Json, Model, example, print_report


def add_to(commands: typer.Typer) -> None:
    """Puts these commands beside the others of `hf-echo evaluate`."""
    commands.command("alignment", **example(
        "hf-echo evaluate alignment --model M --data word_alignment.parquet --split dev --layers 2 --layers -1"
    ))(alignment)  # fmt: skip


def alignment(
    model: Model,
    data: Annotated[
        Path, typer.Option(help="Parquet or JSONL: src_tokens, tgt_tokens, alignment, possible.")
    ],
    layers: Annotated[
        list[int] | None, typer.Option(help="Only this layer; may be repeated. 0: embeddings, -1: last.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only rows whose column `split` says this.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Sentence pairs of each two languages.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Rounds of itermax.")] = 2,
    on_long: Annotated[str, typer.Option(help="Pairs beyond the model's length: error or skip.")] = "error",
    out: Json = None,
) -> None:
    """Alignment error rate by layer and language pair, argmax and itermax. Any encoder of transformers will do."""
    from ..evaluation.alignment import METHODS, aer_by_layer, evaluate_alignment
    from ..evaluation.alignment_data import load_alignment
    from ..inference import load_encoder

    pairs = load_alignment(data, split=split, limit=limit)
    encoder, tokenizer = load_encoder(model)
    options = {"layers": layers or None, "iterations": iterations, "on_long": on_long}
    table = evaluate_alignment(encoder, tokenizer, pairs, **options, progress=True)
    by_layer = {method: aer_by_layer(table, method).rows for method in METHODS}
    print_report({"model": model, **table.notes, "aer_by_layer": by_layer, "rows": table.rows}, out)
