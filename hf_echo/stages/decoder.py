"""Decoder finetuning on a frozen encoder (OS 4.7): translation through the bottleneck;
embeddings do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ..inference.embedding_store import VectorRows
from ..losses import sampled_translation_loss
from ..modeling import EchoForTranslation
from ..modeling.modeling_echo import EchoTranslationOutput
from ..utils.settings import setting
from .core.arguments import DataArguments, ModelArguments
from .core.base import LossParts
from .core.stage import Embedded, Stage
from .core.translation import TranslationConfig, TranslationTrainer


@dataclass
class DecoderConfig(TranslationConfig):
    """OS 5: as stage 1 but lr 1e-3 and 200 steps of warm-up."""

    learning_rate: float = setting("AdamW's initial learning rate", 1e-3)
    warmup_steps: float = setting("steps of linear warm-up", 200)
    softmax_samples: int = setting(
        "softmax over the batch's targets and this many other tokens; 0: the whole vocabulary",
        0,
        least=0,
    )
    translation_weight: float = setting("weight of the only loss", 1.0, above=0)


class DecoderTrainer(TranslationTrainer):
    """Token cross-entropy; only the decoder learns.

    `embeddings`: (``rows -> (n, embedding_size)``,) of the sources by row of the training data, so
    that the frozen encoder reads each text once and not every epoch. Language names are not dropped
    then. None runs it at each step.
    """

    def __init__(self, *args: Any, embeddings: Sequence[VectorRows] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.embeddings = None if embeddings is None else embeddings[0]
        if self.args.softmax_samples:
            self.token_loss = partial(sampled_translation_loss, samples=self.args.softmax_samples)

    def freeze(self, model: EchoForTranslation, args: DecoderConfig) -> None:
        super().freeze(model, args)
        model.encoder.requires_grad_(False)

    def forward(self, model: nn.Module, inputs: dict[str, Any]) -> EchoTranslationOutput:
        """The decoder reads stored embeddings of the sources, if there are some."""
        if self.embeddings is None:
            return super().forward(model, inputs)
        embeddings = torch.from_numpy(self.embeddings[inputs["index"].cpu().numpy()])
        return model(
            sentence_embedding=embeddings.to(inputs["labels"].device),
            decoder_input_ids=inputs["decoder_input_ids"],
            labels=inputs["labels"],
            loss_function=self.loss_function(),
        )

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        output = self.forward(model, inputs)
        return {"translation": output["loss"]}, {"translation": self.args.translation_weight}


def own_encoder(model: ModelArguments, data: DataArguments) -> str | None:
    """The frozen encoder itself, if its embeddings are kept on disk."""
    return model.model_name_or_path if data.cache_embeddings else None


class DecoderStage(Stage):
    name = "decoder"
    config = DecoderConfig
    trainer = DecoderTrainer
    learns = "decoder"
    embedded = Embedded("embeddings", own_encoder, sides=("source",))
    reads = ("cache_embeddings",)


STAGE = DecoderStage()
