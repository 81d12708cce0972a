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

    def freeze(self, model):
        super().freeze(model)
        model.encoder.requires_grad_(False)

    def loss_parts(self, model, inputs):
        return {"translation": self.forward(model, inputs).loss}, {
            "translation": self.args.translation_weight
        }
