"""hf-echo convert sonar, sonar-speech, mexma, blaser, wav2vec2, whisper: published checkpoints for transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import example

License = Annotated[str, typer.Option("--license", help="License of the weights, for the card.")]
LicenseOfSource = Annotated[
    str | None,
    typer.Option("--license", help="License of the weights, for the card; by default what SOURCE's README says."),
]
EmbeddingSize = Annotated[int, typer.Option(help="Size of the sentence embedding: the text encoder's.")]
PoolerLayers = Annotated[int, typer.Option(help="Layers of the attention pooling.")]
PoolerHeads = Annotated[int, typer.Option(help="Attention heads of the pooling.")]


def add_to(commands: typer.Typer) -> None:
    """The six commands."""
    sonar = "hf-echo convert sonar sonar_text_encoder.pt outputs/sonar --tokenizer sentencepiece.source.256000.model"
    commands.command("sonar", **example(f"{sonar} --decoder sonar_text_decoder.pt", folder=True))(convert_sonar)
    commands.command(
        "sonar-speech", **example("hf-echo convert sonar-speech spenc.eng.pt outputs/sonar-speech-eng", folder=True)
    )(convert_sonar_speech)
    commands.command("mexma", **example("hf-echo convert mexma facebook/MEXMA outputs/mexma", folder=True))(
        convert_mexma
    )
    commands.command("blaser", **example("hf-echo convert blaser blaser_2_0_qe.pt outputs/blaser-qe", folder=True))(
        convert_blaser
    )
    wav2vec2 = "hf-echo convert wav2vec2 omniASR-W2V-300M.pt outputs/speech/0_wav2vec2"
    commands.command("wav2vec2", **example(wav2vec2, folder=True))(convert_wav2vec2)
    whisper = "hf-echo convert whisper openai/whisper-base outputs/speech-whisper/0_whisper --embedding-size 384"
    commands.command("whisper", **example(whisper, folder=True))(convert_whisper)


def convert_sonar(
    encoder: Annotated[str, typer.Argument(help="File (.pt) of fairseq2 or fairseq; or folder or Hub name of a port.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(help="SentencePiece model or tokenizer.json, or folder or Hub name of NLLB. A port has its own."),
    ] = None,
    decoder: Annotated[Path | None, typer.Option(help="File (.pt) of the decoder; it goes into OUT/decoder.")] = None,
    license: Annotated[
        str | None,
        typer.Option("--license", help="License of the weights. Default: that of a port's README, or cc-by-nc-4.0."),
    ] = None,
) -> None:
    """Convert SONAR's text encoder and decoder: sentence-transformers opens OUT, without fairseq2 or remote code."""
    from ...checkpoints import convert_sonar as run

    run(encoder, out, tokenizer=tokenizer, decoder=decoder, license=license)
    also = ", pipeline('sonar-translation') too" if decoder else ""
    typer.echo(f"{out}: SentenceTransformer opens it{also}", err=True)


def convert_sonar_speech(
    file: Annotated[Path, typer.Argument(help="File (.pt) of a speech encoder of SONAR, of fairseq or fairseq2.")],
    out: Annotated[Path, typer.Argument(help="Folder of the speech encoder.")],
    heads: PoolerHeads = 16,
    license: License = "cc-by-nc-4.0",
) -> None:
    """Convert SONAR's speech encoder of a language: AutoModel and sentence-transformers open OUT, without fairseq2."""
    from ...checkpoints import convert_sonar_speech as run

    run(file, out, heads=heads, license=license)
    typer.echo(f"{out}: its embeddings are those of SONAR's text encoder (hf-echo convert sonar)", err=True)


def convert_mexma(
    model: Annotated[str, typer.Argument(help="Folder or Hub name of the weights.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
    tokenizer: Annotated[
        str, typer.Option(help="Folder or Hub name of XLM-R's tokenizer.")
    ] = "FacebookAI/xlm-roberta-large",
    license: Annotated[
        str | None,
        typer.Option("--license", help="License of the weights, for the card; by default what MODEL's README says."),
    ] = None,
) -> None:
    """Add MEXMA's tokenizer and CLS pooling to its weights: sentence-transformers opens OUT."""
    from ...checkpoints import convert_mexma as run

    run(model, out, tokenizer=tokenizer, license=license)
    typer.echo(f"{out}: SentenceTransformer opens it", err=True)


def convert_blaser(
    file: Annotated[Path, typer.Argument(help="File (.pt) of BLASER 2.0, ref or qe.")],
    out: Annotated[Path, typer.Argument(help="Folder of the model.")],
    license: License = "cc-by-nc-4.0",
) -> None:
    """Convert BLASER 2.0, which scores translations from SONAR embeddings: AutoModel and --blaser open OUT."""
    from ...checkpoints import convert_blaser as run

    run(file, out, license=license)
    typer.echo(f"{out}: hf-echo evaluate translation --blaser {out}", err=True)


def convert_wav2vec2(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder or Hub name of a Wav2Vec2, Wav2Vec2-BERT, HuBERT or WavLM model, or a file (.pt) of fairseq2."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the speech encoder.")],
    embedding_size: EmbeddingSize = 1024,
    pooler_layers: PoolerLayers = 3,
    pooler_heads: PoolerHeads = 16,
    heads: Annotated[int, typer.Option(help="Attention heads of the audio model, for a file.")] = 16,
    license: LicenseOfSource = None,
) -> None:
    """Make a speech encoder from a pretrained audio model; train its new attention pooling with stage `speech`."""
    from ...checkpoints import convert_wav2vec2 as run

    sizes = dict(embedding_size=embedding_size, pooler_layers=pooler_layers, pooler_heads=pooler_heads)
    run(source, out, heads=heads, license=license, **sizes)
    typer.echo(f"{out}: ready for stage speech (hf-echo train speech-large model_name_or_path={out})", err=True)


def convert_whisper(
    source: Annotated[
        str,
        typer.Argument(help="Folder or Hub name of Whisper, or the folder of a CTranslate2 model (faster-whisper)."),
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the speech encoder.")],
    embedding_size: EmbeddingSize = 1024,
    pooler_layers: PoolerLayers = 3,
    pooler_heads: PoolerHeads = 8,
    license: LicenseOfSource = None,
) -> None:
    """Make a speech encoder from Whisper's encoder; train its new attention pooling with stage `speech`."""
    from ...checkpoints import convert_whisper as run

    sizes = dict(embedding_size=embedding_size, pooler_layers=pooler_layers, pooler_heads=pooler_heads)
    run(source, out, license=license, **sizes)
    typer.echo(f"{out}: ready for stage speech (hf-echo train speech-whisper model_name_or_path={out})", err=True)
