"""What a training stage declares about itself; everything else in this folder reads the declaration.

A new stage is one file with a Config, a Trainer and `STAGE = Stage(...)`, one line in `table.py`, a recipe and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plan import Start, plan_echo

if TYPE_CHECKING:
    from .base import CoreTrainer


@dataclass(frozen=True)
class Embedded:
    """Embeddings of the training texts that a trainer needs, computed once by a frozen encoder and kept on disk.

    Attributes:
        role: the trainer's argument that takes them, one array-like per side.
        encoder: (model_args, data_args) -> the encoder's name, or None where the recipe names none.
        normalize: rows of length 1.
        languages: (config) -> the languages that are embedded; the others read as zeros. None: all.
    """

    role: str
    encoder: Callable[[Any, Any], str | None]
    sides: tuple[str, ...] = ("source", "target")
    normalize: bool = False
    languages: Callable[[Any], list[str] | None] = lambda config: None


@dataclass(frozen=True)
class Rows:
    """How the data of a stage are read, where its rows are not text pairs: audio with transcriptions, or documents.

    Attributes:
        load: (data_args) -> the training rows, a `datasets.Dataset`.
        load_dev: (data_args) -> {name: dev set}, for the trainer's `measure`; a dev set has `rows`, a table.
        processor: (model_args, rows, config, checkpoint to resume or None) -> tokenizer or feature extractor.
        prepare: (rows, processor, data_args, config) -> the trainer's `train_dataset`.
        texts: (rows) -> the texts that `Stage.embedded` embeds, by row: columns source and source_lang; of the other
            side target and target_lang.
        languages: (train_dataset) -> codes of its languages.
        language_column: column of the rows that `source_languages` of a recipe selects by.
        dev_options: a dev set of a recipe may be a mapping of options too.
    """

    load: Callable[[Any], Any]
    load_dev: Callable[[Any], dict[str, Any]]
    processor: Callable[[Any, Any, Any, str | None], Any]
    prepare: Callable[[Any, Any, Any, Any], Any]
    texts: Callable[[Any], Any]
    languages: Callable[[Any], list[str]]
    language_column: str = "lang"
    dev_options: bool = False


@dataclass(frozen=True)
class Stage:
    """A training stage.

    Attributes:
        config: subclass of `CoreConfig`, the fields of its recipe. trainer: subclass of `CoreTrainer`.
        half_precision: train in bf16 where the CPU has it natively.
        learns: which part of the model has gradients: "model", "encoder" or "decoder".
        pooling: of an encoder on a pretrained backbone, where `shape` names none.
        embedded: embeddings that the trainer needs beside the pairs.
        reads: fields of a recipe's data that not every stage reads, and this one does.
        needs_teacher: a recipe without `teacher` is refused.
        rows: (dataset, data_args, config) -> the rows that the stage trains on; None takes all.
        build: (model_args, config, **what the trainer takes) -> trainer, for another model than encoder and decoder.
        finished: (trainer, known languages) -> the model that is saved, where it is not the one that was trained.
        plan: (model_args, config, start) -> the configuration of the saved model, for a dry run; None: not known.
        size: (configuration, config) -> what a dry run reports: "parameters" and, if known, "batches", "memory_gib".
        data: how rows are read; None: text pairs.
        takes_adapter: a recipe may have `adapter`.
        check_shape: (shape) -> None; raises ValueError where `shape` of a recipe fits no model of the stage.
    """

    name: str
    config: type
    trainer: type[CoreTrainer]
    half_precision: bool = True
    learns: str = "model"
    pooling: str = "mean"
    embedded: Embedded | None = None
    reads: tuple[str, ...] = ()
    needs_teacher: bool = False
    rows: Callable[..., Any] | None = None
    build: Callable[..., Any] | None = None
    finished: Callable[..., Any] | None = None
    plan: Callable[[Any, Any, Start], Any] = plan_echo
    size: Callable[[Any, Any], dict[str, Any]] | None = None
    data: Rows | None = None
    takes_adapter: bool = True
    check_shape: Callable[[dict[str, Any]], None] | None = None


def load_with(load: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """`load` of the data of a recipe with its `data_options`."""
    try:
        return load(name, **options)
    except TypeError as error:  # an option that does not exist, or a value of a wrong kind
        if not options:
            raise
        raise ValueError(
            f"data_options: {str(error).replace(f'{load.__name__}() ', '')}"
        ) from error


def teacher(model_args: Any, data_args: Any) -> str | None:
    return data_args.teacher


def guide(model_args: Any, data_args: Any) -> str | None:
    return data_args.guide
