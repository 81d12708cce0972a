"""hf-echo encode, translate, tour, release: use a trained model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..utils.executors import executor_named
from ..utils.text import read_lines
from .common import AnyModel, Audio, Dtype, Executor, OnLong, Resume, Translator, example, refuse_given

commands = typer.Typer()


def check_reads_text(model: str) -> None:
    from ..inference.encode_speech import is_speech

    if is_speech(model):
        raise ValueError(f"{model} reads audio, not text: give --audio, and audio files instead of texts")


@commands.command(**example("hf-echo encode --model org/omnisonar --lang fra_Latn in.txt out.npy"))
def encode(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="Texts, one per line; - is standard input. With --audio: audio, or a TSV of paths.")
    ],
    out: Annotated[
        Path,
        typer.Argument(help="Output file: .npy (float32, texts x embedding size) or .parquet (text and embedding)."),
    ],
    model: AnyModel,
    lang: Annotated[str | None, typer.Option(help="Language of the texts. Default: unspecified.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Padded tokens per batch. Default: what fits the device.")
    ] = None,
    normalize: Annotated[bool, typer.Option(help="Divide each embedding by its L2 norm.")] = False,
    dtype: Dtype = "auto",
    on_long: OnLong = "warn",
    audio: Audio = False,
    executor: Executor = "local",
    resume: Resume = True,
) -> None:
    """Encode texts, or audio, as sentence embeddings; row i belongs to line i. A stopped run on texts resumes."""
    from ..inference.any_encoder import NamedEncoder
    from ..inference.encode_file import encode_file, write_embeddings

    if out.suffix not in (".npy", ".parquet"):
        raise ValueError(f"{out}: the file name must end in .npy or .parquet")
    if audio:
        from .speech import encode_audio

        refuse_given(context, ("lang", "max_tokens", "resume"), "is for texts; leave it out with --audio")
        if executor != "local":
            raise ValueError("--audio runs on this machine only: leave --executor out")
        files, vectors = encode_audio(source, model, dtype=dtype, normalize=normalize, on_long=on_long)
        write_embeddings(out, [files], [vectors])
        rows, width = vectors.shape
    else:
        check_reads_text(model)
        rows, width = encode_file(
            source,
            out,
            NamedEncoder(model, dtype, max_tokens, on_long),
            lang,
            normalize=normalize,
            executor=executor_named(executor),
            fresh=not resume,
        )
    typer.echo(f"{out}: {rows} x {width}", err=True)


@commands.command(**example("echo 'Bonjour' | hf-echo translate --model org/omnisonar --from fra_Latn --to eng_Latn"))
def translate(
    context: typer.Context,
    model: Translator,
    target: Annotated[str, typer.Option("--to", help="Language of the translations.")] = "eng_Latn",
    source_lang: Annotated[
        str | None, typer.Option("--from", help="Language of the texts. Default: unspecified.")
    ] = None,
    source: Annotated[
        Path, typer.Argument(help="Texts, one per line; - is standard input. With --audio: audio, or a TSV of paths.")
    ] = Path("-"),
    num_beams: Annotated[
        int | None, typer.Option(min=1, help="Beams of the beam search; 1 is greedy. Default: the model's own.")
    ] = None,
    rerank_weight: Annotated[
        float | None,
        typer.Option(
            min=0, help="Weight of the cosine between a beam's embedding and the sentence's. Default: the model's own."
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest translation in tokens.")] = 128,
    dtype: Dtype = "auto",
    on_long: OnLong = "warn",
    audio: Audio = False,
    decoder: Annotated[
        str | None,
        typer.Option(help="With --audio: text model of the same space whose decoder writes. Default: MODEL's own."),
    ] = None,
) -> None:
    """Translate texts line by line, or audio, through their sentence embeddings."""
    from .. import inference

    if decoder is not None and not audio:
        raise ValueError("--decoder belongs to --audio: a text model has its own decoder")
    if audio:
        refuse_given(context, ("source_lang",), "is for texts; leave it out with --audio")
    else:
        check_reads_text(model)
    inputs: Any = None if audio else read_lines(source)
    translator, tokenizer = inference.load_translator(decoder or model, dtype=dtype)
    if audio:
        from .speech import encode_audio

        _, inputs = encode_audio(source, model, dtype=dtype, on_long=on_long)
    for line in inference.translate(
        translator,
        tokenizer,
        inputs,
        source_lang,
        target,
        num_beams=num_beams,
        rerank_weight=rerank_weight,
        max_new_tokens=max_new_tokens,
        on_long=on_long,
        progress=sys.stderr.isatty(),
    ):
        typer.echo(" ".join(line.split()))


@commands.command(**example("hf-echo tour"))
def tour() -> None:
    """Find and translate 20 held-out sentences of ten languages with echo-nano, which is included in the package."""
    from .tour import run_tour

    run_tour()


@commands.command(**example("hf-echo release outputs/nano/3_hard_negatives outputs/nano/release", folder=True))
def release(
    checkpoint: Annotated[str, typer.Argument(help="Training checkpoint: folder, org/name@v1.2.0 or echo-nano.")],
    out: Annotated[Path, typer.Argument(help="Output folder of the release.")],
    dtype: Annotated[str, typer.Option(help="Precision of the saved weights: fp32 or bf16 (half the size).")] = "fp32",
    decoder: Annotated[
        str | None, typer.Option(help="Of a speech encoder: text model of its space whose decoder is copied.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="License identifier of the Hub, for the card.")] = None,
) -> None:
    """Convert a training checkpoint to a release: encoder in the root folder, decoder in decoder/."""
    from ..hub.release import release_checkpoint
    from ..inference.encode_speech import is_speech

    if is_speech(checkpoint):
        from ..hub.release import release_speech

        release_speech(checkpoint, out, decoder=decoder, dtype=dtype, license=license)
    elif decoder:
        raise ValueError("--decoder belongs to the release of a speech encoder; a text release has its own")
    else:
        release_checkpoint(checkpoint, out, dtype=dtype, license=license)
    typer.echo(f"{out}: open it with AutoModel, SentenceTransformer or pipeline('sonar-translation')", err=True)
