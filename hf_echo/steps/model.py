"""Model and tokenizer of a run: a checkpoint, or a new model with a tokenizer of its own."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset, concatenate_datasets
from transformers import AutoConfig, AutoTokenizer

from ..inference.encode import opening
from ..modeling import EchoDecoder, EchoForTranslation
from ..stages.core.base import CoreTrainer
from ..stages.core.model_shape import check_same_shape, new_config
from ..stages.core.stage import Stage
from ..utils.hub import snapshot
from .arguments import ModelArguments


def load_tokenizer(args: ModelArguments, dataset: Dataset, max_length: int) -> Any:
    """The tokenizer that the recipe names, or the checkpoint's; else one trained on the data."""
    if name := args.tokenizer_name_or_path or args.model_name_or_path:
        return AutoTokenizer.from_pretrained(snapshot(name))
    from ..vocabulary import train_tokenizer

    texts = concatenate_datasets([dataset.select_columns([c]).rename_column(c, "text") for c in ("source", "target")])
    return train_tokenizer((row["text"] for row in texts), args.vocab_size, max_length=max_length)


def build_trainer(
    stage: Stage, model_args: ModelArguments, config: Any, languages: list[str], **kwargs: Any
) -> CoreTrainer:
    """The stage's trainer with its model.

    Args:
        languages: of the training data; a new model names them in its configuration, and a checkpoint whose encoder
            learns adds them to its own.
        kwargs: train_dataset, tokenizer, dev_sets and what the stage needs beside them.
    """
    if stage.build:
        return stage.build(model_args, config, **kwargs)
    model = load_model(model_args, kwargs["tokenizer"], languages)
    trainer = stage.trainer(model, config, **kwargs)
    if any(parameter.requires_grad for parameter in model.encoder.parameters()):
        model.config.languages = model.encoder.config.languages = sorted({*(model.config.languages or []), *languages})
    return trainer


def check_start(name: str, shape: dict[str, Any]) -> None:
    """Raises ValueError for a `shape` that the checkpoint does not have, or where there is no checkpoint."""
    with opening(name) as place:
        config = AutoConfig.from_pretrained(place)
    check_same_shape(shape, config, name)


def load_model(args: ModelArguments, tokenizer: Any, languages: list[str]) -> EchoForTranslation:
    """A checkpoint, or a new model of `shape`."""
    if args.model_name_or_path:
        model = EchoForTranslation.from_pretrained(snapshot(args.model_name_or_path), dtype=torch.float32)
        return with_decoder(model, args.decoder) if args.decoder else model
    model = EchoForTranslation(new_config(args.shape, tokenizer, languages))
    return with_decoder(model, args.decoder) if args.decoder else model


def with_decoder(model: EchoForTranslation, name: str) -> EchoForTranslation:
    """The same encoder with the decoder of another checkpoint of its space."""
    decoder = EchoDecoder.from_pretrained(snapshot(name), dtype=torch.float32)
    return EchoForTranslation.from_parts(model.encoder, decoder)
