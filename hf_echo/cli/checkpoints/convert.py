"""hf-echo convert: a checkpoint of this package from another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import PLAIN, example
from . import convert_published

commands = typer.Typer(help="Make a checkpoint from another model.", no_args_is_help=True, **PLAIN)


@commands.command(
    "llama", **example("hf-echo convert llama HuggingFaceTB/SmolLM2-135M outputs/smollm2-echo", folder=True)
)
def convert_llama(
    source: Annotated[str, typer.Argument(help="LlamaForCausalLM: folder, Hub name or GGUF file.")],
    out: Annotated[Path, typer.Argument(help="Folder of the Echo checkpoint.")],
    embedding_size: Annotated[int, typer.Option(help="Size of the sentence embedding.")] = 1024,
    pooling: Annotated[str, typer.Option(help="cls or mean.")] = "cls",
    cross_attention: Annotated[
        str, typer.Option(help="copy (of self-attention), random, or zero (copy with output 0, for Spectrum).")
    ] = "copy",
) -> None:
    """Make an encoder-decoder from a language model: bidirectional encoder, decoder with cross-attention (OS 4.2)."""
    from ...cards.model_card import write_checkpoint_card
    from ...checkpoints import convert_llama as run

    run(source, out, embedding_size=embedding_size, pooling=pooling, cross_attention=cross_attention)
    write_checkpoint_card(out)
    typer.echo(f"{out}: ready for stage 1 (hf-echo train ... model_name_or_path={out})", err=True)


convert_published.add_to(commands)
