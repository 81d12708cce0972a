"""What stages share that train a ClsEncoder on pairs: Config, model with a head for masked tokens, Trainer, dry run."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModel, PretrainedConfig

from ...data.masked_pairs import MaskedPairCollator
from ...modeling import EchoConfig, EchoEncoder
from .base import CoreTrainer
from .cls_encoder import ClsEncoder, open_cls_encoder
from .model_shape import new_config
from .plan import Start, activation_memory, batches, memory, start_or_shape, with_total
from .stage import Stage
from .text import TextConfig, text_lengths


@dataclass
class ClsConfig(TextConfig):
    """AdamW without decay, and a warm-up that starts above zero (MEXMA A.5)."""

    adam_beta2: float = field(default=0.999, metadata={"help": "beta2 of AdamW"})
    lr_scheduler_type: str = field(
        default="cosine", metadata={"help": "learning rate schedule; cosine falls to 0 after the warm-up"}
    )
    warmup_steps: float = field(default=0.3, metadata={"help": "steps of linear warm-up; below 1: share of all steps"})
    warmup_start: float = field(
        default=0.0, metadata={"help": "learning rate of the first step, for the cosine schedule"}
    )


class ClsModel(nn.Module):
    """A ClsEncoder as `encoder`, and the `head` that predicts masked tokens."""

    def __init__(self, encoder: ClsEncoder, head: nn.Module):
        super().__init__()
        self.encoder, self.head = encoder, head

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.backbone.get_input_embeddings()

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        self.encoder.gradient_checkpointing_enable(*args, **kwargs)


class ClsTrainer(CoreTrainer):
    """Core of a stage that trains a ClsModel on pairs."""

    encoder_sides = 2

    def masks(self, args: Any) -> bool:
        """Whether a part of the loss reads masked texts."""
        raise NotImplementedError

    def freeze(self, model: Any, args: Any) -> None:
        model.head.requires_grad_(self.masks(args))

    def make_collator(self, args: Any, tokenizer: Any, model: Any) -> MaskedPairCollator:
        probability = args.mask_probability if self.masks(args) else 0.0
        collator = MaskedPairCollator(
            tokenizer, language_drop=args.language_drop, seed=args.seed, mask_probability=probability
        )
        data, room = self.train_dataset, tokenizer.model_max_length - collator.overhead(self.train_dataset)["prefix"]
        longest = int(max(data.source.lengths.max(), data.target.lengths.max()))
        if longest > room and not model.encoder.is_echo:  # rotary positions have no end
            raise ValueError(f"a text has {longest} tokens and the encoder has room for {room}; set max_length={room}")
        return collator

    def batch_lengths(self) -> np.ndarray:
        return text_lengths(self, self.encoder_sides)[:, : self.encoder_sides]

    def dev_model(self) -> Any:
        """EchoEncoder has its own fast `encode`; others embed texts themselves."""
        encoder = super().dev_model().encoder
        return encoder.backbone if encoder.is_echo else encoder

    def schedule(self, num_training_steps: int, optimizer: Any = None) -> Any:
        args = self.args
        own = args.warmup_start and args.learning_rate and args.lr_scheduler_type == "cosine"
        if self.lr_scheduler is not None or not own:
            return super().schedule(num_training_steps, optimizer)
        warmup, start = args.get_warmup_steps(num_training_steps), args.warmup_start / args.learning_rate
        share = warmup_from(start, warmup, num_training_steps, **(args.lr_scheduler_kwargs or {}))
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, share)
        return self.lr_scheduler


def warmup_from(start: float, warmup: int, total: int, *, num_cycles: float = 0.5):
    """step -> share of the learning rate: linear from `start` to 1, then a cosine, to 0 by default."""

    def share(step: int) -> float:
        if step < warmup:
            return start + (1 - start) * step / warmup
        return 0.5 * (1 + math.cos(2 * math.pi * num_cycles * min(1.0, (step - warmup) / max(1, total - warmup))))

    return share


def finished(trainer: ClsTrainer, languages: list[str]) -> Any:
    """The encoder that is saved, without what only training needs."""
    model = trainer.dev_model()
    if isinstance(model, EchoEncoder):
        model.config.languages = sorted({*(model.config.languages or []), *languages})
    return model


def plan(model_args: Any, args: ClsConfig, start: Start) -> PretrainedConfig | None:
    """Configuration of an encoder of any kind, without a decoder."""
    config = start_or_shape(
        model_args, start, lambda: new_config(model_args.shape, start.vocabulary(model_args)), (PretrainedConfig,)
    )
    config = copy.deepcopy(config)
    if isinstance(config, EchoConfig):
        config.decoder = None
    return config


def encoder_parameters(config: PretrainedConfig) -> dict[str, int]:
    with torch.device("meta"):
        backbone = EchoEncoder(config) if isinstance(config, EchoConfig) else AutoModel.from_config(config)
    embeddings = backbone.get_input_embeddings().weight.numel()
    rest = sum(p.numel() for name, p in backbone.named_parameters() if not name.startswith("pooler.")) - embeddings
    return {"token embeddings": embeddings, "encoder layers": rest}


def cls_stage(
    name: str,
    config: type[ClsConfig],
    model: Callable[[ClsEncoder, Any], ClsModel],
    trainer: type[ClsTrainer],
    beside: Callable[[PretrainedConfig, Any], dict[str, int]],
) -> Stage:
    """The stage of a ClsModel.

    Args:
        model: (encoder, config) -> what is trained.
        beside: (encoder's configuration, config) -> parameters beside the encoder, by name.
    """

    def build(model_args: Any, args: Any, *, tokenizer: Any, **kwargs: Any) -> ClsTrainer:
        return trainer(model(open_cls_encoder(model_args, tokenizer), args), args, tokenizer=tokenizer, **kwargs)

    def size(encoder: PretrainedConfig, args: Any) -> dict[str, Any]:
        parameters = with_total(encoder_parameters(encoder) | beside(encoder, args))
        activations = activation_memory(args, encoder.hidden_size, encoder.num_hidden_layers)
        total = parameters["total"]
        return {
            "parameters": parameters,
            "batches": batches(args),
            "memory_gib": memory(total, total, activations),
        }

    return Stage(name, config, trainer, learns="encoder", build=build, finished=finished, plan=plan, size=size)
