"""hf-echo evaluate geometry, cost, ease: of a space, of what a model takes, of why a language is easy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..utils.files import write_whole
from .common import AnyModel, Json, example, packaged_model, print_report, read_lines


def add_to(commands: typer.Typer) -> None:
    """Puts these commands beside the others of `hf-echo evaluate`."""
    commands.command(
        "geometry", **example("hf-echo evaluate geometry --model M --data nway.parquet --json geometry.json")
    )(geometry)
    commands.command("cost", **example("hf-echo evaluate cost --model M --texts a.txt --lang fra_Latn"))(cost)
    commands.command(
        "ease",
        **example("hf-echo evaluate ease --data xsim.json --features languages.tsv --group family --group script"),
    )(ease)


def geometry(
    model: AnyModel,
    data: Annotated[Path, typer.Option(help="n-way table: columns id (or verse_id, index_id), lang, text.")],
    lang: Annotated[list[str] | None, typer.Option(help="Only this language; may be repeated.")] = None,
    split: Annotated[str | None, typer.Option(help="Only rows whose column `split` says this.")] = None,
    shrinkage: Annotated[float, typer.Option(help="Of the covariances behind the invariance.")] = 0.01,
    out: Json = None,
) -> None:
    """Spread, rank, isotropy, invariance, Calinski-Harabasz and RSIM of the sentences that all languages have.

    The singular values go into the file of --json only."""
    from tempfile import TemporaryDirectory

    from ..data import load_nway
    from ..evaluation.space.geometry import evaluate_geometry
    from ..evaluation.space.language_arrays import encode_parallel
    from ..inference.any_encoder import any_encoder

    rows = load_nway(data, split=split)
    with TemporaryDirectory() as folder:
        parts = encode_parallel(any_encoder(model), rows, folder, lang, progress=True)
        found = evaluate_geometry(parts, shrinkage=shrinkage)
    by_language = found.by_language().rows
    curve = found.singular_values.tolist()
    report = {"model": model, **found.to_row(), "by_language": by_language}
    print_report(report, out, file_only={"singular_values": curve})


def cost(
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            callback=packaged_model,
            help="Folder, Hub name or echo-nano; without it the grid of OS Figure 8.",
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Measure the speed on these texts, one a line; by default built-in sentences."),
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Their language.")] = None,
    tokens: Annotated[list[int] | None, typer.Option(help="FLOPs at this length; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measured rounds, after one to warm up.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Write the heat map of OS Figure 8 here (.png).")] = None,
    out: Json = None,
) -> None:
    """FLOPs of a text by its length and sentences a second of a model; or, without one, OS Figure 8."""
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
            speed = None  # a configuration without weights has FLOPs all the same
            typer.echo(f"speed not measured: {str(error).splitlines()[0]}", err=True)
        report["speed"] = speed and {"texts": str(texts or "builtin"), "lang": lang, **speed}
    elif texts is not None:
        raise ValueError(f"--texts {texts} needs --model: nothing to measure")
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
    data: Annotated[Path, typer.Option(help="A row a language: lang, the target; table or JSON of evaluate xsim.")],
    features: Annotated[
        Path | None,
        typer.Option(help="Table of lang and features, if --data holds none (TSV, JSONL, Parquet)."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Known feature: family, script, resource; repeatable.")
    ] = None,
    target: Annotated[str, typer.Option(help="Column to explain.")] = "xsim",
    feature: Annotated[list[str] | None, typer.Option(help="Only this feature; repeatable.")] = None,
    folds: Annotated[int, typer.Option(help="Parts that languages are held out in.")] = 5,
    repeats: Annotated[int, typer.Option(help="Shuffles of each feature.")] = 20,
    out: Json = None,
) -> None:
    """Why is a language easy: gradient boosting on features of languages, with permutation importance (OS Table 17)."""
    from ..evaluation.probes.ease import explain_ease, join_features

    rows = _rows_of_languages(data)
    if features or group:
        rows = join_features(rows, target, _rows_of_languages(features) if features else None, group or ())
    found = explain_ease(rows, target, features=feature or None, folds=folds, repeats=repeats)
    print_report({**found.to_row(), "features": found.to_table().rows}, out)


def _rows_of_languages(path: Path) -> list[dict]:
    """A table, whose text that looks like a number is one, or the JSON of a command of `evaluate`."""
    import json

    from ..evaluation.labelled_rows import read_rows

    if path.suffix != ".json":
        return [{name: _number(value) for name, value in row.items()} for _, row in read_rows(path, ["lang"])]
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give the JSON of hf-echo evaluate xsim --data, or a table")
    content = json.loads(path.read_text(encoding="utf-8"))
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
    """None where the model is no Llama: its FLOPs are not known here."""
    from transformers import AutoConfig

    from ..evaluation.benchmarks.cost import Stack, encoder_flops
    from ..inference.encode import opening

    with opening(model) as name:
        config = AutoConfig.from_pretrained(name)
    if config.model_type not in ("echo", "llama"):
        return None
    return {length: encoder_flops(Stack.of(config), length) for length in lengths}


def _builtin_texts(lang: str | None, n: int = 512) -> tuple[list[str], str]:
    """(sentences, their language) of the built-in corpus; French by default."""
    from ..corpora.builtin import builtin_parallel

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
