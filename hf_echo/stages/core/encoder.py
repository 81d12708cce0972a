"""Stages of the encoder alone: teacher and student, tokens, long context.
The decoder stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from ...data.collators import TranslationCollator
from ...data.tokenized import TokenizedParallel
from ...modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ...modeling.modeling_echo import EchoEncoderOutput, EchoTranslationOutput
from .base import CoreTrainer, EncodedBatch
from .text import TextConfig, text_lengths


class EncoderTrainer(CoreTrainer):
    """Only the encoder learns; a decoder of the checkpoint is kept frozen,
    so that it can be tried on the result."""

    encoder_sides = 1  # texts of a pair that are encoded: the source; 2: the target too

    def freeze(self, model: EchoEncoder | EchoForTranslation, args: TextConfig) -> None:
        model.requires_grad_(True)
        if isinstance(model, EchoForTranslation):
            model.bottleneck = True
            model.decoder.requires_grad_(False)

    def make_collator(
        self, args: TextConfig, tokenizer: EchoTokenizer, model: EchoEncoder | EchoForTranslation
    ) -> TranslationCollator:
        """Sources, and targets where the stage encodes them, for an encoder alone."""
        return TranslationCollator(
            tokenizer,
            encode_targets=self.encoder_sides > 1,
            language_drop=args.language_drop,
            language_drops=self.language_drops(args),
            decoder_fraction=0.0,
            seed=args.seed,
        )

    def language_drops(self, args: TextConfig) -> dict[str, float]:
        """Probability of the unspecified-language prompt by language,
        where it is not `args.language_drop`."""
        return {}

    def batch_lengths(self, data: TokenizedParallel | None = None) -> np.ndarray:
        return text_lengths(self, self.encoder_sides, data)[:, : self.encoder_sides]

    def encode(
        self, model: nn.Module, inputs: dict[str, Any]
    ) -> EchoEncoderOutput | EchoTranslationOutput:
        """The model's output for all texts of a batch:
        sources, then targets where there are any."""
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])

    def encoded(
        self, model: nn.Module, inputs: dict[str, Any], *, alone: bool = False
    ) -> EncodedBatch:
        return self.encode(model, inputs).sentence_embedding, {}, {}


def set_attention_dropout(encoder: nn.Module, probability: float) -> None:
    """Set the dropout inside of attention; that of the hidden states stays."""
    module: Any
    for module in encoder.modules():
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = probability
        elif "Attention" in type(module).__name__:  # of BERT's kind
            if isinstance(getattr(module, "dropout", None), nn.Dropout):
                module.dropout.p = probability
