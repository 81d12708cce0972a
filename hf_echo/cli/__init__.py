"""The command `hf-echo`: read arguments, call the package, print. An error is one line with exit
code 2.

Every command is declared as a `Step`: those of recipes in `hf_echo.steps`, the others here, one
file per subject. A command imports what it needs when it runs, so that `--help` is fast.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ..steps import conversions, operations, tokenizers, training_data
from ..steps.table import declared_steps
from ..utils.settings import Step
from . import analyse, data, evaluate, hub, pairs, public_text, use
from .generate import PLAIN, add_command

DEBUG = "HF_ECHO_DEBUG"
GROUPS = {
    "convert": "Make a checkpoint from another model.",
    "evaluate": "Measure a model: xsim, xsim++, translation, speech, word alignment, probes, geometry, cost.",
    "data": "Training data: filter, sample, calibrate, count, segment, write hard negatives, publish.",
    "vocabulary": "Tokenizers: count words, extend, train, trim, swap, compare.",
    "modular": "Modular sentence encoders: start one, add languages, write the card.",
}

app = typer.Typer(
    name="hf-echo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **PLAIN,
)


def _version(is_asked: bool) -> None:
    if is_asked:
        from .. import __version__

        typer.echo(f"hf-echo {__version__}")
        raise typer.Exit


@app.callback(epilog=f"Set {DEBUG}=1 in the environment to see the traceback of an error.")
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Train, evaluate and use cross-lingual sentence embeddings (ECHO, Omnilingual SONAR)."""


MODULES = (
    use,
    pairs,
    conversions,
    operations,
    tokenizers,
    hub,
    evaluate,
    analyse,
    data,
    public_text,
    training_data,
)
COMMANDS: dict[str, type[Step]] = {
    kind.command: kind for kind in declared_steps(*MODULES) if kind.command
}


_groups = {
    name: typer.Typer(help=text, no_args_is_help=True, **PLAIN) for name, text in GROUPS.items()
}
for _words, _kind in COMMANDS.items():
    add_command(_groups[_words.split()[0]] if " " in _words else app, _kind)
for _name, _group in _groups.items():
    app.add_typer(_group, name=_name)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, so that unfinished files are removed;
    exit code 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() != process:  # a worker that was forked: it has no files of the command
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line. An error is one line;
    the exit code is 2 for wrong input and 1 for a possible bug."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    # which step begins or is done; of libraries, warnings only
    logging.getLogger("hf_echo").setLevel(logging.INFO)
    for stream in (sys.stdout, sys.stderr):
        # a console that cannot write a character gets its number
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if not sys.stderr.isatty():  # in a log, bars share a line with each other and with messages
        os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        with _ended_by_sigterm():
            app()
    except BrokenPipeError:
        # the interpreter flushes once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        typer.echo("hf-echo: standard output was closed before the end", err=True)
        raise SystemExit(2) from None
    except Exception as error:
        if os.environ.get(DEBUG, "0") not in ("", "0"):
            raise
        # clients of huggingface_hub: of version 2 (httpx2), and of 1
        is_network = type(error).__module__.partition(".")[0] in (
            "httpx",
            "httpx2",
            "httpcore",
            "httpcore2",
        )
        # tokenizers and safetensors, in Rust, raise no OSError where the system refuses a file
        is_of_system = "(os error " in str(error)
        is_of_user = isinstance(error, (ValueError, OSError, ImportError))
        expected = is_of_user or is_of_system or is_network
        if expected:
            message = str(error).strip().splitlines()
            line = message[0] if message else type(error).__name__
            if is_network:
                line = f"no connection to the network: {line}"
        else:
            line = f"{' '.join(f'{type(error).__name__}: {error}'.split())} (a bug? {DEBUG}=1 shows the traceback)"
        typer.echo(f"hf-echo: {line}", err=True)
        raise SystemExit(2 if expected else 1) from None
