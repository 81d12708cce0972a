"""What stages on parallel text share: the papers' optimiser,
language drop and batches by tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...data.tokenized import KEYS, TokenizedParallel
from ...losses import gather_with_grad
from ...utils.settings import setting
from .base import CoreConfig, CoreTrainer


@dataclass
class TextConfig(CoreConfig):
    """The papers' optimiser (OS 5) and batches by tokens."""

    max_tokens: int = setting(
        "padded tokens of a batch on one device, all sides together", 8192, least=1
    )
    max_rows: int | None = setting("pairs of a batch on one device, no limit by default", None)
    max_length: int = setting("tokens of a text; longer ones are cut, with a warning", 128, least=1)
    language_drop: float = setting(
        "probability that a text is encoded as 'Unspecified language' (OS p_unk)",
        0.0,
        least=0,
        most=1,
    )
    learning_rate: float = setting("AdamW's initial learning rate", 4e-4)
    adam_beta2: float = setting("beta2 of AdamW", 0.98)
    lr_scheduler_type: str = setting("learning rate schedule", "inverse_sqrt")
    warmup_steps: float = setting("steps of linear warm-up", 2000)
    max_grad_norm: float = setting("gradients are clipped to this norm", 1.0)


def text_lengths(
    trainer: CoreTrainer, encoder_sides: int, data: TokenizedParallel | None = None
) -> np.ndarray:
    """(rows, encoder_sides + 1) tokens that a pair costs: texts that are encoded, and last what the
    decoder reads.

    Of the training data, or of `data`, a shard of them.

    Raises:
        ValueError: a text that is encoded is beyond the learned positions.
    """
    whole: Any = trainer.train_dataset
    measured_data = whole if data is None else data
    overhead = trainer.data_collator.overhead(whole)
    positions = learned_positions(trainer.model)
    if positions:
        sides = ("source", "target", "negatives")[: min(encoder_sides, 3)]
        longest = max(measured_data.longest()[side] for side in sides)
        # The prompt in front of a text takes positions, too.
        room = positions - overhead["prefix"]
        if longest > room:
            raise ValueError(
                f"a text has {longest} tokens, the encoder room for {room}; set max_length={room}"
            )
    return measured_data.lengths(encoder_sides=encoder_sides, **overhead)


def same_text(inputs: Mapping[str, Any]) -> Callable[[slice], torch.Tensor]:
    """A function of rows of this process: (rows, N) bool, targets of all processes that are no
    negatives of a row, as source or target is the same text. Every process must call
    `same_text`."""
    all_keys = {name: gather_with_grad(inputs[name])[0] for name in KEYS}

    def of_rows(rows: slice) -> torch.Tensor:
        # (rows, N) for each side
        source, target = (inputs[name][rows, None] == all_keys[name][None] for name in KEYS)
        return source | target

    return of_rows


def learned_positions(model: nn.Module) -> int:
    """Number of positions of a text that have a learned vector; 0 for a backbone that has none."""
    positions = []
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa counts from behind the number of padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            positions.append(len(module.weight) - first)
    return min(positions, default=0)
