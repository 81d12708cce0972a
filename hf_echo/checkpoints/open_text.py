"""Open a checkpoint of text: its configuration, its encoder alone, or encoder and decoder."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig
from transformers.utils import has_file

from ..inference.encode import opening
from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation, EchoSpeechConfig
from ..modeling.modeling_echo_base import DECODER_FOLDER
from ..utils.adapter_base import base_of, is_adapter
from .adapters import merge_into


def stored_config(model: str | Path) -> EchoConfig:
    """The configuration of a checkpoint of text, with the dtype of its file; no weights are read.

    Of an adapter, that of its base.
    """
    if is_adapter(model):
        return stored_config(base_of(model))
    with opening(model) as place:
        config = AutoConfig.from_pretrained(place)
        if isinstance(config, EchoSpeechConfig):
            raise ValueError(f"{model} is a speech encoder: this operation is for text encoders")
        if not isinstance(config, EchoConfig):
            raise ValueError(
                f"{model} is a model of type {config.model_type!r}, not an Echo checkpoint"
            )
        return config


def open_checkpoint(model: str | Path) -> EchoEncoder | EchoForTranslation:
    """An encoder, a training checkpoint or a release, in fp32; an operation changes it in place.

    An adapter is merged into its base.
    """
    if is_adapter(model):
        merged = open_checkpoint(base_of(model))
        merge_into(merged, model)
        return merged.eval()
    has_decoder = stored_config(model).decoder is not None or is_release(model)
    model_class = EchoForTranslation if has_decoder else EchoEncoder
    with opening(model) as place:
        return model_class.from_pretrained(place, dtype=torch.float32).eval()


def is_release(name: str | Path) -> bool:
    """Whether a folder or Hub name has its decoder in a folder of its own."""
    with opening(name) as place:
        return has_file(place, f"{DECODER_FOLDER}/config.json")


def encoder_of(model: EchoEncoder | EchoForTranslation) -> EchoEncoder:
    return model if isinstance(model, EchoEncoder) else model.encoder
