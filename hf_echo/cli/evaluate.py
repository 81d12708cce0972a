"""hf-echo evaluate: measure a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..utils.files import load_npy
from . import analyse, tokens
from .common import PLAIN, AnyModel, Json, Translator, example, packaged_model, print_report, read_lines

commands = typer.Typer(help="Measure a model: xsim, xsim++, translation.", no_args_is_help=True, **PLAIN)


@commands.command(
    "xsim",
    **example(
        "hf-echo evaluate xsim --model M --source a.txt --source-lang fra_Latn --target b.txt --target-lang eng_Latn"
    ),
)
def evaluate_xsim(
    model: AnyModel,
    source: Annotated[Path | None, typer.Option(help="Texts to search for, one a line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line: candidates.")] = None,
    data: Annotated[Path | None, typer.Option(help="Instead: a table of id, lang, text (TSV, JSONL, Parquet).")] = None,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str | None, typer.Option(help="Language of --target; that of --data's pairs.")] = "eng_Latn",
    margin: Annotated[str | None, typer.Option(help="ratio or distance; cosine by default (OS 6.1).")] = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the margin.")] = 4,
    hard_negatives: Annotated[bool, typer.Option(help="xsim++ too, with hard negatives by rule (English).")] = False,
    direction: Annotated[str, typer.Option(help="With --data: to or from --target-lang, or all pairs.")] = "to",
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
    from ..search.checks import refuse_broken

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i")
    encoder = open_model()
    x, y = encoder(sources, langs[0]), encoder(targets, langs[1])
    for vectors, file, lang in ((x, source, langs[0]), (y, target, langs[1])):
        refuse_broken(vectors, lambda row, file=file, lang=lang: f"{file}:{row + 1} ({lang})")
    found = xsim(x, y, margin=margin, k=k)
    report = {"source_lang": langs[0], "target_lang": langs[1], **found.to_row()}
    if hard_negatives:
        flat = _hard_negatives(targets, target)
        owners, texts, kinds = zip(*flat, strict=True)
        hard = xsimpp(x, y, encoder(list(texts), langs[1]), list(owners), negative_kind=list(kinds), margin=margin, k=k)
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


@commands.command(
    "translation",
    **example("hf-echo evaluate translation --model M --source a.txt --source-lang fra_Latn --target b.txt"),
)
def evaluate_translation(
    model: Translator,
    source: Annotated[
        Path | None, typer.Option(help="Texts, one a line, or their embeddings (.npy), a row a line.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    data: Annotated[Path | None, typer.Option(help="Instead: a table of id, lang, text (TSV, JSONL, Parquet).")] = None,
    source_lang: Annotated[str | None, typer.Option(help="Language of --source.")] = None,
    target_lang: Annotated[str, typer.Option(help="Language of --target; that of --data's directions.")] = "eng_Latn",
    direction: Annotated[str, typer.Option(help="With --data: to or from --target-lang, both, or all pairs.")] = "to",
    decoder: Annotated[
        str | None,
        typer.Option(callback=packaged_model, help="Checkpoint whose decoder is used in place of --model's."),
    ] = None,
    num_beams: Annotated[int, typer.Option(min=1, help="1 is greedy.")] = 1,
    comet: Annotated[bool, typer.Option(help="COMET too (extra comet); not from embeddings.")] = False,
    blaser: Annotated[
        str | None, typer.Option(help="BLASER 2.0 too: folder or Hub name of `hf-echo convert blaser`.")
    ] = None,
    blaser_encoder: Annotated[
        str | None, typer.Option(help="Encoder that BLASER reads: SONAR for its published weights; else --model.")
    ] = None,
    out: Json = None,
) -> None:
    """chrF++ and spBLEU of the decoder, with sacrebleu's signatures."""
    from .. import inference
    from ..evaluation import blaser_scorer, comet_scorer, translation_scores

    tables = data is not None and source is None and target is None
    if not tables and (data is not None or source is None or target is None):
        raise ValueError("give --source and --target, two files of lines, or --data, one table")
    from_embeddings = source is not None and source.suffix == ".npy"
    if comet and from_embeddings:
        raise ValueError("--comet compares with the source texts, and --source holds embeddings")
    if blaser and from_embeddings:
        raise ValueError("--blaser compares with the source texts, and --source holds embeddings")
    if blaser_encoder and not blaser:
        raise ValueError("--blaser-encoder is the encoder of --blaser: give that too")
    if not tables:
        sources, targets = _embeddings(source) if from_embeddings else read_lines(source), read_lines(target)
        if len(sources) != len(targets):
            unit = "rows" if from_embeddings else "lines"
            raise ValueError(
                f"{source} has {len(sources)} {unit} and {target} {len(targets)} lines: line i must translate line i"
            )
    scorer = comet_scorer() if comet else None
    blaser_score = blaser_scorer(blaser, blaser_encoder or model) if blaser else None
    translator, tokenizer = inference.load_translator(model)
    if decoder is not None:  # both write and read one space; the texts are tokenized for the encoder
        translator, tokenizer = _joined(translator, tokenizer, decoder)

    def translate(inputs, source_lang, target_lang):
        return inference.translate(translator, tokenizer, inputs, source_lang, target_lang, num_beams=num_beams)

    if tables:
        report = _translation_of_table(translate, data, target_lang, direction, scorer, blaser_score)
    else:
        hypotheses = translate(sources, source_lang, target_lang)
        scores = translation_scores(hypotheses, targets, source_lang=source_lang or "", target_lang=target_lang)
        report = scores.to_row()
        if scorer is not None:
            report["comet"] = scorer(sources, hypotheses, targets)
        if blaser_score is not None:
            report["blaser"] = blaser_score(sources, hypotheses, targets, source_lang, target_lang)
    print_report({"model": model, **({"decoder": decoder} if decoder else {}), **report}, out)


def _embeddings(path: Path):
    import numpy as np

    from ..search.checks import refuse_broken

    vectors = load_npy(path)
    if vectors.ndim != 2:
        raise ValueError(f"{path} has shape {vectors.shape}, expected (sentences, dimensions)")
    refuse_broken(vectors, lambda row: f"{path}, row {row + 1}")
    return vectors.astype(np.float32)


def _joined(model, tokenizer, decoder: str):
    """The encoder of one checkpoint with the decoder of another, which must share the vocabulary."""
    from .. import inference
    from ..modeling import EchoForTranslation

    other, other_tokenizer = inference.load_translator(decoder)
    if not (type(model) is type(other) is EchoForTranslation):
        raise ValueError("--decoder joins two Echo checkpoints; a converted SONAR has its own decoder")
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        raise ValueError(
            f"{decoder} has another vocabulary: encode with one model (hf-echo encode) and give --source E.npy "
            "to the other"
        )
    return EchoForTranslation.from_parts(model.encoder, other.decoder).eval(), tokenizer


def _translation_of_table(translate, data, target_lang, direction, scorer, blaser_score) -> dict:
    from .. import evaluation
    from ..data import load_nway

    try:
        table = evaluation.evaluate_translation(
            translate,
            load_nway(data),
            target_lang=target_lang,
            direction=direction,
            comet=scorer,
            blaser=blaser_score,
            progress=True,
        )
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from None
    return {"data": str(data), **table.notes, "rows": table.rows, "average": table.average}


analyse.add_to(commands)
tokens.add_to(commands)
