"""hf-echo evaluate alignment, tagging, wic: evaluate token states (word alignment, tagging, word in context)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .common import Json, Model, example, print_report, refuse_given


def add_to(commands: typer.Typer) -> None:
    """Add these commands to `hf-echo evaluate`."""
    commands.command(
        "alignment",
        **example(
            "hf-echo evaluate alignment --model M --data word_alignment.parquet --split dev --layers 2 --layers -1"
        ),
    )(alignment)
    commands.command(
        "tagging",
        help=TAGGING,
        **example("hf-echo evaluate tagging --model M --train eng.jsonl --test all.jsonl"),
    )(probe_command("tagging"))
    commands.command(
        "wic",
        help=WIC,
        **example("hf-echo evaluate wic --model M --set xlwic --path XL-WIC --lang deu_Latn"),
    )(probe_command("wic"))


TAGGING = """Measure span F1 by language with a linear probe on a frozen encoder.

Rows have tokens, tags (B-X, I-X, O) and lang. Public sets: panx, massive_slots."""
WIC = """Measure word-in-context accuracy by language: a linear probe and a cosine threshold on a frozen encoder.

Rows have sentence1, start1, end1, sentence2, start2, end2 (in characters), label (same meaning or not) and lang.
Public sets: wic, xlwic."""


Train = Annotated[Path | None, typer.Option(help="Training rows (Parquet, JSONL).")]
Test = Annotated[Path | None, typer.Option(help="Test rows in any languages (Parquet, JSONL).")]
PublicSet = Annotated[str | None, typer.Option("--set", help="Name of a public set, instead of --train and --test.")]
Place = Annotated[Path | None, typer.Option(help="Local copy of --set. Default: download from the Hub.")]
TrainLang = Annotated[str, typer.Option(help="With --set: language of the training rows.")]
Langs = Annotated[list[str] | None, typer.Option("--lang", help="With --set: test language; repeatable. Default: all.")]
Layer = Annotated[int, typer.Option(help="Layer of the token states: 0 is the embeddings, -1 the last layer.")]


def alignment(
    model: Model,
    data: Annotated[Path, typer.Option(help="Table (Parquet, JSONL) of src_tokens, tgt_tokens, alignment, possible.")],
    layers: Annotated[
        list[int] | None,
        typer.Option(help="Layer to evaluate; repeatable. 0 is the embeddings, -1 the last layer. Default: all."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Use only rows with this value in the column `split`. Default: all.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Sentence pairs per language pair. Default: all.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of itermax.")] = 2,
    on_long: Annotated[str, typer.Option(help="For pairs longer than the model's limit: error or skip.")] = "error",
    out: Json = None,
) -> None:
    """Measure the alignment error rate of argmax and itermax by layer and language pair."""
    from ..evaluation.tokens.alignment import METHODS, aer_by_layer, evaluate_alignment
    from ..evaluation.tokens.alignment_data import load_alignment
    from ..inference import load_encoder

    pairs = load_alignment(data, split=split, limit=limit)
    encoder, tokenizer = load_encoder(model)
    options = {"layers": layers or None, "iterations": iterations, "on_long": on_long}
    table = evaluate_alignment(encoder, tokenizer, pairs, **options, progress=True)
    by_layer = {method: aer_by_layer(table, method).rows for method in METHODS}
    print_report({"model": model, **table.notes, "aer_by_layer": by_layer, "rows": table.rows}, out)


def probe_command(shape: str) -> Callable[..., None]:
    """The command that evaluates rows of this shape ("tagging" or "wic") with a linear probe on a frozen encoder."""

    def command(
        context: typer.Context,
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
        from ..inference import load_encoder

        if public_set is None:
            refuse_given(context, ("path", "train_lang", "lang"), "needs --set; leave it out for --train and --test")
        measure = import_module(f"hf_echo.evaluation.tokens.{shape}")
        evaluate = getattr(measure, f"evaluate_{shape}")
        rows = _train_and_test(shape, measure.COLUMNS, train, test, public_set, path, train_lang, lang)
        table = evaluate(*load_encoder(model), *rows, layer=layer, progress=True)
        print_report({"model": model, **table.notes, "rows": table.rows, "average": table.average}, out)

    return command


def _train_and_test(shape, columns, train, test, public_set, path, train_lang, langs) -> tuple[list, list]:
    from ..evaluation.benchmarks.public_sets import load_benchmark
    from ..evaluation.benchmarks.public_tables import SETS
    from ..evaluation.labelled_rows import read_rows

    if public_set is None:
        if train is None or test is None:
            raise ValueError("give --train and --test (two files of rows) or --set (a public set)")
        first, second = ([row for _, row in read_rows(file, columns, ["lang"], tsv=False)] for file in (train, test))
        return first, second
    if train is not None or test is not None:
        raise ValueError(f"--set {public_set} has its own rows: leave --train and --test out")
    fitting = [name for name, known in SETS.items() if known.shape == shape]
    if public_set not in fitting:
        raise ValueError(f"--set {public_set!r} has no rows for {shape}; choose from {', '.join(fitting)}")
    return (
        load_benchmark(public_set, langs=[train_lang], split="train", path=path),
        load_benchmark(public_set, langs=langs, path=path),
    )
