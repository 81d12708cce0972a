"""What every declaration of a step has in common: the class of operations, fields that many have,
languages by name.

Nothing heavy is imported here, since the help of the commands reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ..utils.hub import may_be_on_hub, packaged_model
from ..utils.settings import CHECKPOINT, DATA, Step, fields_of, setting


class Operation(Step):
    """An operation on checkpoints. `make`, which writes the folder `output_dir`, is `calls`."""

    reports = True
    output_dir: str | None  # None: the input itself is changed

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self.names(CHECKPOINT).items():
            setattr(self, name, packaged_model(value))

    def check_inputs(self) -> None:
        """Raises FileNotFoundError for a data file that is not there."""
        for name, declared in fields_of(type(self)).items():
            file = getattr(self, name)
            if declared.metadata["reads"] == DATA and file is not None and is_missing(file):
                raise FileNotFoundError(f"{self.spelled(name)}: no file {file}")

    def make(self) -> dict[str, Any] | None:
        """Write the checkpoint; returns a report."""
        report = self.call()
        return report if isinstance(report, dict) else None

    def run(self) -> dict[str, Any] | None:
        with self.alone():
            report = self.make()
            self.write_card()
        return self.counted() | (report or {})

    def alone(self) -> AbstractContextManager[Any]:
        """A block that one process runs at a time for this output folder; another one is refused
        with ValueError."""
        from ..utils.files import only_run

        assert self.output_dir
        return only_run(self.output_dir)

    def counted(self) -> dict[str, Any]:
        """The report of the result in `output_dir`: its place, and what its lineage counted."""
        from ..utils.lineage import read_lineage

        if self.output_dir is None:
            return {}
        lineage = read_lineage(self.output_dir) or {}
        return {"output_dir": self.output_dir, **lineage.get("results", {})}

    def missing(self) -> Iterable[str]:
        """What it needs beside its inputs, such as a package, and this machine does not have."""
        return ()

    @property
    def stage(self) -> str:
        """Its name in the lineage."""
        return str(self.operation)

    def is_whole(self) -> bool:
        """Whether the files in `output_dir` are complete."""
        from ..utils.folders import whole_weights

        return whole_weights(Path(self.output_dir))

    def write_card(self) -> None:
        """Write the card of a model where there is none. Tables and tokenizers have no card."""
        from ..cards.model_card import write_checkpoint_card
        from ..utils.folders import holds_model

        if self.output_dir and holds_model(Path(self.output_dir)) and self.is_whole():
            write_checkpoint_card(self.output_dir, getattr(self, "license", None))

    @classmethod
    def kinds(cls) -> tuple[type, ...]:
        """Configurations of `model` from which a dry run can plan the result; empty: it cannot."""
        return ()

    def planned(self, config: Any) -> Any:
        """The configuration of what it makes from one of `model`, for a dry run."""
        return config

    def names(self, reads: str | None) -> dict[str, Any]:
        """{field: value} of the recorded fields that read checkpoints, data, or (None) neither."""
        values = {}
        for name, declared in fields_of(type(self)).items():
            value = getattr(self, name)
            is_of_kind = declared.metadata["recorded"] and declared.metadata["reads"] == reads
            if is_of_kind and (reads is None or value is not None):
                values[name] = value
        return values


def is_missing(data: str) -> bool:
    """Whether this name of data is no file or folder here, and cannot be a data set on the Hub."""
    if data == "builtin" or Path(data).exists():
        return False
    return bool(Path(data).suffix) or not may_be_on_hub(data)


class OnEcho(Operation):
    """An operation that changes an Echo checkpoint."""

    @classmethod
    def kinds(cls) -> tuple[type, ...]:
        from ..stages.core.plan import ECHO

        return ECHO


class OnTextOrSpeech(Operation):
    """An operation that changes the weights of an Echo checkpoint of text or speech."""

    @classmethod
    def kinds(cls) -> tuple[type, ...]:
        from ..modeling import EchoConfig, EchoSpeechConfig

        return EchoConfig, EchoSpeechConfig


def output(help: str = "folder of the new checkpoint", default: Any = ..., **options: Any) -> Any:
    """The field of the folder that an operation writes; on a command line the last position."""
    if default is not ...:
        options["default"] = default
    return setting(help, writes="folder", recorded=False, **{"argument": True} | options)


def model(
    help: str = "Echo checkpoint or release: folder, org/name@v1.2.0 or echo-nano", **options: Any
) -> Any:
    """The field of the checkpoint that an operation starts from."""
    return setting(help, reads=CHECKPOINT, **{"argument": True} | options)


def language_code(text: str) -> str:
    """The NLLB code of a language that is given by any name or code,
    for `setting(..., convert=language_code)`."""
    from ..languages import as_code  # when it is needed: no help reads the tables

    return as_code(text)


def language_tag(text: str) -> str:
    """The same code, which remembers the region that it was named with:
    "en-GB" chooses that variant in a TMX file."""
    from ..languages import tagged_code

    return tagged_code(text)
