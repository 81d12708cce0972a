"""Teacher to student by MSE: vocabulary adaptation (OS 4.5.1) and small models (OS 4.8), Eq. 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from torch import nn

from ..checkpoints.open_text import encoder_of
from ..data.directions import monolingual, resample
from ..inference.embedding_store import VectorRows
from ..losses import mse_loss
from ..modeling import EchoEncoder, EchoForTranslation
from ..utils.settings import setting
from .core.arguments import DataArguments
from .core.base import LossParts, check_teacher
from .core.encoder import EncoderTrainer, set_attention_dropout
from .core.stage import Embedded, Stage
from .core.stage import teacher as the_teacher
from .core.text import TextConfig


@dataclass
class DistillationConfig(TextConfig):
    """OS 5: cosine annealing, 1k steps of warm-up, 16k tokens;
    lr 1e-4 and dropout 0.05 for a vocabulary, lr 5e-4 for a small model."""

    learning_rate: float = setting("AdamW's initial learning rate", 5e-4)
    lr_scheduler_type: str = setting("learning rate schedule", "cosine")
    warmup_steps: float = setting("steps of linear warm-up", 1000)
    max_tokens: int = setting("padded tokens of a batch on one device", 16_384, least=1)
    base_languages: list[str] = setting(
        "the teacher's languages; by default those of its config, or all of the data", list
    )
    language_drop: float = setting(
        "OS p_unk, for the student alone: the teacher knows the language", 0.25, least=0, most=1
    )
    dropout: float | None = setting(
        "of the student's attention; default: that of its configuration", None, least=0, most=1
    )


class DistillationTrainer(EncoderTrainer):
    """`||student(x) - teacher(x)||^2`; teacher: (source, target), each ``rows -> (n, d)`` by row of
    the training data.

    Here the data are sentences (pairs of a text with itself) and the source's embeddings are read.
    """

    def __init__(
        self,
        model: EchoEncoder | EchoForTranslation,
        args: DistillationConfig,
        *,
        teacher: Sequence[VectorRows],
        **kwargs: Any,
    ):
        if args.dropout is not None:
            set_attention_dropout(encoder_of(model), args.dropout)
        super().__init__(model, args, **kwargs)
        self.teacher = teacher
        check_teacher(self.unwrapped(), teacher)

    def unwrapped(self) -> EchoEncoder | EchoForTranslation:
        return self.accelerator.unwrap_model(self.model)

    def teacher_rows(self, side: int, inputs: dict[str, Any]) -> torch.Tensor:
        rows = self.teacher[side][inputs["index"].cpu().numpy()]
        return torch.from_numpy(rows).to(inputs["index"].device)

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        student = self.encode(model, inputs).sentence_embedding
        return {"mse": mse_loss(student, self.teacher_rows(0, inputs))}, {"mse": 1.0}


def resampled(dataset: Dataset, data: DataArguments, seed: int) -> Dataset:
    """Source languages drawn by `temperature`, where the recipe sets one (OS 4.5.2)."""
    if data.temperature is None:
        return dataset
    return resample(dataset, data.temperature, seed=seed)


class DistillationStage(Stage):
    name = "distillation"
    config = DistillationConfig
    trainer = DistillationTrainer
    learns = "encoder"
    embedded = Embedded("teacher", the_teacher, sides=("source",))
    reads = ("teacher", "live_teacher", "temperature", "base_languages_of")
    needs_teacher = True

    def choose_rows(
        self, rows: Dataset, data: DataArguments, config: DistillationConfig
    ) -> Dataset:
        """Sentences of the teacher's languages, as pairs of a text with itself."""
        return resampled(monolingual(rows, config.base_languages or None), data, config.seed)

    def row_choice(self, data: DataArguments, config: DistillationConfig) -> dict[str, Any]:
        return {
            "stage": self.name,
            "base_languages": config.base_languages,
            "temperature": data.temperature,
            "seed": config.seed,
        }


STAGE = DistillationStage()
