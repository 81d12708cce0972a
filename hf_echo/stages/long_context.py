"""OmniSONAR-LC (OS 10.2): paragraphs and documents, with an in-batch contrastive loss only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..checkpoints.open_text import encoder_of
from ..losses import contrastive_loss, gather_with_grad
from ..modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ..utils.settings import setting
from .core.base import CachedBatchConfig, LossParts
from .core.encoder import EncoderTrainer
from .core.loss_blocks import loss_by_blocks
from .core.stage import Stage
from .core.text import TextConfig, learned_positions, same_text


@dataclass
class LongContextConfig(CachedBatchConfig, TextConfig):
    """OS 10.2: 9k steps, lr 1e-5, 900 steps of warm-up, scale 20, 128 pairs in a batch over 8 GPUs:
    16 on each."""

    learning_rate: float = setting("AdamW's initial learning rate", 1e-5)
    warmup_steps: float = setting("steps of linear warm-up", 900)
    max_rows: int | None = setting("pairs of a batch on one device", 16)
    max_tokens: int = setting(
        "padded tokens of a batch on one device, of both texts", 131_072, least=1
    )
    max_length: int = setting(
        "tokens of a text; the model and its tokenizer are set to it", 2048, least=1
    )
    logit_scale: float = setting("tau of Eq. 15", 20.0, above=0)


class LongContextTrainer(EncoderTrainer):
    """InfoNCE (OS Eq. 15). Rotary positions need no new weights for a longer text; learned ones
    cannot be longer.

    Raises:
        ValueError: `max_length` is beyond the backbone's learned positions.
    """

    encoder_sides = 2

    def __init__(
        self,
        model: EchoEncoder | EchoForTranslation,
        args: LongContextConfig,
        *,
        tokenizer: EchoTokenizer,
        **kwargs: Any,
    ):
        # the prompt
        room = args.max_length + 64
        encoder = encoder_of(model)
        most = learned_positions(encoder)
        if most:
            if args.max_length > most:
                kind = encoder.config.backbone.model_type
                raise ValueError(
                    f"max_length is {args.max_length}, but a backbone of type {kind!r} has {most} learned positions: "
                    "set max_length to at most that, or start from a backbone with rotary positions"
                )
            room = most
        for config in (model.config, encoder.config):
            config.max_position_embeddings = max(config.max_position_embeddings, room)
        tokenizer.model_max_length = max(tokenizer.model_max_length, room)
        super().__init__(model, args, tokenizer=tokenizer, **kwargs)

    def losses_of_embeddings(self, embeddings: torch.Tensor, inputs: dict[str, Any]) -> LossParts:
        """OS Eq. 15: the translation of a paragraph against those of the batch."""
        source, target = embeddings.chunk(2)
        all_target, offset = gather_with_grad(target)
        is_same = same_text(inputs)

        def losses(rows: slice) -> dict[str, torch.Tensor]:
            """The loss of a block of paragraphs."""
            loss = contrastive_loss(
                source[rows],
                all_target,
                logit_scale=self.args.logit_scale,
                margin=0.0,
                offset=offset + rows.start,
                exclude=is_same(rows),
            )
            return {"contrastive": loss}

        return loss_by_blocks(losses, len(source)), {"contrastive": 1.0}


class LongContextStage(Stage):
    name = "long_context"
    config = LongContextConfig
    trainer = LongContextTrainer
    learns = "encoder"


STAGE = LongContextStage()
