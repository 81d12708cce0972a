"""Stages with a translation loss: encoder and decoder, through all encoder states or the sentence
embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from torch import nn

from ...data.collators import IGNORE, TranslationCollator
from ...data.tokenized import TokenizedParallel
from ...losses import translation_loss
from ...losses.translation import Reduction
from ...modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ...modeling.modeling_echo import EchoTranslationOutput
from ...utils.settings import setting
from .base import CoreTrainer
from .text import TextConfig, text_lengths


@dataclass
class TranslationConfig(TextConfig):
    """Weight of the translation loss, and how much the decoder reads."""

    tokens_of: Literal["pair", "side"] = setting(
        "what max_tokens counts. pair: all texts of a pair together, hard negatives too, so that stages need about the "
        "same memory; side: the longer text of a pair alone, which the figures of OS 5 mean by our reading",
        "pair",
    )

    decoder_fraction: float = setting(
        "share of a batch's pairs that the decoder reads, to save time on a small machine",
        1.0,
        above=0,
        most=1,
    )
    translation_weight: float = setting(
        "beta of OS Eq. 4 and 6; 0: the decoder reads nothing and stays as it is", 1.0
    )
    translation_reduction: Reduction = setting(
        "mean: over tokens, what the weights of all recipes belong to; sum: over a sentence, as OS 4.3 prints it",
        "mean",
    )


class TranslationTrainer(CoreTrainer):
    """Encoder and decoder of an EchoForTranslation; a stage sets `bottleneck`."""

    bottleneck = True
    encoder_sides = 1  # texts of a pair that are encoded: the source; stage 2 adds the target, stage 3 negatives
    token_loss = staticmethod(translation_loss)

    def freeze(self, model: EchoForTranslation, args: TranslationConfig) -> None:
        """Freeze what the stage's forward does not read, and unfreeze what it does; the rest stays
        as it is.

        Through the bottleneck the softmax of the cross-attention is over one key, so queries and
        keys get no gradient; in stage 1 the projections to and from the embedding get none. DDP
        would wait for gradients that never come.
        """
        if not isinstance(model, EchoForTranslation):
            return
        model.bottleneck = self.bottleneck
        bottleneck = {"encoder.projection", "decoder.model.embedding_projection"}
        attention = {"q_proj", "k_proj", "cross_attention_layernorm"}
        for name, module in model.named_modules():
            if name in bottleneck:
                module.requires_grad_(model.bottleneck)
            in_cross_attention = ".cross_attn." in name or "cross_attention" in name
            if in_cross_attention and name.rpartition(".")[2] in attention:
                module.requires_grad_(not model.bottleneck)
        if not args.translation_weight:
            model.decoder.requires_grad_(False)

    def make_collator(
        self,
        args: TranslationConfig,
        tokenizer: EchoTokenizer,
        model: EchoEncoder | EchoForTranslation,
    ) -> TranslationCollator:
        """Sources and what the decoder writes; a small decoder knows the first tokens alone."""
        # A decoder may know the first ids of the vocabulary alone.
        decoder_vocab_size = None
        decoder = model.config.decoder
        if decoder and decoder.vocab_size < len(tokenizer):
            decoder_vocab_size = decoder.vocab_size
        return TranslationCollator(
            tokenizer,
            language_drop=args.language_drop,
            decoder_fraction=args.decoder_fraction if args.translation_weight else 0.0,
            seed=args.seed,
            decoder_vocab_size=decoder_vocab_size,
            **self.collator_options(args),
        )

    def collator_options(self, args: TranslationConfig) -> dict[str, Any]:
        """Further fields of the collator: targets and hard negatives for the encoder."""
        return {}

    def part_sizes(self, inputs: dict[str, Any]) -> dict[str, int]:
        """The translation loss is a mean over tokens, or, if each sentence is summed,
        over sentences."""
        if "labels" not in inputs:
            return {}
        is_token = inputs["labels"] != IGNORE
        if self.args.translation_reduction == "sum":
            is_token = is_token.any(dim=-1)
        return {"translation": int(is_token.sum())}

    def count_tokens(self, inputs: dict[str, Any]) -> int:
        encoder_tokens = super().count_tokens(inputs)
        if "labels" not in inputs:
            return encoder_tokens
        return encoder_tokens + int((inputs["labels"] != IGNORE).sum())

    def batch_lengths(self, data: TokenizedParallel | None = None) -> np.ndarray:
        """(rows, sides), or with `tokens_of: side` (rows, 1): the longest side."""
        lengths = text_lengths(self, self.encoder_sides, data)
        if not self.args.translation_weight:
            lengths = lengths[:, : self.encoder_sides]
        if self.args.tokens_of == "side":
            return lengths.max(axis=1, keepdims=True)
        return lengths

    def loss_function(self) -> Callable[..., Any]:
        """(hidden, output matrix, labels) -> loss, with the recipe's reduction."""
        return partial(self.token_loss, reduction=self.args.translation_reduction)

    def forward(self, model: nn.Module, inputs: dict[str, Any]) -> EchoTranslationOutput:
        """The model's output; its loss is the translation loss, by chunks and without logits."""
        names = ("input_ids", "attention_mask", "decoder_input_ids", "labels")
        tensors = {name: inputs[name] for name in names if name in inputs}
        if "labels" not in tensors:
            return model(**tensors)
        return model(**tensors, loss_function=self.loss_function())
