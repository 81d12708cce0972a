"""The command `hf-echo`: read arguments, call the package, print. An error is one line with exit code 2.

One file per command group. A command imports what it needs when it runs, so that `--help` is fast.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from .. import register_with_transformers
from . import data, evaluate, mine, modular, report, space, training, use, vocabulary
from .checkpoints import convert, prune, push
from .common import PLAIN

app = typer.Typer(
    name="hf-echo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **PLAIN,
)
app.add_typer(training.commands)
app.add_typer(use.commands)
app.add_typer(evaluate.commands, name="evaluate")
app.add_typer(convert.commands, name="convert")
app.add_typer(prune.commands)
app.add_typer(mine.commands)
app.add_typer(report.commands)
app.add_typer(push.commands)
app.add_typer(space.commands)
app.add_typer(vocabulary.commands, name="vocabulary")
app.add_typer(data.commands, name="data")
app.add_typer(modular.commands, name="modular")


DEBUG = "HF_ECHO_DEBUG"


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"hf-echo {__version__}")
        raise typer.Exit


@app.callback(epilog=f"Set {DEBUG}=1 in the environment to see the traceback of an error.")
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, evaluate and use cross-lingual sentence embeddings (ECHO, Omnilingual SONAR)."""


def main() -> None:
    """Run the command line. An error is one line; the exit code is 2 for wrong input and 1 for a possible bug."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    if len(sys.argv) > 1 and not {"-h", "--help", "--version"} & set(sys.argv):
        register_with_transformers()
    try:
        app()
    except Exception as error:
        if os.environ.get(DEBUG, "0") not in ("", "0"):
            raise
        if expected := isinstance(error, (ValueError, OSError, ImportError)):
            message = str(error).strip().splitlines()
            line = message[0] if message else type(error).__name__
        else:
            line = f"{' '.join(f'{type(error).__name__}: {error}'.split())} (a bug? {DEBUG}=1 shows the traceback)"
        typer.echo(f"hf-echo: {line}", err=True)
        raise SystemExit(2 if expected else 1) from None
