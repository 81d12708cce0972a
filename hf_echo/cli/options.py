"""Options that several commands have, and the model of the package for commands without
`--model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from ..steps.step import language_tag
from ..utils.choices import Dtype as Dtype
from ..utils.choices import ExecutorName as Executor  # noqa: F401 (commands import it from here)
from ..utils.choices import Margin as Margin
from ..utils.choices import OnBadRow as OnBadRow
from ..utils.choices import OnLong as OnLong
from ..utils.hub import SPEECH, packaged_model, packaged_speech
from ..utils.settings import CHECKPOINT, DefaultOf, Step, setting

DEFAULT_MODEL = "echo-nano"
TEXTS = (
    "texts: lines (.gz, .bz2, .zst, .xz too), a table (TSV, CSV, JSONL, Parquet), TMX, XLIFF, OPUS's XML, subtitles "
    "(.srt, .vtt), or - for lines of standard input; with --audio: a recording, or a TSV of paths"
)


def device() -> Any:
    help = "where the model runs: cpu, cuda, cuda:1, mps; default: $HF_ECHO_DEVICE, else CUDA where there is one"
    return setting(help, None)


@dataclass(kw_only=True)
class OpensModel(Step):
    """A command with the field `model`: without it, the model of the package, which a line on
    stderr says.

    `--device` is that of every model that the command opens.
    """

    model: str
    device: str | None = device()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = named_model(
            self.model, SPEECH if getattr(self, "audio", False) else DEFAULT_MODEL
        )


def named_model(name: str, default: str = DEFAULT_MODEL) -> str:
    """`packaged_model` of the name. An empty name means the default model;
    a line on stderr reports it."""
    if not name and default == SPEECH and not packaged_speech():
        raise ValueError(
            f"the package has no {SPEECH}: hf-echo train {SPEECH} makes one; name its folder by --model"
        )
    if not name:
        typer.echo(f"no --model: using {default}, which is included in the package", err=True)
    return packaged_model(name or default)


def model(what: str, *, audio: bool = False, argument: bool = False) -> Any:
    help = f"{what}: folder or Hub name; default: {DEFAULT_MODEL} of the package"
    if audio:
        help += f" (with --audio: {SPEECH})"
    if argument:
        return setting(help, "", reads=CHECKPOINT, argument=True)
    return setting(help, "", reads=CHECKPOINT, short="-m")


def on_long() -> Any:
    return setting(
        "for texts longer than the model's limit: warn (and cut), error, or split",
        DefaultOf("inference.encode.encode", "on_long"),
    )


def dtype() -> Any:
    return setting(
        "precision: auto is bf16 where the device computes faster in it",
        DefaultOf("inference.encode.load_encoder", "dtype"),
    )


def executor() -> Any:
    return setting(
        "where to run: one process, or ray: the cluster at RAY_ADDRESS, or this machine", "local"
    )


def resume(**options: Any) -> Any:
    return setting(
        "resume a stopped run, or start again", True, option="--resume/--fresh", **options
    )


def language(of: str, default: Any = None, **options: Any) -> Any:
    """A field of a language; a default of ... is none."""
    default_option = {} if default is ... else {"default": default}
    return setting(of, **default_option, convert=language_tag, **options)


def column(**options: Any) -> Any:
    help = "column of the texts in a table: a name, or a number in a TSV or CSV file without header; default: text"
    return setting(help, None, **options)


def on_bad_row() -> Any:
    return setting(
        "for bad rows: error (stop and name file and row) or skip (and count them)",
        DefaultOf("data.readers.load_parallel", "on_bad_row"),
    )
