"""What every command shares: options, reading of text, printing of reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

PLAIN = {"rich_markup_mode": None}  # help as plain text: boxes cut long option names off

DEFAULT_MODEL = "echo-nano"


def named_model(name: str) -> str:
    """What `--model` means: a folder or Hub name as it stands, or a checkpoint that comes with the package."""
    from .. import pretrained

    if not name:
        name = DEFAULT_MODEL
        typer.echo(f"no model given: {name}, which comes with the package", err=True)
    if Path(name).exists() or "/" in name:
        return name
    try:
        return str(pretrained(name))
    except ValueError:
        return name  # a Hub name without an organisation


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Echo checkpoint or release: folder or Hub name.",
        callback=named_model,
    ),
]
AnyModel = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Echo checkpoint or any SentenceTransformer: folder or Hub name. Without: echo-nano, of this package.",
        default_factory=str,
        show_default=False,
        callback=named_model,
    ),
]
Translator = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Echo checkpoint or release with a decoder: folder or Hub name. Without: echo-nano, of this package.",
        default_factory=str,
        show_default=False,
        callback=named_model,
    ),
]
OnLong = Annotated[str, typer.Option(help="Texts beyond the model's length: warn (cut), error, or split.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the result here as JSON.")]
Dtype = Annotated[str, typer.Option(help="auto (bf16 where it is native), fp32 or bf16.")]


def example(text: str) -> dict:
    return {"epilog": f"Example: {text}"}


def read_lines(path: Path) -> list[str]:
    """Lines of a file or standard input, without their ends; an empty line is an empty text."""
    if str(path) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        if not path.is_file():
            raise FileNotFoundError(
                f"no file {path}; give a text file with one sentence a line, or - for standard input"
            )
        data, name = path.read_bytes(), str(path)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")  # an editor's byte order mark is no text
    lines = lines[:-1] if lines[-1] == b"" else lines
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8"
            ) from None
    if not texts:
        raise ValueError(f"{name} is empty: one sentence a line is needed")
    return texts


def print_report(report: dict, out: Path | None = None) -> None:
    text = json.dumps(report, indent=2, ensure_ascii=False, default=float)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    typer.echo(text)
