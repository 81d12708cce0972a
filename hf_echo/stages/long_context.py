"""OmniSONAR-LC (OS 10.2): paragraphs and documents, with an in-batch contrastive loss only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..checkpoints.rewrite import encoder_of
from ..losses import contrastive_loss, gather_with_grad
from ..utils.settings import setting
from .core.encoder import EncoderTrainer
from .core.stage import Stage
from .core.text import TextConfig, learned_positions, same_text


@dataclass
class LongContextConfig(TextConfig):
    """OS 10.2: 9k steps, lr 1e-5, 900 steps of warm-up, scale 20, 128 pairs in a batch over 8 GPUs: 16 on each."""

    learning_rate: float = setting("AdamW's initial learning rate", 1e-5)
    warmup_steps: float = setting("steps of linear warm-up", 900)
    max_rows: int | None = setting("pairs of a batch on one device", 16)
    max_tokens: int = setting("padded tokens of a batch on one device, of both texts", 131_072, least=1)
    max_length: int = setting("tokens of a text; the model and its tokenizer are set to it", 2048, least=1)
    logit_scale: float = setting("tau of Eq. 15", 20.0, above=0)


class LongContextTrainer(EncoderTrainer):
    """InfoNCE (OS Eq. 15). Rotary positions need no new weights for a longer text; learned ones cannot be longer.

    Raises:
        ValueError: `max_length` is beyond the backbone's learned positions.
    """

    encoder_sides = 2

    def __init__(self, model, args: LongContextConfig, *, tokenizer, **kwargs: Any):
        room, encoder = args.max_length + 64, encoder_of(model)  # the prompt
        if most := learned_positions(encoder):
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

    def loss_parts(self, model, inputs: dict[str, Any]):
        n = len(inputs["index"])
        embedding = self.encode(model, inputs).sentence_embedding
        target, offset = gather_with_grad(embedding[n:])
        options = dict(logit_scale=self.args.logit_scale, margin=0.0, exclude=same_text(inputs), offset=offset)
        loss = contrastive_loss(embedding[:n], target, **options)
        return {"contrastive": loss}, {"contrastive": 1.0}


STAGE = Stage("long_context", LongContextConfig, LongContextTrainer, learns="encoder")
