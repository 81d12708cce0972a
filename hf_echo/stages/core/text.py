"""What stages on parallel text share: the papers' optimiser, language drop and batches by tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...utils.settings import setting
from .base import CoreConfig, CoreTrainer


@dataclass
class TextConfig(CoreConfig):
    """The papers' optimiser (OS 5) and batches by tokens."""

    max_tokens: int = setting("padded tokens of a batch on one device, all sides together", 8192, least=1)
    max_rows: int | None = setting("pairs of a batch on one device, no limit by default", None)
    max_length: int = setting("tokens of a text; longer ones are cut, with a warning", 128, least=1)
    language_drop: float = setting(
        "probability that a text is encoded as 'Unspecified language' (OS p_unk)", 0.0, least=0, most=1
    )
    learning_rate: float = setting("AdamW's initial learning rate", 4e-4)
    adam_beta2: float = setting("beta2 of AdamW", 0.98)
    lr_scheduler_type: str = setting("learning rate schedule", "inverse_sqrt")
    warmup_steps: float = setting("steps of linear warm-up", 2000)
    max_grad_norm: float = setting("gradients are clipped to this norm", 1.0)


def text_lengths(trainer: CoreTrainer, encoder_sides: int) -> np.ndarray:
    """(rows, encoder_sides + 1) tokens that a pair costs: texts that are encoded, and last what the decoder reads."""
    overhead = trainer.data_collator.overhead(trainer.train_dataset)
    return trainer.train_dataset.lengths(encoder_sides=encoder_sides, **overhead)
