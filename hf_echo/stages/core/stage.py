"""What a training stage is: its facts, and methods that read its data, build its trainer and plan
its model.

A new stage is one file with a Config, a Trainer and a subclass of `Stage` (`STAGE` is its
instance), one line in `hf_echo/steps/table.py`, a recipe and a test. What a subclass does not say
is that of text pairs and an Echo model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from datasets import Dataset
from transformers import PreTrainedConfig, PreTrainedModel

from ...checkpoints.open_text import encoder_of
from ...data.prepared import PreparedParallel
from ...data.tokenized import TokenizedParallel
from . import model_shape, text_pairs
from .adapter import AdapterSettings, add_adapter, read_adapter_settings
from .arguments import DataArguments, ModelArguments
from .base import CoreConfig, CoreTrainer
from .plan import Start, plan_echo, size_of_echo
from .start import start_model


@dataclass(frozen=True)
class Embedded:
    """Embeddings of the training texts that a trainer needs, computed once by a frozen encoder and
    kept on disk.

    Attributes:
        role: the trainer's argument that takes them, one array-like per side.
        encoder: the encoder's name, or None where the recipe names none.
        normalize: rows of length 1.
        languages: the languages that are embedded; the others read as zeros. None: all.
        negatives: a live teacher also embeds the rows' hard negatives, where they have some.
    """

    role: str
    encoder: Callable[[ModelArguments, DataArguments], str | None]
    sides: tuple[str, ...] = ("source", "target")
    normalize: bool = False
    languages: Callable[[Any], list[str] | None] = lambda config: None
    negatives: bool = False


class Stage:
    """A training stage.

    Attributes:
        name: what `stage` of a recipe says.
        config: the fields of its recipe. trainer: what trains.
        half_precision: train in bf16 where the CPU has it natively.
        learns: which part of the model has gradients: "model", "encoder" or "decoder".
        pooling: of an encoder on a pretrained backbone, where `shape` names none.
        embedded: embeddings that the trainer needs beside the rows.
        reads: fields of a recipe's data that not every stage reads, and this one does.
        needs_teacher: a recipe without `teacher` is refused.
        takes_adapter: a recipe may have `adapter`.
        merges_adapter: its result is the whole model, with the adapter in its weights; else the
            adapter alone.
        reads_pairs: its rows are text pairs, which `batch_by` can group.
        takes_dev_options: a dev set of a recipe may be a mapping of options.
        language_column: column of the rows that `source_languages` of a recipe selects by.
    """

    name: ClassVar[str]
    config: ClassVar[type[CoreConfig]]
    trainer: ClassVar[type[CoreTrainer]]
    half_precision: ClassVar[bool] = True
    learns: ClassVar[str] = "model"
    pooling: ClassVar[str] = "mean"
    embedded: ClassVar[Embedded | None] = None
    reads: ClassVar[tuple[str, ...]] = ()
    needs_teacher: ClassVar[bool] = False
    takes_adapter: ClassVar[bool] = True
    merges_adapter: ClassVar[bool] = False
    reads_pairs: ClassVar[bool] = True
    takes_dev_options: ClassVar[bool] = True
    language_column: ClassVar[str] = "source_lang"

    # Data, in the order in which a run calls these.

    def load_rows(self, data: DataArguments) -> Dataset | PreparedParallel:
        """The rows that the recipe names."""
        return text_pairs.load_pairs(data)

    def load_dev_sets(self, data: DataArguments) -> dict[str, Any]:
        """{name: dev set} for the trainer's `measure`; a dev set has `rows`, a table."""
        return text_pairs.load_dev_sets(data)

    def choose_rows(self, rows: Dataset, data: DataArguments, config: Any) -> Dataset:
        """The rows that the stage trains on; not called for prepared data."""
        return rows

    def row_choice(self, data: DataArguments, config: Any) -> dict[str, Any]:
        """The settings by which `choose_rows` chooses, for the record of prepared data; empty:
        it takes all rows."""
        return {}

    def open_processor(
        self,
        model: ModelArguments,
        rows: Dataset | PreparedParallel,
        config: Any,
        resume: str | None,
    ) -> Any:
        """Tokenizer or feature extractor of the rows;
        `resume` is the checkpoint that the run continues."""
        return text_pairs.pair_tokenizer(model, rows, config, resume)

    def prepare(
        self, rows: Dataset | PreparedParallel, processor: Any, data: DataArguments, config: Any
    ) -> Any:
        """The trainer's `train_dataset`."""
        return text_pairs.tokenized_pairs(rows, processor, data, config)

    def texts(self, rows: Dataset) -> Dataset:
        """The texts that `embedded` embeds, by row:
        columns source and source_lang, perhaps target and target_lang."""
        return rows

    def languages(self, train_dataset: TokenizedParallel | PreparedParallel) -> list[str]:
        """Codes of the languages of the prepared rows."""
        names = train_dataset.names
        return sorted({*names["source_lang"], *names["target_lang"]})

    # Model and trainer.

    def check_adapter(self, config: Any) -> None:
        """Raises ValueError where the recipe has an adapter and settings that contradict it."""

    def learned_part(self, config: Any) -> str:
        """As `learns`; without a translation loss a decoder learns nothing,
        and an encoder alone will do."""
        return self.learns if getattr(config, "translation_weight", 1) else "encoder"

    def check_shape(self, shape: dict[str, Any]) -> None:
        """Raises ValueError where `shape` of a recipe fits no model of the stage."""
        model_shape.check_shape(shape)

    def build_trainer(
        self, model_args: ModelArguments, config: Any, languages: list[str], **parts: Any
    ) -> CoreTrainer:
        """The trainer with its model.

        A new model names the languages of the training data in its configuration, and a checkpoint
        whose encoder learns adds them to its own.

        Args:
            parts: train_dataset, tokenizer, dev_sets, and what `embedded` names.
        """
        learns = self.learned_part(config)
        model = start_model(
            model_args, parts["tokenizer"], languages, learns=learns, pooling=self.pooling
        )
        if model_args.adapter is not None:
            settings = read_adapter_settings(model_args.adapter, "adapter")
            add_adapter(model, settings, str(model_args.model_name_or_path), learns)
        trainer = self.trainer(model, config, **parts)
        # A frozen encoder learns no further language.
        encoder = encoder_of(model)
        if any(parameter.requires_grad for parameter in encoder.parameters()):
            model.config.languages = encoder.config.languages = sorted(
                {*(model.config.languages or []), *languages}
            )
        return trainer

    def finished(self, trainer: CoreTrainer) -> PreTrainedModel | None:
        """The model that is saved, where it is not the one that was trained."""
        return None

    # Dry run.

    def plan(self, model: ModelArguments, config: Any, start: Start) -> PreTrainedConfig | None:
        """The configuration of the saved model; None: not known."""
        return plan_echo(model, config, start)

    def size(
        self, planned: Any, config: Any, adapter: AdapterSettings | None = None
    ) -> dict[str, Any]:
        """What a dry run reports of a planned model, perhaps with an adapter:
        "parameters" and, if known, "batches", "memory_gib"."""
        sides = getattr(self.trainer, "encoder_sides", 1) + getattr(config, "max_negatives", 0)
        return size_of_echo(planned, config, self.learned_part(config), sides, adapter=adapter)


def teacher(model: ModelArguments, data: DataArguments) -> str | None:
    return data.teacher


def guide(model: ModelArguments, data: DataArguments) -> str | None:
    return data.guide
