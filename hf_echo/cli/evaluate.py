"""hf-echo evaluate: xsim, xsim++ and translation scores of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..utils.files import load_npy
from ..utils.text import read_lines
from . import analyse, evaluate_speech, tokens
from .common import PLAIN, AnyModel, Json, Translator, example, packaged_model, print_report, refuse_given

commands = typer.Typer(
    help="Measure a model: xsim, xsim++, translation, speech, word alignment, probes, geometry, cost.",
    no_args_is_help=True,
    **PLAIN,
)

NWay = Annotated[
    Path | None, typer.Option(help="Table of id, lang, text (TSV, JSONL, Parquet), instead of --source and --target.")
]
Split = Annotated[
    str | None, typer.Option(help="With --data: use only rows with this value in the column `split`. Default: all.")
]
SourceLang = Annotated[str | None, typer.Option(help="Language of --source.")]


@commands.command(
    "xsim",
    **example(
        "hf-echo evaluate xsim --model M --source a.txt --source-lang fra_Latn --target b.txt --target-lang eng_Latn"
    ),
)
def evaluate_xsim(
    context: typer.Context,
    model: AnyModel,
    source: Annotated[Path | None, typer.Option(help="Query texts, one per line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Translations, line by line: the candidates.")] = None,
    data: NWay = None,
    source_lang: SourceLang = None,
    target_lang: Annotated[
        str | None, typer.Option(help="Language of --target, or the pivot language of --data.")
    ] = "eng_Latn",
    margin: Annotated[str, typer.Option(help="Score of a candidate: cosine (OS 6.1), ratio or distance.")] = "cosine",
    k: Annotated[int, typer.Option(min=1, help="Number of neighbours for the margin.")] = 4,
    hard_negatives: Annotated[
        bool, typer.Option(help="Also report xsim++, with rule-based hard negatives (English targets).")
    ] = False,
    direction: Annotated[str, typer.Option(help="With --data: to or from --target-lang, or all.")] = "to",
    group: Annotated[
        list[str] | None,
        typer.Option(help="With --data: average by script, family or resource; repeatable."),
    ] = None,
    split: Split = None,
    out: Json = None,
) -> None:
    """Measure xsim: the percentage of sentences whose nearest candidate is not their translation.

    A candidate with the same text as the translation is right, as in `hf-echo report`."""
    from ..data import load_nway
    from ..evaluation.groups import GROUPS
    from ..inference.any_encoder import any_encoder
    from ..languages import find_language
    from ..search.margin import checked_margin

    if checked_margin(margin) == "cosine":
        refuse_given(context, ("k",), "needs --margin ratio or distance")
    if hard_negatives and target_lang not in (None, "eng_Latn") and find_language(target_lang) != "eng_Latn":
        raise ValueError(f"--hard-negatives are made by rules for English, not for {target_lang}: leave it out")
    _refuse_other_way(context, data)
    if data is not None and source is None and target is None:
        groups = group or []
        if unknown := [name for name in groups if name not in GROUPS[:3]]:
            raise ValueError(f"--group is {unknown[0]!r}; it must be one of {', '.join(GROUPS[:3])}")
        options = {"direction": direction, "margin": margin, "k": k}
        rows = load_nway(data, split=split)
        report = _xsim_of_table(any_encoder(model), data, rows, target_lang, hard_negatives, groups, options)
    elif source is not None and target is not None and data is None:
        langs = source_lang, target_lang
        report = _xsim_of_lines(lambda: any_encoder(model), source, target, langs, hard_negatives, margin, k)
    else:
        raise ValueError("give --source and --target, two files of lines, or --data, one table")
    print_report({"model": model} | report, out)


def _refuse_other_way(context: typer.Context, data: Path | None) -> None:
    """Refuse options of --data with --source, and the other way round."""
    if data is None:
        refuse_given(context, ("direction", "group", "split"), "needs --data; leave it out for --source and --target")
    else:
        refuse_given(context, ("source_lang",), "is the language of --source; leave it out for --data")


def _xsim_of_lines(open_model, source, target, langs, hard_negatives, margin, k) -> dict:
    from ..evaluation import text_groups, xsim, xsimpp
    from ..search.checks import refuse_broken

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(f"{source} has {len(sources)} lines and {target} {len(targets)}: line i must translate line i")
    encoder = open_model()
    x, y = encoder(sources, langs[0]), encoder(targets, langs[1])
    for vectors, file, lang in ((x, source, langs[0]), (y, target, langs[1])):
        refuse_broken(vectors, lambda row, file=file, lang=lang: f"{file}:{row + 1} ({lang})")
    options = {"margin": margin, "k": k, "gold": text_groups(targets)}
    result = xsim(x, y, **options)
    report = {"source_lang": langs[0], "target_lang": langs[1], **result.to_row()}
    if hard_negatives:
        flat = _hard_negatives(targets, target)
        owners, texts, kinds = zip(*flat, strict=True)
        hard = xsimpp(x, y, encoder(list(texts), langs[1]), list(owners), negative_kind=list(kinds), **options)
        report["xsimpp"] = hard.to_row()
    return report


def _xsim_of_table(encoder, data, rows, target_lang, hard_negatives, groups, options) -> dict:
    from .. import evaluation

    if target_lang not in (langs := set(rows["lang"])):
        raise ValueError(f"{data} has no rows in --target-lang {target_lang!r}; it has {', '.join(sorted(langs))}")
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
    """[(index of the target, hard negative, kind)] of all targets."""
    from ..negatives.rules import hard_negatives_for

    flat = [(i, text, kind) for i, row in enumerate(hard_negatives_for(list(targets))) for text, kind in row]
    if not flat:
        raise ValueError(f"{file}: the rules made no hard negatives; give English targets")
    return flat


@commands.command(
    "translation",
    **example("hf-echo evaluate translation --model M --source a.txt --source-lang fra_Latn --target b.txt"),
)
def evaluate_translation(
    context: typer.Context,
    model: Translator,
    source: Annotated[
        Path | None, typer.Option(help="Texts, one per line, or embeddings (.npy), one row per text.")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Reference translations, line by line.")] = None,
    data: NWay = None,
    source_lang: SourceLang = None,
    target_lang: Annotated[
        str, typer.Option(help="Language of --target, or the pivot language of --data.")
    ] = "eng_Latn",
    direction: Annotated[str, typer.Option(help="With --data: to or from --target-lang, both, or all.")] = "to",
    split: Split = None,
    decoder: Annotated[
        str | None,
        typer.Option(callback=packaged_model, help="Checkpoint to take the decoder from. Default: --model."),
    ] = None,
    num_beams: Annotated[
        int | None, typer.Option(min=1, help="Beams of the beam search; 1 is greedy. Default: the model's own.")
    ] = None,
    comet: Annotated[
        bool, typer.Option(help="Also report COMET (needs hf-echo[comet]); needs source texts, not embeddings.")
    ] = False,
    blaser: Annotated[
        str | None, typer.Option(help="Also report BLASER 2.0: folder or Hub name of `hf-echo convert blaser`.")
    ] = None,
    blaser_encoder: Annotated[
        str | None, typer.Option(help="Encoder whose embeddings BLASER reads: SONAR; default: --model.")
    ] = None,
    out: Json = None,
) -> None:
    """Measure chrF++ and spBLEU of the decoder's translations, with sacrebleu's signatures."""
    from .. import inference
    from ..evaluation import blaser_scorer, comet_scorer, translation_scores

    _refuse_other_way(context, data)
    tables = data is not None and source is None and target is None
    if not tables and (data is not None or source is None or target is None):
        raise ValueError("give --source and --target, two files of lines, or --data, one table")
    from_embeddings = source is not None and source.suffix.lower() == ".npy"
    if comet and from_embeddings:
        raise ValueError(f"--comet needs source texts, but --source {source} holds embeddings: leave --comet out")
    if blaser and from_embeddings:
        raise ValueError(f"--blaser needs source texts, but --source {source} holds embeddings: leave --blaser out")
    if blaser_encoder and not blaser:
        raise ValueError("--blaser-encoder is the encoder of --blaser: give --blaser too")
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
    if decoder is not None:  # both models share one embedding space; the encoder's tokenizer reads the texts
        translator, tokenizer = _joined(translator, tokenizer, decoder)

    def translate(inputs, source_lang, target_lang):
        return inference.translate(translator, tokenizer, inputs, source_lang, target_lang, num_beams=num_beams)

    if tables:
        report = _translation_of_table(translate, data, split, target_lang, direction, scorer, blaser_score)
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
        raise ValueError(f"{path} has shape {vectors.shape}; it must have shape (sentences, embedding size)")
    refuse_broken(vectors, lambda row: f"{path}, row {row + 1}")
    return vectors.astype(np.float32)


def _joined(model, tokenizer, decoder: str):
    """Join the encoder of one checkpoint and the decoder of another; both must have the same vocabulary."""
    from .. import inference
    from ..modeling import EchoForTranslation

    other, other_tokenizer = inference.load_translator(decoder)
    if not (type(model) is type(other) is EchoForTranslation):
        raise ValueError("--decoder joins two Echo checkpoints; a converted SONAR has its own decoder")
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        raise ValueError(
            f"--decoder {decoder} has another vocabulary: run hf-echo encode with --model, then give --source E.npy "
            "and this checkpoint as --model"
        )
    return EchoForTranslation.from_parts(model.encoder, other.decoder).eval(), tokenizer


def _translation_of_table(translate, data, split, target_lang, direction, scorer, blaser_score) -> dict:
    from .. import evaluation
    from ..data import load_nway

    try:
        table = evaluation.evaluate_translation(
            translate,
            load_nway(data, split=split),
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
evaluate_speech.add_to(commands)
