"""Decoder finetuning on a frozen encoder (OS 4.7): translation through the bottleneck, the space stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from .trainer import EchoTrainer, EchoTrainingConfig


@dataclass
class DecoderConfig(EchoTrainingConfig):
    """OS 5: as stage 1 but lr 1e-3 and 200 steps of warm-up."""

    learning_rate: float = field(default=1e-3, metadata={"help": "AdamW's initial learning rate"})
    warmup_steps: float = field(default=200, metadata={"help": "steps of linear warm-up"})


class DecoderTrainer(EchoTrainer):
    """Token cross-entropy; only the decoder learns."""

    def __init__(self, model, args: DecoderConfig, **kwargs):
        model.encoder.requires_grad_(False)
        super().__init__(model, args, **kwargs)

    def loss_parts(self, model, inputs):
        output = self.forward(model, inputs)
        return {"translation": self.translation(model, output, inputs)}, {"translation": self.args.translation_weight}
