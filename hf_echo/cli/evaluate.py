"""hf-echo evaluate: measure a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import analyse, tokens
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
    source: Annotated[Path | None, typer.Option(help="Texts to search for, one a line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line: candidates.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Instead: a table of id, lang, text (TSV, JSONL, Parquet).")
    ] = None,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[
        str | None, typer.Option(help="Language of --target; that of --data's pairs.")
    ] = "eng_Latn",
    margin: Annotated[str | None, typer.Option(help="ratio or distance; cosine by default (OS 6.1).")] = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the margin.")] = 4,
    hard_negatives: Annotated[
        bool, typer.Option(help="xsim++ too, with hard negatives by rule (English).")
    ] = False,
    direction: Annotated[
        str, typer.Option(help="With --data: to or from --target-lang, or all pairs.")
    ] = "to",
    group: Annotated[
        list[str] | None,
        typer.Option(help="With --data: averages by script, family or resource; repeatable."),
    ] = None,
    out: Json = None,
) -> None:
    """Error rate in percent of finding each line's translation. Any SentenceTransformer will do as model."""
    from ..inference.any_encoder import any_encoder

    if data is not None and source is None and target is None:
        options = {"direction": direction, "margin": margin, "k": k}
        report = _xsim_of_table(any_encoder(model), data, target_lang, hard_negatives, group or [], options)
    elif source is not None and target is not None and data is None:
        langs = source_lang, target_lang
        report = _xsim_of_lines(lambda: any_encoder(model), source, target, langs, hard_negatives, margin, k)
    else:
        raise ValueError("give --source and --target, two files of lines, or --data, one table")
    print_report({"model": model} | report, out)


def _xsim_of_lines(open_model, source, target, langs, hard_negatives, margin, k) -> dict:
    from ..evaluation import xsim, xsimpp
    from ..evaluation.checks import refuse_broken

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i"
        )
    encoder = open_model()
    x, y = encoder(sources, langs[0]), encoder(targets, langs[1])
    for vectors, file, lang in ((x, source, langs[0]), (y, target, langs[1])):
        refuse_broken(vectors, lambda row, file=file, lang=lang: f"{file}:{row + 1} ({lang})")
    found = xsim(x, y, margin=margin, k=k)
    report = {"source_lang": langs[0], "target_lang": langs[1], **found.to_row()}
    if hard_negatives:
        flat = _hard_negatives(targets, target)
        owners, texts, kinds = zip(*flat, strict=True)
        hard = xsimpp(
            x, y, encoder(list(texts), langs[1]), list(owners), negative_kind=list(kinds), margin=margin, k=k
        )
        report["xsimpp"] = hard.to_row()
    return report


def _xsim_of_table(encoder, data, target_lang, hard_negatives, groups, options) -> dict:
    from .. import evaluation
    from ..data import load_nway

    rows = load_nway(data)
    if target_lang not in (langs := set(rows["lang"])):
        raise ValueError(f"{data} has no rows in {target_lang!r}: found {', '.join(sorted(langs))}")
    negatives = None
    if hard_negatives:
        ids, texts = zip(*((r["id"], r["text"]) for r in rows if r["lang"] == target_lang), strict=True)
        negatives = {}
        for owner, text, kind in _hard_negatives(texts, data):
            negatives.setdefault(ids[owner], []).append((text, kind))
    try:
        table = evaluation.evaluate_xsim(
            encoder, rows, target_lang=target_lang, negatives=negatives, progress=True, **options
        )
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from None
    report = {"data": str(data), **table.notes, "rows": table.rows, "average": table.average}
    return report | {f"by_{name}": evaluation.grouped(table, name).rows for name in groups}


def _hard_negatives(targets, file: Path) -> list[tuple[int, str, str]]:
    """(row, text, kind)"""
    from ..synthesis import hard_negatives_for

    flat = [(i, text, kind) for i, row in enumerate(hard_negatives_for(list(targets))) for text, kind in row]
    if not flat:
        raise ValueError(f"no hard negatives could be made from {file}: is it English?")
    return flat


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
tokens.add_to(commands)
