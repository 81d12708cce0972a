"""hf-echo evaluate speech: a speech encoder against the text encoder of its space."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .common import DEFAULT_MODEL, Json, example, named_model, packaged_model, print_report, refuse_given


def add_to(commands: typer.Typer) -> None:
    """Add the command to `hf-echo evaluate`."""
    commands.command(
        "speech", **example("hf-echo evaluate speech --model S --data spoken --text-model echo-nano --hard-negatives")
    )(speech)


def speech(
    context: typer.Context,
    speech_model: Annotated[str, typer.Option("--model", "-m", help="Speech encoder: folder or Hub name.")],
    data: Annotated[
        str, typer.Option(help="Speech: a table, Common Voice, FLEURS, Parquet with audio, or a Hub dataset.")
    ],
    text_model: Annotated[
        str,
        typer.Option(
            help=f"Text encoder of the same space: folder or Hub name. Default: {DEFAULT_MODEL}.",
            default_factory=lambda: DEFAULT_MODEL,
            show_default=False,
            callback=named_model,
        ),
    ],
    lang: Annotated[str | None, typer.Option(help="Language of all rows, if the data have no column for it.")] = None,
    split: Annotated[str, typer.Option(help="Split of --data, if it has splits.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of rows.")] = None,
    hard_negatives: Annotated[
        bool, typer.Option(help="Also report xsim++, with rule-based hard negatives of the English texts.")
    ] = False,
    decoder: Annotated[
        str | None,
        typer.Option(callback=packaged_model, help="Echo checkpoint with a decoder: also report BLEU and chrF++."),
    ] = None,
    unheard: Annotated[
        list[str] | None,
        typer.Option(help="Language without speech in training; repeatable. Default: those the model does not name."),
    ] = None,
    margin: Annotated[str, typer.Option(help="Score of a candidate: cosine, ratio or distance.")] = "cosine",
    k: Annotated[int, typer.Option(min=1, help="Number of neighbours for the margin.")] = 4,
    on_bad_row: Annotated[str, typer.Option(help="For bad rows and unusable audio: error or skip.")] = "error",
    out: Json = None,
) -> None:
    """Measure speech to English text (xsim, xsim++), to its own text, to other speech, and speech translation.

    Only the file of --json has the errors by speaker."""
    from ..data.speech import load_speech
    from ..data.speech.batches import audio_lengths
    from ..evaluation.retrieval.speech import english_negatives, evaluate_speech
    from ..inference.any_encoder import any_encoder
    from ..inference.encode_speech import encode_speech, load_speech_encoder, open_extractor
    from ..languages import find_language
    from ..search.margin import checked_margin

    if checked_margin(margin) == "cosine":
        refuse_given(context, ("k",), "needs --margin ratio or distance")
    rate = open_extractor(speech_model).sampling_rate  # before weights are loaded, so that bad data are named early
    rows = load_speech(data, lang=lang, split=split, on_bad_row=on_bad_row, limit=limit)
    skipped = 0
    if on_bad_row == "skip":
        rows, skipped = _usable(rows, rate)
    seconds = audio_lengths(rows, rate) / rate
    encoder, extractor = load_speech_encoder(speech_model)
    encode = any_encoder(text_model)
    size = encode([rows[0]["text"]], rows[0]["lang"]).shape[1]
    if size != encoder.config.embedding_size:
        raise ValueError(
            f"{speech_model} gives embeddings of size {encoder.config.embedding_size} and {text_model} of size {size}: "
            "give the text encoder that it was trained with (--text-model)"
        )
    trained = encoder.config.languages
    if unheard:
        unheard = [find_language(code) for code in unheard]
    elif trained:
        unheard = [code for code in set(rows["lang"]) if code not in trained]
    report = evaluate_speech(
        rows,
        encode_speech(encoder, extractor, rows["audio"], progress=True),
        encode,
        seconds=seconds,
        negatives=english_negatives(rows) if hard_negatives else None,
        translate=_translator(decoder) if decoder else None,
        unheard=unheard,
        margin=margin,
        k=k,
    )
    about: dict[str, Any] = {
        "model": speech_model,
        "text_model": text_model,
        "data": data,
        "hours": seconds.sum() / 3600,
    }
    if decoder:
        about["decoder"] = decoder
    table = report.to_dict()
    long = {name: table.pop(name) for name in ("by_speaker",) if name in table}
    print_report(about | ({"skipped": skipped} if skipped else {}) | table, out, file_only=long)


def _usable(rows, sampling_rate: int) -> tuple[Any, int]:
    """The rows whose audio can be decoded, and the number of others."""
    from ..data.speech import check_audio

    reasons = [check_audio(audio, sampling_rate) for audio in rows["audio"]]
    good = [number for number, reason in enumerate(reasons) if reason is None]
    if not good:
        raise ValueError(f"no usable audio: {reasons[0]}")
    bad = len(reasons) - len(good)
    if bad:
        first = next(reason for reason in reasons if reason)
        typer.echo(f"skipped {bad} of {len(reasons)} audio files, the first: {first}", err=True)
    return (rows.select(good) if bad else rows), bad


def _translator(decoder: str):
    from .. import inference

    model, tokenizer = inference.load_translator(decoder)
    return lambda inputs, source, target: inference.translate(model, tokenizer, inputs, source, target)
