"""hf-echo convert sonar, mexma, blaser: published checkpoints as transformers and sentence-transformers open them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import example

Licence = Annotated[str, typer.Option("--license", help="Licence of the weights, for the card.")]


def add_to(commands: typer.Typer) -> None:
    """The three commands."""
    sonar = "hf-echo convert sonar sonar_text_encoder.pt outputs/sonar --tokenizer sentencepiece.source.256000.model"
    commands.command("sonar", **example(f"{sonar} --decoder sonar_text_decoder.pt", folder=True))(convert_sonar)
    commands.command("mexma", **example("hf-echo convert mexma facebook/MEXMA outputs/mexma", folder=True))(
        convert_mexma
    )
    commands.command("blaser", **example("hf-echo convert blaser blaser_2_0_qe.pt outputs/blaser-qe", folder=True))(
        convert_blaser
    )


def convert_sonar(
    encoder: Annotated[str, typer.Argument(help="File (.pt) of fairseq2 or fairseq; or folder or Hub name of a port.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(help="SentencePiece model or tokenizer.json, or folder or Hub name of NLLB. A port has its own."),
    ] = None,
    decoder: Annotated[Path | None, typer.Option(help="File (.pt) of the decoder; it goes into OUT/decoder.")] = None,
    license: Licence = "cc-by-nc-4.0",
) -> None:
    """SONAR's text encoder and decoder without fairseq2: sentence-transformers opens OUT, without remote code."""
    from ...checkpoints import convert_sonar as run

    run(encoder, out, tokenizer=tokenizer, decoder=decoder, licence=license)
    also = ", pipeline('sonar-translation') too" if decoder else ""
    typer.echo(f"{out}: SentenceTransformer opens it{also}", err=True)


def convert_mexma(
    model: Annotated[str, typer.Argument(help="Folder or Hub name of the weights.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
    tokenizer: Annotated[
        str, typer.Option(help="Folder or Hub name of XLM-R's tokenizer.")
    ] = "FacebookAI/xlm-roberta-large",
    license: Annotated[
        str | None,
        typer.Option("--license", help="Licence of the weights, for the card; by default what MODEL's README says."),
    ] = None,
) -> None:
    """MEXMA with its tokenizer and CLS pooling: sentence-transformers opens OUT."""
    from ...checkpoints import convert_mexma as run

    run(model, out, tokenizer=tokenizer, licence=license)
    typer.echo(f"{out}: SentenceTransformer opens it", err=True)


def convert_blaser(
    file: Annotated[Path, typer.Argument(help="File (.pt) of BLASER 2.0, ref or qe.")],
    out: Annotated[Path, typer.Argument(help="Folder of the model.")],
    license: Licence = "cc-by-nc-4.0",
) -> None:
    """BLASER 2.0, which scores translations from SONAR embeddings: AutoModel and --blaser open OUT."""
    from ...checkpoints import convert_blaser as run

    run(file, out, licence=license)
    typer.echo(f"{out}: hf-echo evaluate translation --blaser {out}", err=True)
