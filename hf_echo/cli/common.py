"""What every command shares: options, reading of text, printing of reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..utils.files import check_output, write_whole
from ..utils.text import split_lines, why_not_text

PLAIN = {"rich_markup_mode": None}  # help as plain text: boxes cut long option names off

DEFAULT_MODEL = "echo-nano"


def packaged_model(name: str | None) -> str | None:
    """What a model option means: a folder or Hub name as it stands, or a checkpoint that comes with the package."""
    from .. import pretrained

    if not name or Path(name).exists() or "/" in name:
        return name
    try:
        return str(pretrained(name))
    except ValueError:
        return name  # a Hub name without an organisation


def named_model(name: str) -> str:
    """`packaged_model`; without a name the default model, and a line that says so."""
    if not name:
        typer.echo(f"no model given: {DEFAULT_MODEL}, which comes with the package", err=True)
    return packaged_model(name or DEFAULT_MODEL)


def _model(what: str) -> typer.models.OptionInfo:
    return typer.Option(
        "--model",
        "-m",
        help=f"{what}: folder or Hub name. Without: {DEFAULT_MODEL}, of this package.",
        default_factory=str,
        show_default=False,
        callback=named_model,
    )


Model = Annotated[str, _model("Echo checkpoint or release")]
AnyModel = Annotated[str, _model("Echo checkpoint or any SentenceTransformer")]
Translator = Annotated[str, _model("Echo checkpoint or release with a decoder")]
OnLong = Annotated[str, typer.Option(help="Texts beyond the model's length: warn (cut), error, or split.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result here as JSON.")]
Dtype = Annotated[str, typer.Option(help="auto (bf16 where it is native), fp32 or bf16.")]


# Names of the parameters that say where a command writes; all its other paths are read.
OUTPUTS = ("out", "report", "json", "markdown", "plot")


class Command(TyperCommand):
    """A command that looks at its outputs before it works: none may be an input, and each can be written."""

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


class FolderCommand(Command):
    """A command whose `out` is a folder."""

    folder = True


def _paths(value: Any) -> list[str | Path]:
    """What a parameter names that exists: a path, a text that is one, `LANGUAGE=PATH`, or a list of them."""
    values = value if isinstance(value, (list, tuple)) else [value]
    words = [word for value in values if isinstance(value, (str, Path)) for word in (value, _after_equals(value))]
    return [word for word in words if str(word) and _exists(word)]


def _after_equals(value: str | Path) -> str:
    return str(value).partition("=")[2]


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


def example(text: str, *, folder: bool = False) -> dict:
    """What `commands.command` is given: the example under the help, and the check of the outputs."""
    return {"epilog": f"Example: {text}", "cls": FolderCommand if folder else Command}


def read_lines(path: Path) -> list[str]:
    """Lines of a file or standard input, without their ends; an empty line is an empty text."""
    if str(path) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a text file with one sentence a line")
        if not path.exists():
            raise FileNotFoundError(
                f"no file {path}; give a text file with one sentence a line, or - for standard input"
            )
        data, name = path.read_bytes(), str(path)
    if reason := why_not_text(data):
        raise ValueError(f"{name}: {reason}")
    texts = []
    for number, line in enumerate(split_lines(data), 1):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
    if not texts:
        raise ValueError(f"{name} is empty: one sentence a line is needed")
    return texts


def print_report(report: dict, out: Path | None = None, *, file_only: dict | None = None) -> None:
    """Prints a report; the file of --json also gets `file_only`, what is too long to read on a screen."""
    if out is not None:
        with write_whole(out) as unfinished:
            unfinished.write_text(_as_json(report | (file_only or {})) + "\n", encoding="utf-8")
    typer.echo(_as_json(report))


def _as_json(report: dict) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, default=float)
