"""Stage 1: translation with full cross-attention (OS 4.3, ECHO 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from ..utils.settings import setting
from .core.base import LossParts
from .core.stage import Stage
from .core.translation import TranslationConfig, TranslationTrainer


@dataclass
class Seq2SeqConfig(TranslationConfig):
    """OS 5: 100k steps, lr 4e-4, 2k warm-up, 8192 tokens per device."""

    translation_weight: float = setting("weight of the only loss", 1.0, above=0)


class Seq2SeqTrainer(TranslationTrainer):
    """Token cross-entropy; the decoder attends to all encoder states."""

    bottleneck = False

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        output = self.forward(model, inputs)
        return {"translation": output["loss"]}, {"translation": self.args.translation_weight}


class Seq2SeqStage(Stage):
    name = "seq2seq"
    config = Seq2SeqConfig
    trainer = Seq2SeqTrainer


STAGE = Seq2SeqStage()
