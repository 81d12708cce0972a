"""Change the encoder of a checkpoint without training, and save it with its tokenizer and its lineage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from ..inference.encode import opening
from ..inference.encode_speech import open_extractor
from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation, EchoSpeechConfig, EchoSpeechEncoder
from ..utils.folders import write_folder
from ..utils.lineage import write_lineage
from ..utils.speech_data import merge_speech_data, read_speech_data, write_speech_data


def open_checkpoint(model: str | Path) -> EchoEncoder | EchoForTranslation:
    """An encoder or a training checkpoint in fp32; an operation changes it in place.

    Raises:
        FileNotFoundError: no such folder or Hub name.
        ValueError: a damaged checkpoint, a speech encoder, or a model of another family.
    """
    opened = open_text_or_speech(model)
    if isinstance(opened, EchoSpeechEncoder):
        raise ValueError(f"{model} is a speech encoder: this operation is for text encoders")
    return opened


def open_text_or_speech(model: str | Path) -> EchoEncoder | EchoForTranslation | EchoSpeechEncoder:
    """As `open_checkpoint`, speech encoders included: for operations that mix weights, whatever they are."""
    with opening(model) as place:
        config = AutoConfig.from_pretrained(place)
        if isinstance(config, EchoSpeechConfig):
            kind = EchoSpeechEncoder
        elif isinstance(config, EchoConfig):
            kind = EchoEncoder if config.decoder is None else EchoForTranslation
        else:
            raise ValueError(f"{model} is a model of type {config.model_type!r}, not an Echo checkpoint")
        return kind.from_pretrained(place, dtype=torch.float32).eval()


def encoder_of(model: EchoEncoder | EchoForTranslation) -> EchoEncoder:
    return model if isinstance(model, EchoEncoder) else model.encoder


@torch.no_grad()
def scale_layers(encoder: EchoEncoder, scale: float) -> None:
    """Scale what every attention and MLP adds to the states, in place: 0 leaves the token vectors alone."""
    for layer in encoder.layers:
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            for parameter in linear.parameters():  # a bias is added to the states too
                parameter.mul_(scale)


def save_changed(
    changed: EchoEncoder | EchoForTranslation | EchoSpeechEncoder,
    out: str | Path,
    operation: str,
    values: Mapping[str, Any],
    *,
    parents: Mapping[str, str | Path],
    data: Mapping[str, str | Path | None] | None = None,
    results: Mapping[str, Any] | None = None,
) -> Path:
    """Save a model with the tokenizer or the feature extractor of its first parent and its lineage.

    A speech encoder keeps what its parents say about their recordings. The folder is written whole.
    """
    out, first, heard = Path(out), next(iter(parents.values())), {}
    if isinstance(changed, EchoSpeechEncoder):
        processor = open_extractor(first)
        heard = merge_speech_data(read_speech_data(name) for name in parents.values())
    else:
        with opening(first) as place:
            processor = AutoTokenizer.from_pretrained(place)
    with write_folder(out) as folder:
        changed.save_pretrained(folder)
        processor.save_pretrained(folder)
        write_speech_data(folder, heard)
        write_lineage(folder, operation, values, parents=parents, data=data, results=results, output_dir=out)
    return out


def rewrite_checkpoint(
    model: str | Path,
    out: str | Path,
    change: Callable[[EchoEncoder], Any],
    operation: str,
    values: Mapping[str, Any],
    *,
    data: Mapping[str, str | Path | None] | None = None,
    results: Mapping[str, Any] | None = None,
) -> Path:
    """Open an encoder or a training checkpoint, `change` its encoder in place, and save it in another folder.

    A decoder is kept as it is: it has to be finetuned on the new space. `operation`, `values`, `data` (the files that
    `change` reads) and `results` (with the seconds of the change) go into the lineage, see `hf_echo.utils.lineage`.
    """
    opened, start = open_checkpoint(model), time.time()
    change(encoder_of(opened))
    results = {**(results or {}), "seconds": round(time.time() - start, 1)}
    return save_changed(opened, out, operation, values, parents={"model": model}, data=data, results=results)
