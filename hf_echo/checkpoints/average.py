"""Average the weights of two checkpoints, or of their encoders or decoders (model soups). Speech encoders too.

Two decoders of one run: the first knows news, the last everyday sentences; their mean is good at both
(docs/log.md). Model soups: Wortsman et al. 2022, https://arxiv.org/abs/2203.05482.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ..modeling import EchoEncoder, EchoSpeechEncoder
from .rewrite import open_both, open_text_or_speech, save_changed

PARTS = ("model", "encoder", "decoder")


def average_checkpoints(
    model: str | Path, other: str | Path, out: str | Path, share: float = 0.5, *, part: str = "model"
) -> Path:
    """Save (1 - share) * model + share * other in `out`, with the tokenizer or feature extractor of `model`.

    Args:
        model, other: folders of encoders, training checkpoints, releases or speech encoders of the same shape.
        share: weight of `other`, 0..1.
        part: "model" averages all weights; "encoder" or "decoder" only these, the rest is that of `model`.

    Raises:
        ValueError: a wrong share or part, a checkpoint without that part, or weights of different shapes.
    """
    check_share(share)
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, not {part!r}")
    opened, second = open_both(model, other) if part == "model" else map(open_text_or_speech, (model, other))
    sides = [_part(opened, part, model), _part(second, part, other)]
    if type(sides[0]) is not type(sides[1]):
        speech = EchoSpeechEncoder in map(type, sides)
        what = "a speech encoder, the other is not" if speech else "an encoder without a decoder: give part=encoder"
        raise ValueError(f"one of {model} and {other} is {what}")
    average_weights(*sides, share)
    if isinstance(opened, EchoSpeechEncoder):
        opened.config.languages = sorted({*(opened.config.languages or ()), *(second.config.languages or ())})
    parents = {"model": model, "other": other}
    return save_changed(opened, out, "average", {"share": share, "part": part}, parents=parents)


def _part(opened, part: str, name: str | Path):
    encoders = (EchoEncoder, EchoSpeechEncoder)
    if part == "model" or (part == "encoder" and isinstance(opened, encoders)):
        return opened
    if isinstance(opened, encoders):
        raise ValueError(f"{name} is an encoder: it has no decoder to average")
    return getattr(opened, part)


@torch.no_grad()
def average_weights(model: nn.Module, other: nn.Module, share: float) -> nn.Module:
    """Move every weight of `model` towards `other` by `share`, in place: 0 changes nothing, 1 is the other model.

    Raises:
        ValueError: share is not in 0..1, or the models differ in a weight's name or shape.
    """
    check_share(share)
    weights, others = dict(model.named_parameters()), dict(other.named_parameters())
    for name in sorted({*weights, *others}):
        shapes = [tuple(side[name].shape) if name in side else None for side in (weights, others)]
        if shapes[0] != shapes[1]:
            alone = "; part=encoder averages the encoders alone" if "decoder." in name else ""
            raise ValueError(f"the models differ in {name}: {shapes[0] or 'none'} and {shapes[1] or 'none'}{alone}")
    for name, weight in weights.items():
        weight.lerp_(others[name].to(weight.dtype), share)
    others = dict(other.named_buffers())
    for name, buffer in model.named_buffers():  # means and variances of batch norm
        if buffer.is_floating_point() and name in others:
            buffer.lerp_(others[name].to(buffer.dtype), share)
    return model


def check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, not {share!r}")
