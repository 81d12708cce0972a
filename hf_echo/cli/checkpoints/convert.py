"""hf-echo convert: a checkpoint of this package from another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from ..common import PLAIN, example
from . import convert_published

RENAMED = {"damp": "interpolate", "refit": "ridge-refit"}


class Group(TyperGroup):
    """The name of a command in an earlier version is an error that says the new one."""

    def resolve_command(self, ctx, args):
        if args and args[0] in RENAMED:
            raise ValueError(f"`hf-echo convert {args[0]}` is now `hf-echo convert {RENAMED[args[0]]}`")
        return super().resolve_command(ctx, args)


commands = typer.Typer(cls=Group, help="Make a checkpoint from another model.", no_args_is_help=True, **PLAIN)


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


@commands.command("static", **example("hf-echo convert static echo-nano outputs/static", folder=True))
def convert_static(
    source: Annotated[str, typer.Argument(help="Encoder that averages token vectors: folder, Hub name or echo-nano.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
) -> None:
    """Export static embeddings as sentence-transformers' StaticEmbedding in 8 bits; it opens without hf_echo."""
    from ...cards.model_card import write_checkpoint_card
    from ...checkpoints import export_static

    export_static(source, out)
    write_checkpoint_card(out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB, SentenceTransformer opens it", err=True)


@commands.command(
    "whiten", **example("hf-echo convert whiten outputs/nano/0_static nway.parquet outputs/white", folder=True)
)
def convert_whiten(
    source: Annotated[str, typer.Argument(help="Encoder, training checkpoint or release: folder.")],
    nway: Annotated[str, typer.Argument(help="Sentences in all languages: a file with id, lang, text.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    shrinkage: Annotated[float, typer.Option(help="Regularisation: a larger value changes less.")] = 1.0,
) -> None:
    """Scale down the directions in which translations of one sentence differ (WCCN), in the encoder's projection."""
    from ...cards.model_card import write_checkpoint_card
    from ...checkpoints import whiten_checkpoint

    whiten_checkpoint(source, nway, out, shrinkage=shrinkage)
    write_checkpoint_card(out)
    typer.echo(f"{out}: the same encoder, whitened; finetune a decoder on it", err=True)


@commands.command(
    "interpolate",
    **example("hf-echo convert interpolate outputs/echo-nano/14_layers outputs/interpolated --share 0.5", folder=True),
)
def convert_interpolate(
    source: Annotated[str, typer.Argument(help="Encoder, training checkpoint or release: folder.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    share: Annotated[float, typer.Option(help="0 is the start, 1 the checkpoint unchanged.")] = 0.5,
    start: Annotated[
        str | None,
        typer.Option(help="Checkpoint before finetuning. Default: the checkpoint without its layers."),
    ] = None,
) -> None:
    """Interpolate between two checkpoints, or between static embeddings and the layers trained on them (WiSE-FT)."""
    from ...cards.model_card import write_checkpoint_card
    from ...checkpoints import interpolate_checkpoint

    interpolate_checkpoint(source, out, share, start=start)
    write_checkpoint_card(out)
    typer.echo(f"{out}: {share:g} of the way to {source}", err=True)


@commands.command(
    "ridge-refit",
    **example(
        "hf-echo convert ridge-refit outputs/echo-nano/03_whiten train.parquet outputs/refit --step 0.7", folder=True
    ),
)
def convert_ridge_refit(
    source: Annotated[str, typer.Argument(help="Static embeddings (stage `static`, or whitened): folder.")],
    data: Annotated[str, typer.Argument(help="Parallel text as in a recipe: a file or a Hub name.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    ridge: Annotated[float, typer.Option(help="Ridge penalty, in pairs.")] = 1.0,
    step: Annotated[float, typer.Option(help="Share of the change: 0 changes nothing, 1 is plain regression.")] = 0.5,
    softmax_weight: Annotated[
        float, typer.Option(help="Weight of a softmax over the targets of a language, beside the regression.")
    ] = 0.0,
    language_drop: Annotated[float, typer.Option(help="Share of texts read without their language.")] = 0.25,
    max_length: Annotated[int, typer.Option(help="Longest text in tokens; longer ones are cut.")] = 128,
    cache_dir: Annotated[str | None, typer.Option(help="Folder that keeps the tokens.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed: which texts are read without their language.")] = 0,
) -> None:
    """Refit static embeddings in closed form, by ridge regression on translations: rare words gain."""
    from ...cards.model_card import write_checkpoint_card
    from ...stages.operations.ridge_refit import ridge_refit_on_pairs

    ridge_refit_on_pairs(
        source,
        data,
        out,
        ridge=ridge,
        step=step,
        softmax_weight=softmax_weight,
        language_drop=language_drop,
        max_length=max_length,
        cache_dir=cache_dir,
        seed=seed,
    )
    write_checkpoint_card(out)
    typer.echo(f"{out}: static embeddings, refitted; finetune a decoder on them", err=True)


convert_published.add_to(commands)
