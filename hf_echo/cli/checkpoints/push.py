"""hf-echo push, collection: versions of models, datasets and Spaces on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..common import PLAIN, example

commands = typer.Typer(no_args_is_help=True, **PLAIN)

Folder = Annotated[
    Path, typer.Argument(help="A release (hf-echo release), a dataset (hf-echo data filter) or a Space.")
]
Repo = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hub; created if it does not exist.")]


@commands.command(**example("hf-echo push outputs/release me/omnisonar --version 1.2.0 --dry-run"))
def push(
    folder: Folder,
    repo: Repo,
    version: Annotated[str, typer.Option(help="Becomes the tag vVERSION, for example 1.2.0.")],
    kind: Annotated[str | None, typer.Option("--type", help="model, dataset or space; default: by the files.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Create the repository as a private one.")] = False,
    collection: Annotated[str | None, typer.Option(help="Slug of a collection to add the repository to.")] = None,
    license: Annotated[str | None, typer.Option(help="License identifier of the Hub, written into the card.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files and problems; push nothing.")] = False,
) -> None:
    """Push a folder to the Hub as one version: one commit, one tag, checksums compared.

    Run the same command again after an interruption: it completes the push. A version that is on the Hub with the same
    content is left as it is; with other content it is refused.
    """
    from ...hub.push import ask_about_card, check_repository, tag_of
    from ...hub.push import push as push_folder
    from ...hub.upload_checks import contents_of

    if dry_run:
        tag, contents = tag_of(version), contents_of(folder, kind, license=license)
        problems, size = contents.problems, 0
        for file in contents.files:
            size += (bytes_of_file := (folder / file).stat().st_size)
            typer.echo(f"{bytes_of_file:>14,}  {file}")
        typer.echo(f"{size:>14,}  bytes in {len(contents.files)} files: {contents.kind} {repo}, {tag}")
        for file in contents.left_out:
            typer.echo(f"left out: {file}")
        if not problems:
            try:
                problems += filter(None, [ask_about_card(folder, contents.kind, license=license)])
            except ConnectionError as error:
                typer.echo(f"the Hub was not asked about the card: {error}")
        try:
            check_repository(repo)
        except ValueError as error:
            problems.append(str(error))
        for problem in problems:
            typer.echo(f"problem: {problem}", err=True)
        raise typer.Exit(2 if problems else 0)
    options = {"private": private, "collection": collection, "license": license}
    done = push_folder(folder, repo, version=version, kind=kind, **options)
    typer.echo(f"{done.url} ({done.status})")


@commands.command(
    **example("hf-echo collection 'OmniSONAR' --owner me me/omnisonar datasets/me/pairs papers/2603.16606")
)
def collection(
    title: Annotated[str, typer.Argument(help="Title of the collection.")],
    items: Annotated[list[str], typer.Argument(help="OWNER/NAME of models, datasets/... , spaces/... , papers/ID.")],
    owner: Annotated[str, typer.Option(help="User or organisation that owns the collection.")],
    description: Annotated[str | None, typer.Option(help="One line that the collection shows.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Create the collection as a private one.")] = False,
) -> None:
    """Create a collection on the Hub and add items; what is there already stays, so it can be run again."""
    from ...hub.collection import make_collection

    typer.echo(make_collection(title, items, owner=owner, description=description, private=private))
