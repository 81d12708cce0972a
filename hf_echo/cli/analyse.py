"""hf-echo evaluate geometry, cost, ease, xrete: geometry, FLOPs and speed, easy and hard languages, public tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..utils.files import write_whole
from ..utils.text import read_lines
from .common import AnyModel, Json, example, packaged_model, print_report, refuse_given


def add_to(commands: typer.Typer) -> None:
    """Add these commands to `hf-echo evaluate`."""
    commands.command(
        "geometry", **example("hf-echo evaluate geometry --model M --data nway.parquet --json geometry.json")
    )(geometry)
    commands.command("cost", **example("hf-echo evaluate cost --model M --texts a.txt --lang fra_Latn"))(cost)
    commands.command(
        "ease",
        **example("hf-echo evaluate ease --data xsim.json --features languages.tsv --group family --group script"),
    )(ease)
    commands.command("xrete", **example("hf-echo evaluate xrete --model M --task Tatoeba --task BUCC"))(xrete)


def geometry(
    model: AnyModel,
    data: Annotated[Path, typer.Option(help="n-way table with the columns id (or verse_id, index_id), lang, text.")],
    lang: Annotated[list[str] | None, typer.Option(help="Use only this language; repeatable. Default: all.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Use only rows with this value in the column `split`. Default: all.")
    ] = None,
    shrinkage: Annotated[float, typer.Option(help="Shrinkage of the covariances in the invariance, 0 to 1.")] = 0.01,
    out: Json = None,
) -> None:
    """Measure spread, rank, isotropy, invariance, Calinski-Harabasz and RSIM on the sentences that all languages have.

    Only the file of --json contains the singular values."""
    from tempfile import TemporaryDirectory

    from ..data import load_nway
    from ..evaluation.space.geometry import evaluate_geometry
    from ..evaluation.space.language_arrays import encode_parallel
    from ..inference.any_encoder import any_encoder

    rows = load_nway(data, split=split)
    with TemporaryDirectory() as folder:
        parts = encode_parallel(any_encoder(model), rows, folder, lang, progress=True)
        result = evaluate_geometry(parts, shrinkage=shrinkage)
    by_language = result.by_language().rows
    curve = result.singular_values.tolist()
    report = {"model": model, **result.to_row(), "by_language": by_language}
    print_report(report, out, file_only={"singular_values": curve})


def cost(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            callback=packaged_model,
            help="Folder, Hub name or echo-nano. Default: none, print the grid of OS Figure 8.",
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Texts to measure the speed on, one per line. Default: built-in sentences."),
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Language of the texts. Default: fra_Latn for the built-in ones.")
    ] = None,
    tokens: Annotated[
        list[int] | None,
        typer.Option(help="Text length in tokens for the FLOPs; repeatable. Default: 20, 128 and 512."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measured rounds, after one warm-up round.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Write the heat map of OS Figure 8 to this file (.png).")] = None,
    out: Json = None,
) -> None:
    """Count FLOPs by text length and measure sentences per second of a model; without a model, print OS Figure 8."""
    from ..evaluation.benchmarks import cost as flops

    report: dict = {}
    if model is not None:
        report = {"model": model, "encoder_flops": _encoder_flops(model, tokens or [20, 128, 512])}
        lines, lang = (read_lines(texts), lang) if texts is not None else _builtin_texts(lang)
        try:
            speed = _speed(model, lines, lang, rounds)
        except (OSError, ValueError) as error:
            if texts is not None:
                raise
            speed = None  # FLOPs need the configuration only, not the weights
            typer.echo(f"speed not measured: {str(error).splitlines()[0]}", err=True)
        report["speed"] = speed and {"texts": str(texts or "builtin"), "lang": lang, **speed}
    else:
        refuse_given(context, ("texts", "lang", "tokens", "rounds"), "needs a model to measure: give --model")
    if model is None or plot is not None:
        grid = flops.cost_grid()
        report["grid"] = {
            "baseline": grid.baseline,
            "documents": grid.documents.tolist(),
            "outputs": grid.outputs.tolist(),
            "ratio": grid.ratio.round(3).tolist(),
        }
        if plot is not None:
            with write_whole(plot) as unfinished:
                flops.plot_cost_grid(grid, unfinished)
    print_report(report, out)


def ease(
    data: Annotated[
        Path, typer.Option(help="One row per language (lang, target): a table, or the JSON of evaluate xsim --data.")
    ],
    features: Annotated[
        Path | None,
        typer.Option(help="Table of lang and features (TSV, JSONL, Parquet). Default: the features of --data."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Add a known feature: family, script or resource; repeatable.")
    ] = None,
    target: Annotated[str, typer.Option(help="Column to predict.")] = "xsim",
    feature: Annotated[list[str] | None, typer.Option(help="Use only this feature; repeatable. Default: all.")] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation over languages.")] = 5,
    repeats: Annotated[int, typer.Option(help="Permutations per feature.")] = 20,
    out: Json = None,
) -> None:
    """Explain a score per language from features of languages: boosting, permutation importance (OS Table 17)."""
    from ..evaluation.probes.ease import explain_ease, join_features

    rows, of_languages = _rows_of_languages(data), _rows_of_languages(features) if features else None
    try:
        if features or group:
            rows = join_features(rows, target, of_languages, group or ())
        result = explain_ease(rows, target, features=feature or None, folds=folds, repeats=repeats)
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from None
    print_report({**result.to_row(), "features": result.to_table().rows}, out)


def _rows_of_languages(path: Path) -> list[dict]:
    """Rows of a table (numbers converted from text), or of the JSON of `evaluate xsim --data`."""
    import json

    from ..evaluation.labelled_rows import read_rows

    if path.suffix.lower() != ".json":
        return [{name: _number(value) for name, value in row.items()} for _, row in read_rows(path, ["lang"])]
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give the JSON of hf-echo evaluate xsim --data, or a table")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        raise ValueError(f"{path} has no rows by language: make it with hf-echo evaluate xsim --data ... --json")
    return content["rows"]


def _number(value):
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value else None
    except ValueError:
        return value


def _encoder_flops(model: str, lengths: list[int]) -> dict[int, float] | None:
    """{tokens: FLOPs of one text}; None for a model that is not a Llama."""
    from transformers import AutoConfig

    from ..evaluation.benchmarks.cost import Stack, encoder_flops
    from ..inference.encode import opening

    with opening(model) as name:
        config = AutoConfig.from_pretrained(name)
    if config.model_type not in ("echo", "llama"):
        return None
    return {length: encoder_flops(Stack.of(config), length) for length in lengths}


def _builtin_texts(lang: str | None, n: int = 512) -> tuple[list[str], str]:
    """(sentences, language) of the built-in corpus; French by default."""
    from ..data.builtin import builtin_parallel

    lang = lang or "fra_Latn"
    if lang == "eng_Latn":
        return builtin_parallel(n=n)["target"][:], lang
    return builtin_parallel(n=n, languages=[lang])["source"][:], lang


def _speed(model: str, texts: list[str], lang: str | None, rounds: int) -> dict:
    from transformers import AutoTokenizer

    from ..evaluation.benchmarks.speed import measure_speed
    from ..inference.any_encoder import any_encoder
    from ..inference.encode import opening
    from ..modeling import EchoTokenizer

    with opening(model) as name:
        tokenizer = AutoTokenizer.from_pretrained(name)

    def count_tokens(texts, lang):
        prompt = {"lang": lang} if isinstance(tokenizer, EchoTokenizer) else {}
        return sum(map(len, tokenizer(list(texts), truncation=True, **prompt)["input_ids"]))

    return measure_speed(any_encoder(model), texts, lang, count_tokens=count_tokens, rounds=rounds).to_row()


def xrete(
    model: AnyModel,
    task: Annotated[
        list[str] | None, typer.Option(help="Task of XRETE, such as Tatoeba; repeatable. Default: all five.")
    ] = None,
    copies: Annotated[
        Path | None, typer.Option(help="Folder with a local copy of each set, such as tatoeba/. Default: the Hub.")
    ] = None,
    out: Json = None,
) -> None:
    """Run the tasks of XRETE (EMMA-X) that need no fine-tuning, with averages over head and long-tail languages."""
    from ..evaluation.benchmarks.public_sets import load_benchmark
    from ..evaluation.benchmarks.xrete import evaluate_xrete
    from ..inference.any_encoder import any_encoder

    def load(name: str) -> list[dict]:
        if copies is None:
            return load_benchmark(name)
        own = sorted(copies.glob(f"{name}*"))
        if not own:
            raise FileNotFoundError(f"{copies} has no {name}, a file or folder of that set; or leave --copies out")
        return load_benchmark(name, path=own[0])

    table = evaluate_xrete(any_encoder(model), tasks=task, load=load)
    print_report({"model": model, "rows": table.rows, "average": table.average, **table.notes}, out)
