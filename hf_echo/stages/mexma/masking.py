"""What MEXMA and EMMA-X share: an encoder on any backbone with a head for masked tokens,
trained on pairs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ...checkpoints.open_text import encoder_of
from ...data.collators import MaskedPairCollator
from ...data.tokenized import TokenizedParallel
from ...modeling import EchoConfig, EchoEncoder, EchoForTranslation, EchoTokenizer
from ...utils.settings import setting
from ..core.adapter import AdapterSettings, part_with_adapter
from ..core.arguments import ModelArguments
from ..core.base import CoreTrainer
from ..core.encoder import set_attention_dropout
from ..core.plan import Start, size_of_echo, with_total
from ..core.stage import Stage
from ..core.text import TextConfig, text_lengths
from .unmasking_head import UnmaskingHead

MASK = "<mask>"
POOLING = "cls"


@dataclass
class MaskingConfig(TextConfig):
    """AdamW without decay and a cosine to 0 after the warm-up (MEXMA A.5)."""

    adam_beta2: float = setting("beta2 of AdamW", 0.999)
    lr_scheduler_type: str = setting("learning rate schedule", "cosine")
    warmup_steps: float = setting("steps of linear warm-up; below 1: share of all steps", 0.3)


class EncoderWithHead(nn.Module):
    """An EchoEncoder as `encoder`, and the `head` that predicts masked tokens."""

    has_front = True  # its tokenizer puts a token in front of a text

    def __init__(self, encoder: EchoEncoder, head: UnmaskingHead):
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def token_matrix(self) -> torch.Tensor:
        """(vocabulary, hidden), the input embeddings."""
        embeddings: Any = self.get_input_embeddings()
        return embeddings.weight

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        self.encoder.gradient_checkpointing_enable(*args, **kwargs)


class MaskingTrainer(CoreTrainer):
    """Masks tokens, without decoder and attention dropout;
    a new mask token has the mean vector of all."""

    encoder_sides = 2
    model_class: Callable[[EchoEncoder, Any], EncoderWithHead]

    def __init__(
        self,
        model: EchoEncoder | EchoForTranslation,
        args: MaskingConfig,
        *,
        tokenizer: EchoTokenizer,
        **kwargs: Any,
    ):
        encoder = encoder_of(model)
        add_mask_token(encoder, tokenizer)
        set_attention_dropout(encoder, 0.0)
        super().__init__(type(self).model_class(encoder, args), args, tokenizer=tokenizer, **kwargs)

    def masks(self, args: Any) -> bool:
        """Whether a part of the loss reads masked texts."""
        raise NotImplementedError

    def freeze(self, model: EncoderWithHead, args: MaskingConfig) -> None:
        model.encoder.requires_grad_(True)
        model.head.requires_grad_(self.masks(args))

    def make_collator(
        self, args: Any, tokenizer: EchoTokenizer, model: EncoderWithHead
    ) -> MaskedPairCollator:
        """Both texts of a pair, and their masked copies where the stage learns to unmask."""
        probability = args.mask_probability if self.masks(args) else 0.0
        collator = MaskedPairCollator(
            tokenizer,
            language_drop=args.language_drop,
            seed=args.seed,
            mask_probability=probability,
        )
        model.has_front = collator.has_front
        if model.encoder.config.pooling == "cls" and not model.has_front:
            raise ValueError(
                "pooling is 'cls' and the tokenizer puts no CLS in front: use pooling 'mean' or 'last'"
            )
        return collator

    def batch_lengths(self, data: TokenizedParallel | None = None) -> np.ndarray:
        return text_lengths(self, self.encoder_sides, data)[:, : self.encoder_sides]

    def dev_model(self) -> EchoEncoder:
        return super().dev_model().encoder


def add_mask_token(encoder: EchoEncoder, tokenizer: EchoTokenizer) -> None:
    """Give a tokenizer without mask token one, and the encoder a vector for each token that it
    lacks: the mean."""
    if tokenizer.mask_token_id is None:
        tokenizer.add_special_tokens({"mask_token": MASK})
    before = len(encoder.get_input_embeddings().weight)
    if len(tokenizer) > before:
        if part_with_adapter(encoder) is not None:
            raise ValueError(
                "adapter: the base lacks a mask token, and a new one would change it: leave adapter out"
            )
        encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        matrix = encoder.get_input_embeddings().get_parameter("weight")
        with torch.no_grad():
            matrix[before:] = matrix[:before].mean(0)


class MaskingStage(Stage):
    """The stage of an EncoderWithHead; the encoder alone is saved.

    Attributes:
        follows: of `parameters_beside`, those that have no gradients.
    """

    learns = "encoder"
    pooling = POOLING
    follows: ClassVar[tuple[str, ...]] = ()

    def parameters_beside(self, encoder: EchoConfig, config: Any, alone: int) -> dict[str, int]:
        """{part: parameters} of what stands beside the encoder, which has `alone` parameters."""
        raise NotImplementedError

    def finished(self, trainer: CoreTrainer) -> EchoEncoder:
        return trainer.dev_model()

    def plan(self, model: ModelArguments, config: MaskingConfig, start: Start) -> EchoConfig | None:
        """Configuration of the encoder, without a decoder."""
        planned: Any = copy.deepcopy(super().plan(model, config, start))
        if planned is not None:
            planned.decoder = None
            if model.backbone:
                planned.pooling = model.shape.get("pooling", POOLING)
        return planned

    def size(
        self, planned: EchoConfig, config: Any, adapter: AdapterSettings | None = None
    ) -> dict[str, Any]:
        """Parameters, batches and memory; each text is encoded as it is, and masked."""
        report = size_of_echo(planned, config, self.learns, adapter=adapter, passes=2)
        alone = report["parameters"].pop("total")
        beside = self.parameters_beside(planned, config, alone)
        gibibytes = report["memory_gib"]
        gibibytes["weights"] += 4 * sum(beside.values()) / 2**30
        learning = [count for name, count in beside.items() if name not in self.follows]
        gibibytes["gradients and AdamW"] += 12 * sum(learning) / 2**30
        del gibibytes["total"]
        parameters = with_total(report["parameters"] | beside)
        return report | {"parameters": parameters, "memory_gib": with_total(gibibytes)}
