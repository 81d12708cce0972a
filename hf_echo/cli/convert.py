"""hf-echo convert: an Echo checkpoint from another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import convert_published
from .common import PLAIN, example

commands = typer.Typer(help="Make an Echo checkpoint from another model.", no_args_is_help=True, **PLAIN)


@commands.command(
    "llama", **example("hf-echo convert llama HuggingFaceTB/SmolLM2-135M outputs/smollm2-echo", folder=True)
)
def convert_llama(
    source: Annotated[str, typer.Argument(help="LlamaForCausalLM: folder, Hub name or GGUF file.")],
    out: Annotated[Path, typer.Argument(help="Folder of the Echo checkpoint.")],
    embedding_size: Annotated[int, typer.Option(help="Size of the sentence embedding.")] = 1024,
    pooling: Annotated[str, typer.Option(help="cls or mean.")] = "cls",
    cross_attention: Annotated[str, typer.Option(help="copy (of self-attention) or random.")] = "copy",
) -> None:
    """An encoder-decoder from a language model: bidirectional encoder, decoder with cross-attention (OS 4.2)."""
    from ..checkpoints import convert_llama as run

    run(source, out, embedding_size=embedding_size, pooling=pooling, cross_attention=cross_attention)
    typer.echo(f"{out}: ready for stage 1 (hf-echo train ... model_name_or_path={out})", err=True)


@commands.command("static", **example("hf-echo convert static outputs/nano-real/0_static outputs/static", folder=True))
def convert_static(
    source: Annotated[str, typer.Argument(help="Checkpoint of the stage `static`: folder or Hub name.")],
    out: Annotated[Path, typer.Argument(help="Folder of the SentenceTransformer.")],
) -> None:
    """A bag of sub-words as sentence-transformers' StaticEmbedding, 8-bit: no hf_echo is needed to open it."""
    from ..checkpoints import convert_static as run

    run(source, out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB, SentenceTransformer opens it", err=True)


@commands.command(
    "whiten",
    **example("hf-echo convert whiten outputs/echo-static/0_static nway.parquet outputs/white", folder=True),
)
def convert_whiten(
    source: Annotated[str, typer.Argument(help="Bag or training checkpoint: folder.")],
    nway: Annotated[str, typer.Argument(help="Sentences in all languages: a file with id, lang, text.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    shrinkage: Annotated[float, typer.Option(help="The larger, the less is changed.")] = 1.0,
) -> None:
    """Take out of the space what translations of one sentence differ by (WCCN): one matrix in the projection."""
    from ..checkpoints import whiten_checkpoint as run
    from ..inference.any_encoder import any_encoder

    run(source, nway, out, any_encoder(source, dtype="fp32"), shrinkage)
    typer.echo(f"{out}: the same encoder, whitened; a decoder needs finetuning on it", err=True)


@commands.command(
    "damp",
    **example("hf-echo convert damp outputs/echo-nano/3_hard_negatives outputs/damped --share 0.4", folder=True),
)
def convert_damp(
    source: Annotated[str, typer.Argument(help="Encoder or training checkpoint that began as a bag: folder.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    share: Annotated[float, typer.Option(help="Of what the layers add: 0 is the bag, 1 changes nothing.")] = 0.5,
) -> None:
    """Scale down what briefly trained layers add to a bag: much of it is noise (WiSE-FT)."""
    from ..checkpoints import damp_checkpoint as run

    run(source, out, share)
    typer.echo(f"{out}: the same encoder, its layers at {share:g}", err=True)


@commands.command(
    "refit",
    **example("hf-echo convert refit outputs/echo-static/0_static train.parquet outputs/refit --step 0.6", folder=True),
)
def convert_refit(
    source: Annotated[str, typer.Argument(help="Static embeddings (stage `static`, or whitened): folder.")],
    data: Annotated[str, typer.Argument(help="Parallel text as in a recipe: a file or a Hub name.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new checkpoint.")],
    ridge: Annotated[float, typer.Option(help="A token seen in so few pairs moves half way.")] = 1.0,
    step: Annotated[float, typer.Option(help="Of the change: 0 is the bag as it was, 1 plain regression.")] = 0.5,
    softmax_weight: Annotated[
        float, typer.Option(help="Of telling a language's pairs apart, beside the regression.")
    ] = 0.0,
    language_drop: Annotated[float, typer.Option(help="Share of texts read without their language.")] = 0.25,
    max_length: Annotated[int, typer.Option(help="Tokens of a text that count.")] = 128,
    cache_dir: Annotated[str | None, typer.Option(help="Folder that keeps the tokens.")] = None,
    seed: Annotated[int, typer.Option(help="Of which texts are read without their language.")] = 0,
) -> None:
    """Solve a bag once more in closed form, by ridge regression on translations: rare words gain."""
    from ..stages.ridge_refit import refit_on_pairs as run

    run(
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
    typer.echo(f"{out}: the same bag, refitted; a decoder needs finetuning on it", err=True)


convert_published.add_to(commands)
