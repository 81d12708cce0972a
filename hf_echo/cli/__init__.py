"""The command line, thin: it reads arguments, calls the package, prints. Errors are one line, exit code 2.

One file a family of commands; a command imports what it needs when it runs, so `--help` is quick.
"""

from __future__ import annotations

import logging

import typer

from . import convert, data, evaluate, mine, prune, report, training, use, vocabulary
from .common import PLAIN

app = typer.Typer(
    name="hf-echo",
    help="Cross-lingual sentence embeddings (ECHO, Omnilingual SONAR): train, measure, use.",
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
app.add_typer(vocabulary.commands, name="vocabulary")
app.add_typer(data.commands, name="data")


def main() -> None:
    """Entry point: errors that a user can mend are one line."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        app()
    except (ValueError, FileNotFoundError, OSError, ImportError) as error:
        message = str(error).strip().splitlines()
        typer.echo(f"hf-echo: {message[0] if message else type(error).__name__}", err=True)
        raise SystemExit(2) from None
