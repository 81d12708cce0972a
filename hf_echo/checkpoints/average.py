"""Average the weights of two checkpoints, or of their encoders or decoders (model soups). Speech encoders too.

Two decoders of one run: the first knows news, the last everyday sentences; their mean is good at both
(docs/log.md). Model soups: Wortsman et al. 2022, https://arxiv.org/abs/2203.05482.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import nn

from ..modeling import EchoEncoder, EchoForTranslation, EchoSpeechEncoder
from ..vocabulary.loading import load_tokenizer
from .rewrite import is_release, leave_decoder_out, open_text_or_speech, save_changed


def average_checkpoints(
    model: str | Path,
    other: str | Path,
    out: str | Path,
    share: float = 0.5,
    *,
    part: Literal["model", "encoder", "decoder"] = "model",
) -> Path:
    """Save (1 - share) * model + share * other in `out`, with the tokenizer or feature extractor of `model`.

    Args:
        model, other: folders of encoders, training checkpoints, releases or speech encoders of the same shape. A
            decoder that only one of two has, and as a release, is left out with a warning.
        share: weight of `other`, 0..1.
        part: "model" averages all weights; "encoder" or "decoder" only these, the rest is that of `model`.

    Raises:
        ValueError: a wrong share, a checkpoint without that part, weights of different shapes, or other tokenizers.
    """
    names, opened = (model, other), [open_text_or_speech(model), open_text_or_speech(other)]
    for own, partner in ((0, 1), (1, 0)) if part == "model" else ():
        if isinstance(opened[own], EchoForTranslation) and isinstance(opened[partner], EchoEncoder):
            if is_release(names[own]):
                reason = f"{names[partner]} has none to mix it with"
                opened[own] = leave_decoder_out(names[own], opened[own], reason)
    sides = [_part(whole, part, name) for whole, name in zip(opened, names, strict=True)]
    if type(sides[0]) is not type(sides[1]):
        speech = EchoSpeechEncoder in map(type, sides)
        what = "a speech encoder, the other is not" if speech else "an encoder without a decoder: give part=encoder"
        raise ValueError(f"one of {model} and {other} is {what}")
    average_weights(*sides, share)
    if isinstance(opened[0], EchoSpeechEncoder):
        languages = {code for each in opened for code in each.config.languages or ()}
        opened[0].config.languages = sorted(languages)
    elif load_tokenizer(model).get_vocab() != load_tokenizer(other).get_vocab():
        raise ValueError(f"{model} and {other} have different tokenizers: a row is of another token in each")
    parents = {"model": model, "other": other}
    return save_changed(opened[0], out, "average", {"share": share, "part": part}, parents=parents)


def _part(opened: nn.Module, part: str, name: str | Path) -> nn.Module:
    if part == "model" or isinstance(opened, EchoForTranslation):
        return opened if part == "model" else getattr(opened, part)
    if part == "decoder":
        raise ValueError(f"{name} is an encoder: it has no decoder to average")
    return opened


@torch.no_grad()
def average_weights(model: nn.Module, other: nn.Module, share: float) -> nn.Module:
    """Move every weight of `model` towards `other` by `share`, in place: 0 changes nothing, 1 is the other model.

    Raises:
        ValueError: share is not in 0..1, or the models differ in a weight's name or shape.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, not {share!r}")
    weights, others = dict(model.named_parameters()), dict(other.named_parameters())
    for name in sorted({*weights, *others}):
        shapes = [tuple(side[name].shape) if name in side else None for side in (weights, others)]
        if shapes[0] != shapes[1]:
            alone = "; part=encoder averages the encoders alone" if "decoder." in name else ""
            raise ValueError(f"the models differ in {name}: {shapes[0] or 'none'} and {shapes[1] or 'none'}{alone}")
    floats = {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}
    others |= dict(other.named_buffers())
    for name, weight in (weights | floats).items():  # buffers: means and variances of batch norm
        if name in others:
            weight.lerp_(others[name].to(weight.dtype), share)
    return model
