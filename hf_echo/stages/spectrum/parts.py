"""Tower and token decoder of a run: new, or from checkpoints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer

from ...inference.embedding_store import VectorRows
from ...inference.encode import opening
from ...languages import ENGLISH
from ...modeling import (
    EchoDecoder,
    SpectrumConfig,
    SpectrumForCausalLM,
    SpectrumModel,
)
from ...utils.did_you_mean import did_you_mean
from ...utils.hub import snapshot
from ..core.arguments import ModelArguments
from ..core.model_shape import check_activations


def check_shape(shape: dict[str, Any]) -> None:
    """Raises ValueError for a field that a tower does not have, or a value that it cannot have."""
    names = {field.name for field in fields(SpectrumConfig)} - {"decoder"}
    for name in shape:
        if name not in names:
            raise ValueError(f"shape: a tower has no field {name!r}{did_you_mean(name, names)}")
    check_activations(shape)
    try:
        SpectrumConfig(**shape)
    except (StrictDataclassError, TypeError) as error:
        raise ValueError(f"shape: {' '.join(str(error).split())}") from None


def load_tower(model_args: ModelArguments, embeddings: VectorRows) -> SpectrumModel:
    """The tower of a checkpoint, or a new one of `shape`; the last row of the embeddings is BOE."""
    boe = torch.from_numpy(embeddings[[len(embeddings) - 1]][0])
    name = model_args.model_name_or_path
    if name:
        tower = SpectrumModel.from_pretrained(snapshot(name), dtype=torch.float32)
        check_size(tower.config, len(boe))
        return tower
    tower = SpectrumModel(SpectrumConfig(**{"embedding_size": len(boe)} | model_args.shape))
    check_size(tower.config, len(boe))
    tower.set_boe(boe, scale="embedding_scale" not in model_args.shape)
    for layer in tower.layers:
        # A new layer adds nothing: the first states, and predictions of the next sentence, are the
        # last embedding.
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return tower


def load_spectrum(model_args: ModelArguments, embeddings: VectorRows) -> SpectrumForCausalLM:
    """A Spectrum, or a tower (checkpoint or new) with the token decoder that the recipe names."""
    name = model_args.model_name_or_path
    size = embeddings[[0]].shape[1]
    config = SpectrumConfig.from_pretrained(snapshot(name)) if name else None
    if config is not None and config.decoder is not None:
        if model_args.decoder:
            raise ValueError(f"decoder: {name} has a token decoder already; leave the field out")
        check_size(config, size)
        return SpectrumForCausalLM.from_pretrained(snapshot(name), dtype=torch.float32)
    if not model_args.decoder:
        raise ValueError(
            "decoder is missing: an Echo checkpoint as token decoder (of a Llama: hf-echo convert llama)"
        )
    return join(load_tower(model_args, embeddings), model_args.decoder)


def join(tower: SpectrumModel, decoder_name: str) -> SpectrumForCausalLM:
    """Tower and token decoder.

    A decoder that reads sentence embeddings (bottleneck) is given all states of the tower instead,
    scaled to the length of embeddings, and begins each sentence with the prompt that it knows.
    """
    with opening(decoder_name) as place:
        kind = AutoConfig.from_pretrained(place).model_type
        if kind not in ("echo", "echo_decoder"):
            fix = ""
            if kind == "llama":
                fix = f"; convert it first: hf-echo convert llama {decoder_name} OUT"
            raise ValueError(
                f"decoder: {decoder_name} is a model of type {kind!r}, not an Echo checkpoint{fix}"
            )
        decoder = EchoDecoder.from_pretrained(place, dtype=torch.float32)
        # The tower predicts embeddings in its own scale; the decoder's projection takes it up.
        if decoder.config.bottleneck:
            decoder.config.bottleneck = False
            with torch.no_grad():
                decoder.model.embedding_projection.weight.div_(tower.config.embedding_scale)
            prompt = AutoTokenizer.from_pretrained(place).decoder_prompt_ids(ENGLISH)
            tower.config.sentence_prompt = [int(i) for i in prompt]
    return SpectrumForCausalLM.from_parts(tower, decoder)


def check_size(config: SpectrumConfig, size: int) -> None:
    if config.embedding_size != size:
        raise ValueError(
            f"the tower reads embeddings of size {config.embedding_size}, the encoder writes {size}: name the encoder "
            "that the tower was trained with"
        )
