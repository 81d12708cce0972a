"""What stages on parallel text share: the papers' optimiser, language drop and batches by tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .base import CoreConfig, CoreTrainer


@dataclass
class TextConfig(CoreConfig):
    """The papers' optimiser (OS 5) and batches by tokens."""

    max_tokens: int = field(
        default=8192, metadata={"help": "padded tokens of a batch on one device, all sides together"}
    )
    max_rows: int | None = field(default=None, metadata={"help": "pairs of a batch on one device, no limit by default"})
    max_length: int = field(default=128, metadata={"help": "tokens of a text; longer ones are cut, with a warning"})
    language_drop: float = field(
        default=0.0,
        metadata={"help": "probability that a text is encoded as 'Unspecified language' (OS p_unk)"},
    )
    learning_rate: float = field(default=4e-4, metadata={"help": "AdamW's initial learning rate"})
    adam_beta2: float = field(default=0.98, metadata={"help": "beta2 of AdamW"})
    lr_scheduler_type: str = field(default="inverse_sqrt", metadata={"help": "learning rate schedule"})
    warmup_steps: float = field(default=2000, metadata={"help": "steps of linear warm-up"})
    max_grad_norm: float = field(default=1.0, metadata={"help": "gradients are clipped to this norm"})

    def __post_init__(self):
        super().__post_init__()
        if self.max_tokens < 1 or self.max_length < 1:
            raise ValueError(f"max_tokens={self.max_tokens} and max_length={self.max_length} must be at least 1")
        if not 0 <= self.language_drop <= 1:
            raise ValueError(f"language_drop is a probability, not {self.language_drop}")


def text_lengths(trainer: CoreTrainer, encoder_sides: int) -> np.ndarray:
    """(rows, encoder_sides + 1) tokens that a pair costs: texts that are encoded, and last what the decoder reads."""
    overhead = trainer.data_collator.overhead(trainer.train_dataset)
    return trainer.train_dataset.lengths(encoder_sides=encoder_sides, **overhead)
