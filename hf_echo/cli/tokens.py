"""hf-echo evaluate alignment, tagging, wic: commands of `evaluate` that look at single tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Json, Model, example, print_report


def add_to(commands: typer.Typer) -> None:
    """Puts these commands beside the others of `hf-echo evaluate`."""
    commands.command(
        "alignment",
        **example(
            "hf-echo evaluate alignment --model M --data word_alignment.parquet --split dev --layers 2 --layers -1"
        ),
    )(alignment)
    commands.command("tagging", **example("hf-echo evaluate tagging --model M --train eng.jsonl --test all.jsonl"))(
        tagging
    )
    commands.command("wic", **example("hf-echo evaluate wic --model M --set xlwic --path XL-WIC --lang deu_Latn"))(wic)


Train = Annotated[Path | None, typer.Option(help="Rows to learn on (Parquet, JSONL).")]
Test = Annotated[Path | None, typer.Option(help="Rows to measure on, of any languages.")]
PublicSet = Annotated[str | None, typer.Option("--set", help="Instead of files: a public set's name.")]
Place = Annotated[Path | None, typer.Option(help="A local copy of --set; from the Hub without.")]
TrainLang = Annotated[str, typer.Option(help="With --set: the language to learn on.")]
Langs = Annotated[list[str] | None, typer.Option("--lang", help="With --set: only this; repeatable.")]
Layer = Annotated[int, typer.Option(help="0: embeddings, -1: last.")]


def alignment(
    model: Model,
    data: Annotated[Path, typer.Option(help="Parquet or JSONL: src_tokens, tgt_tokens, alignment, possible.")],
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
    from ..evaluation.tokens.alignment import METHODS, aer_by_layer, evaluate_alignment
    from ..evaluation.tokens.alignment_data import load_alignment
    from ..inference import load_encoder

    pairs = load_alignment(data, split=split, limit=limit)
    encoder, tokenizer = load_encoder(model)
    options = {"layers": layers or None, "iterations": iterations, "on_long": on_long}
    table = evaluate_alignment(encoder, tokenizer, pairs, **options, progress=True)
    by_layer = {method: aer_by_layer(table, method).rows for method in METHODS}
    print_report({"model": model, **table.notes, "aer_by_layer": by_layer, "rows": table.rows}, out)


def tagging(
    model: Model,
    train: Train = None,
    test: Test = None,
    public_set: PublicSet = None,
    path: Place = None,
    train_lang: TrainLang = "eng_Latn",
    lang: Langs = None,
    layer: Layer = -1,
    out: Json = None,
) -> None:
    """Span F1 by language of a linear probe on a frozen encoder. Rows: tokens, tags (B-X, I-X, O), lang.

    Sets: panx, massive_slots."""
    from ..evaluation.tokens.tagging import COLUMNS, evaluate_tagging

    rows = _train_and_test("tagging", COLUMNS, train, test, public_set, path, train_lang, lang)
    _probe(evaluate_tagging, model, rows, layer, out)


def wic(
    model: Model,
    train: Train = None,
    test: Test = None,
    public_set: PublicSet = None,
    path: Place = None,
    train_lang: TrainLang = "eng_Latn",
    lang: Langs = None,
    layer: Layer = -1,
    out: Json = None,
) -> None:
    """Does a word mean the same in two sentences: accuracy by language of a linear probe, and of a cosine threshold.

    Rows: sentence1, start1, end1, sentence2, start2, end2 (characters), label, lang. Sets: wic, xlwic."""
    from ..evaluation.tokens.wic import COLUMNS, evaluate_wic

    rows = _train_and_test("wic", COLUMNS, train, test, public_set, path, train_lang, lang)
    _probe(evaluate_wic, model, rows, layer, out)


def _train_and_test(shape, columns, train, test, public_set, path, train_lang, langs) -> tuple[list, list]:
    from ..evaluation.benchmarks.public_sets import load_benchmark
    from ..evaluation.benchmarks.public_tables import SETS
    from ..evaluation.labelled_rows import read_rows

    if public_set is None:
        if train is None or test is None or path is not None:
            raise ValueError("give --train and --test, two files of rows, or --set, a public set")
        return tuple([row for _, row in read_rows(file, columns, ["lang"])] for file in (train, test))
    if train is not None or test is not None:
        raise ValueError("--set brings its own rows: leave --train and --test out")
    fitting = [name for name, known in SETS.items() if known.shape == shape]
    if public_set not in fitting:
        raise ValueError(f"--set {public_set!r} has no rows of this kind; known are {', '.join(fitting)}")
    return (
        load_benchmark(public_set, langs=[train_lang], split="train", path=path),
        load_benchmark(public_set, langs=langs, path=path),
    )


def _probe(evaluate, model, rows, layer, out) -> None:
    from ..inference import load_encoder

    table = evaluate(*load_encoder(model), *rows, layer=layer, progress=True)
    print_report({"model": model, **table.notes, "rows": table.rows, "average": table.average}, out)
