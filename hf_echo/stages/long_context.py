"""OmniSONAR-LC (OS 10.2): paragraphs and documents, with an in-batch contrastive loss only."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..checkpoints.rewrite import encoder_of
from ..losses import contrastive_loss, gather_with_grad
from .core.encoder import EncoderTrainer, learned_positions
from .core.stage import Stage
from .core.text import TextConfig


@dataclass
class LongContextConfig(TextConfig):
    """OS 10.2: 9k steps, 128 pairs in a batch, lr 1e-5, 900 steps of warm-up, scale 20."""

    learning_rate: float = field(default=1e-5, metadata={"help": "AdamW's initial learning rate"})
    warmup_steps: float = field(default=900, metadata={"help": "steps of linear warm-up"})
    max_rows: int | None = field(default=128, metadata={"help": "pairs of a batch on one device"})
    max_tokens: int = field(default=131_072, metadata={"help": "padded tokens of a batch on one device"})
    max_length: int = field(
        default=2048, metadata={"help": "tokens of a text; the model and its tokenizer are set to it"}
    )
    logit_scale: float = field(default=20.0, metadata={"help": "tau of Eq. 15"})


class LongContextTrainer(EncoderTrainer):
    """InfoNCE (OS Eq. 15). Rotary positions need no new weights for a longer text; learned ones cannot be longer.

    Raises:
        ValueError: `max_length` is beyond the backbone's learned positions.
    """

    encoder_sides = 2

    def __init__(self, model, args: LongContextConfig, *, tokenizer, **kwargs):
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

    def loss_parts(self, model, inputs):
        n = len(inputs["index"])
        embedding = self.encode(model, inputs).sentence_embedding
        target, offset = gather_with_grad(embedding[n:])
        keys, _ = gather_with_grad(inputs["target_key"])
        same = inputs["target_key"][:, None] == keys[None]
        loss = contrastive_loss(
            embedding[:n], target, logit_scale=self.args.logit_scale, margin=0.0, exclude=same, offset=offset
        )
        return {"contrastive": loss}, {"contrastive": 1.0}


STAGE = Stage("long_context", LongContextConfig, LongContextTrainer, learns="encoder")
