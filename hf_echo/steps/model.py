"""Model and tokenizer of a run: a checkpoint, or a new model with a tokenizer of its own."""

from __future__ import annotations

from typing import Any

from datasets import Dataset, concatenate_datasets
from transformers import AutoConfig, AutoTokenizer

from ..checkpoints.rewrite import encoder_of
from ..data.prepared import PreparedParallel
from ..inference.encode import opening
from ..modeling import EchoTokenizer
from ..stages.core.adapter import add_adapter, read_adapter_settings
from ..stages.core.base import CoreTrainer
from ..stages.core.model_shape import check_same_shape
from ..stages.core.stage import Stage
from ..stages.core.start import start_model
from ..utils.hub import snapshot
from .arguments import ModelArguments


def load_tokenizer(args: ModelArguments, dataset: Dataset, max_length: int) -> Any:
    """The tokenizer that the recipe names, or the checkpoint's; else one trained on the data."""
    if name := args.tokenizer_name_or_path or args.model_name_or_path or args.backbone:
        found = AutoTokenizer.from_pretrained(snapshot(name))
        return found if isinstance(found, EchoTokenizer) else EchoTokenizer.around(found)
    if isinstance(dataset, PreparedParallel):
        raise ValueError(
            "prepared data hold no texts for a new tokenizer: name it in tokenizer_name_or_path"
        )
    from ..vocabulary import train_tokenizer

    texts = concatenate_datasets(
        [dataset.select_columns([c]).rename_column(c, "text") for c in ("source", "target")]
    )
    return train_tokenizer((row["text"] for row in texts), args.vocab_size, max_length=max_length)


def build_trainer(
    stage: Stage, model_args: ModelArguments, config: Any, languages: list[str], **kwargs: Any
) -> CoreTrainer:
    """The stage's trainer with its model; `kwargs` are train_dataset, tokenizer, dev_sets and what the stage needs.

    A new model names the languages of the training data in its configuration, and a checkpoint whose encoder learns
    adds them to its own.
    """
    if stage.build:
        return stage.build(model_args, config, **kwargs)
    # Without a translation loss the decoder learns nothing, and an encoder alone will do.
    learns = stage.learns if getattr(config, "translation_weight", 1) else "encoder"
    model = start_model(
        model_args, kwargs["tokenizer"], languages, learns=learns, pooling=stage.pooling
    )
    if model_args.adapter is not None:
        settings = read_adapter_settings(model_args.adapter, "adapter")
        add_adapter(model, settings, str(model_args.model_name_or_path), learns)
    trainer = stage.trainer(model, config, **kwargs)
    encoder = encoder_of(model)
    if any(parameter.requires_grad for parameter in encoder.parameters()):
        model.config.languages = encoder.config.languages = sorted(
            {*(model.config.languages or []), *languages}
        )
    return trainer


def check_start(name: str, shape: dict[str, Any]) -> None:
    """Raises ValueError for a `shape` that the checkpoint does not have, or where there is no checkpoint."""
    with opening(name) as place:
        config = AutoConfig.from_pretrained(place)
    check_same_shape(shape, config, name)
