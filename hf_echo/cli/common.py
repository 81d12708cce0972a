"""Shared by all commands: options, reading text lines, printing reports."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..utils.files import check_output, write_whole
from ..utils.hub import packaged_model

PLAIN = {"rich_markup_mode": None}  # plain text: rich's boxes truncate long option names

DEFAULT_MODEL = "echo-nano"


def named_model(name: str) -> str:
    """`packaged_model` of the name. An empty name means the default model; a line on stderr reports it."""
    if not name:
        typer.echo(f"no --model: using {DEFAULT_MODEL}, which is included in the package", err=True)
    return packaged_model(name or DEFAULT_MODEL) or DEFAULT_MODEL


def _model(what: str) -> typer.models.OptionInfo:
    return typer.Option(
        "--model",
        "-m",
        help=f"{what}: folder or Hub name. Default: {DEFAULT_MODEL}, included in the package.",
        default_factory=str,
        show_default=False,
        callback=named_model,
    )


Model = Annotated[str, _model("Echo checkpoint or release")]
AnyModel = Annotated[str, _model("Echo checkpoint or any SentenceTransformer")]
Translator = Annotated[str, _model("Echo checkpoint or release with a decoder")]
OnLong = Annotated[str, typer.Option(help="For texts longer than the model's limit: warn (and cut), error, or split.")]
Audio = Annotated[bool, typer.Option("--audio", help="Read audio with a speech encoder.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this JSON file.")]
Executor = Annotated[
    str, typer.Option(help="Where to run: local (one process) or ray (the cluster at RAY_ADDRESS, or this machine).")
]
Resume = Annotated[bool, typer.Option("--resume/--fresh", help="Resume a stopped run, or start again.")]
Dtype = Annotated[
    str, typer.Option(help="Precision: auto (bf16 where the device computes faster in it), fp32 or bf16.")
]


# Parameters that name output files; all other paths are inputs.
OUTPUTS = ("out", "report", "json", "markdown", "plot")


# `on_bad_row='skip'` or `lang=` in an error message: an argument of Python, as the functions of the package name it.
ARGUMENT = re.compile(r"\b([a-z_]+)=('[^']*'|-?\w+)?")


class Command(TyperCommand):
    """A command that checks its outputs before it runs: no output is an input, and each is writable.

    Its errors name options where the functions of the package name arguments."""

    folder = False  # whether `out` is a folder

    def invoke(self, ctx: Any) -> Any:
        outputs = [name for name in OUTPUTS if isinstance(ctx.params.get(name), (str, Path))]
        inputs = [path for name, value in ctx.params.items() if name not in outputs for path in _paths(value)]
        for number, name in enumerate(outputs):
            others = [ctx.params[other] for other in outputs[:number]]
            check_output(ctx.params[name], [*inputs, *others], folder=name == "out" and self.folder)
        try:
            return super().invoke(ctx)
        except EOFError as error:  # typer would print "Aborted!"
            raise ValueError(f"a file ends too early: {error}") from error
        except ValueError as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (self._with_options(error.args[0]),)
            raise

    def _with_options(self, message: str) -> str:
        names = {parameter.name: parameter.opts[0] for parameter in self.params}
        options = {name: option for name, option in names.items() if option.startswith("-")}
        if "on_bad" in options:
            options["on_bad_row"] = options["on_bad"]
        if "skip_bad" in options:
            message = message.replace("on_bad_row='skip'", options["skip_bad"])
        elif "on_bad_row" not in options and "overrides" not in names:  # this command cannot skip bad rows
            message = message.replace(" or pass on_bad_row='skip'", "")

        def option(found: re.Match[str]) -> str:
            name, value = found[1], (found[2] or "").strip("'")
            return f"{options[name]} {value}".rstrip() if name in options else found[0]

        return ARGUMENT.sub(option, message)


class FolderCommand(Command):
    """A command whose `out` is a folder."""

    folder = True


def refuse_given(context: typer.Context, names: Collection[str], reason: str) -> None:
    """Refuse options of the command line that would be ignored.

    Args:
        names: of parameters.
        reason: the rest of the message after the option.

    Raises:
        ValueError: the command line has one of them.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{parameter.opts[0]} {reason}")


def _paths(value: Any) -> list[str | Path]:
    """The existing paths in a parameter's value: a path, a string, `LANGUAGE=PATH`, or a list of them."""
    values = value if isinstance(value, (list, tuple)) else [value]
    words = [word for value in values if isinstance(value, (str, Path)) for word in (value, _after_equals(value))]
    return [word for word in words if str(word) and _exists(word)]


def _after_equals(value: str | Path) -> str:
    return str(value).partition("=")[2]


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # the name is too long or contains NUL
        return False


def example(text: str, *, folder: bool = False) -> dict:
    """Arguments for `commands.command`: the example under the help, and the class that checks the outputs."""
    return {"epilog": f"Example: {text}", "cls": FolderCommand if folder else Command}


def print_report(report: dict, out: Path | None = None, *, file_only: dict | None = None) -> None:
    """Print a report as JSON. If `out` is given, write it there too, with `file_only` added (too long for a screen)."""
    typer.echo(_as_json(report))  # first: it stays where the file cannot be written
    if out is not None:
        try:
            with write_whole(out) as unfinished:
                unfinished.write_text(_as_json(report | (file_only or {})) + "\n", encoding="utf-8")
        except OSError as error:
            raise ValueError(f"{out} cannot be written: {error.strerror}; the result is above") from None


def _as_json(report: dict) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, default=float)
