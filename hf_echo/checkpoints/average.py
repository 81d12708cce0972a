"""Average the weights of two checkpoints, or of their encoders or decoders (model soups). Speech
encoders too.

Two decoders of one run: the first knows news, the last everyday sentences; their mean is good at
both (docs/log.md). Model soups: Wortsman et al. 2022, https://arxiv.org/abs/2203.05482.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from ..modeling import EchoEncoder, EchoForTranslation, EchoSpeechEncoder
from ..vocabulary.loading import load_tokenizer
from .open_text import is_release
from .rewrite import leave_decoder_out, open_text_or_speech, save_changed


def average_checkpoints(
    model: str | Path,
    other: str | Path,
    out: str | Path,
    share: float = 0.5,
    *,
    part: Literal["model", "encoder", "decoder"] = "model",
) -> Path:
    """Save (1 - share) * model + share * other in `out`, with the tokenizer or feature extractor of
    `model`.

    Args:
        model, other: folders of encoders, training checkpoints, releases or speech encoders of the
            same shape. A decoder that only one of two has, and as a release, is left out with a
            warning.
        share: weight of `other`, 0..1.
        part: "model" averages all weights; "encoder" or "decoder" only these, the rest is that of
            `model`.

    Raises:
        ValueError: a wrong share, a checkpoint without that part, weights of different shapes, or
            other tokenizers.
    """
    first: PreTrainedModel = open_text_or_speech(model)
    second: PreTrainedModel = open_text_or_speech(other)
    # An encoder and a whole model have the encoder in common.
    if part == "model":
        first = _without_lone_decoder(first, second, model, other)
        second = _without_lone_decoder(second, first, other, model)
    first_part = _part(first, part, model)
    second_part = _part(second, part, other)
    if type(first_part) is not type(second_part):
        reason = "an encoder without a decoder: give --part encoder (part='encoder')"
        if isinstance(first_part, EchoSpeechEncoder) or isinstance(second_part, EchoSpeechEncoder):
            reason = "a speech encoder, the other is not"
        raise ValueError(f"one of {model} and {other} is {reason}")
    average_weights(first_part, second_part, share)
    if isinstance(first, EchoSpeechEncoder):
        first.config.languages = sorted(
            {*(first.config.languages or ()), *(second.config.languages or ())}
        )
    # Token by token, two models mean the same only with one tokenizer.
    elif load_tokenizer(model).get_vocab() != load_tokenizer(other).get_vocab():
        raise ValueError(
            f"{model} and {other} have different tokenizers: a row is of another token in each"
        )
    values = {"share": share, "part": part}
    return save_changed(first, out, "average", values, parents={"model": model, "other": other})


def _without_lone_decoder(
    opened: PreTrainedModel, partner: nn.Module, name: str | Path, partner_name: str | Path
) -> PreTrainedModel:
    """Of a release whose partner has no decoder the encoder alone; anything else as it is."""
    is_alone = isinstance(opened, EchoForTranslation) and isinstance(partner, EchoEncoder)
    if is_alone and is_release(name):
        return leave_decoder_out(name, opened, f"{partner_name} has none to mix it with")
    return opened


def _part(opened: nn.Module, part: str, name: str | Path) -> nn.Module:
    if part == "model":
        return opened
    if isinstance(opened, EchoForTranslation):
        return getattr(opened, part)
    if part == "decoder":
        raise ValueError(f"{name} is an encoder: it has no decoder to average")
    return opened


@torch.no_grad()
def average_weights(model: nn.Module, other: nn.Module, share: float) -> None:
    """Move every weight of `model` towards `other` by `share`, in place: 0 changes nothing, 1 is
    the other model.

    Raises:
        ValueError: share is not in 0..1, or the models differ in a weight's name or shape.
    """
    weights = dict(model.named_parameters())
    others = dict(other.named_parameters())
    for name in sorted({*weights, *others}):
        shape = _shape(weights, name)
        other_shape = _shape(others, name)
        if shape != other_shape:
            advice = ""
            if "decoder." in name:
                advice = "; --part encoder (part='encoder') averages the encoders alone"
            raise ValueError(f"the models differ in {name}: {shape} and {other_shape}{advice}")
        weights[name].lerp_(others[name].to(weights[name].dtype), share)
    # Buffers too: means and variances of batch norm.
    other_buffers = dict(other.named_buffers())
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and name in other_buffers:
            buffer.lerp_(other_buffers[name].to(buffer.dtype), share)


def _shape(weights: Mapping[str, nn.Parameter], name: str) -> tuple[int, ...] | str:
    return tuple(weights[name].shape) if name in weights else "none"
