"""hf-echo modular: encoders with one folder per language (Modular Sentence Encoders)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import PLAIN, example, print_report

commands = typer.Typer(
    no_args_is_help=True, help="Modular sentence encoders: add, remove, push and pull languages.", **PLAIN
)

Modular = Annotated[Path, typer.Option("--model", "-m", help="Folder of a modular encoder.")]
Language = Annotated[str, typer.Argument(metavar="LANG", help="Language code such as deu_Latn.")]
Repo = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hub.")]


@commands.command(**example("hf-echo modular start sentence-transformers/LaBSE outputs/modular", folder=True))
def start(
    base: Annotated[str, typer.Argument(help="Encoder with the layers of BERT or XLM-R: folder or Hub name.")],
    out: Annotated[Path, typer.Argument(help="Folder of the modular encoder.")],
    pivot: Annotated[str, typer.Option(help="Language that the others are aligned to.")] = "eng_Latn",
    max_length: Annotated[int, typer.Option(help="Longest text in tokens.")] = 128,
) -> None:
    """Make a modular encoder without languages. Add the pivot language first."""
    from ..stages.modular import modular_backbone

    modular_backbone(base, out, pivot=pivot, max_seq_length=max_length)
    typer.echo(f"{out}: add the pivot with hf-echo modular add-language {pivot}")


@commands.command(
    "add-language",
    **example("hf-echo modular add-language deu_Latn -m outputs/modular --texts de.txt --parallel en-de.tsv"),
)
def add(
    language: Language,
    model: Modular,
    texts: Annotated[Path | None, typer.Option(help="Texts, one per line: vocabulary and language adapter.")] = None,
    paraphrases: Annotated[Path | None, typer.Option(help="Pairs in this language: sentence adapter.")] = None,
    cross_paraphrases: Annotated[
        Path | None, typer.Option(help="Pairs of a pivot sentence and a paraphrase in this language: alignment.")
    ] = None,
    parallel: Annotated[Path | None, typer.Option(help="Translations from the pivot language: alignment.")] = None,
    vocab_size: Annotated[int, typer.Option(help="Tokens of the new vocabulary.")] = 50_048,
    mlm_steps: Annotated[int, typer.Option(help="Steps of masked language modelling.")] = 200_000,
    mlm_learning_rate: Annotated[float, typer.Option(help="Learning rate of masked language modelling.")] = 1e-4,
    epochs: Annotated[float, typer.Option(help="Passes over the sentence pairs.")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of the sentence and alignment adapters.")] = 2e-5,
    batch_size: Annotated[int, typer.Option(help="Texts or pairs in a batch.")] = 128,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Add a language. Only its own folder is written; all other languages stay as they are."""
    from ..stages.modular import add_language
    from ..stages.modular.add_language import LanguageTraining

    settings = LanguageTraining(
        vocab_size=vocab_size,
        mlm_steps=mlm_steps,
        mlm_learning_rate=mlm_learning_rate,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        seed=seed,
    )
    data = dict(texts=texts, paraphrases=paraphrases, cross_paraphrases=cross_paraphrases, parallel=parallel)
    print_report(add_language(model, language, settings=settings, **data))


@commands.command("remove-language", **example("hf-echo modular remove-language deu_Latn -m outputs/modular"))
def remove(language: Language, model: Modular) -> None:
    """Delete the folder of a language; no other file changes."""
    from ..stages.modular import remove_language

    remove_language(model, language)
    typer.echo(f"{model}: {language} is removed")


@commands.command("card", **example("hf-echo modular card -m outputs/modular --license mit"))
def card(
    model: Modular,
    license: Annotated[
        str | None, typer.Option(help="License identifier of the Hub. Default: that of the existing card.")
    ] = None,
) -> None:
    """Write README.md of a modular encoder: its languages, parts and data. It replaces the existing one."""
    from ..cards.model_card import write_checkpoint_card
    from ..stages.modular.folder import check_modular

    check_modular(model)
    write_checkpoint_card(model, license, again=True)
    typer.echo(f"{model / 'README.md'}: push it with hf-echo push")


@commands.command("push-language", **example("hf-echo modular push-language deu_Latn me/modular -m outputs/modular"))
def push(
    language: Language,
    repo: Repo,
    model: Modular,
    private: Annotated[bool, typer.Option("--private", help="Create the repository as a private one.")] = False,
) -> None:
    """Push the folder of one language in one commit; other files of the repository stay."""
    from ..hub.language_folder import push_language

    typer.echo(push_language(model, language, repo, private=private))


@commands.command("pull-language", **example("hf-echo modular pull-language deu_Latn me/modular -m outputs/modular"))
def pull(language: Language, repo: Repo, model: Modular) -> None:
    """Add a language of a repository to a modular encoder with the same backbone."""
    from ..hub.language_folder import pull_language

    typer.echo(pull_language(repo, language, model))
