"""Interpolate the weights of two checkpoints, or of static embeddings and the layers trained on them (WiSE-FT).

WiSE-FT (Wortsman et al., 2022, https://arxiv.org/abs/2109.01903) takes a point on the line between the weights before
and after finetuning. An encoder of `stage: contrastive` or `hard_negatives` with frozen token vectors is its static
embeddings plus what its layers add. After a few hundred steps much of that addition is noise, most of it for rare
words. Scaled down, it loses more noise than gain. The model is as fast as before.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ..modeling import EchoEncoder
from .rewrite import encoder_of, open_both, open_checkpoint, save_changed, scale_layers


def interpolate_layers(encoder: EchoEncoder, share: float) -> EchoEncoder:
    """Scale the outputs of every attention and MLP by `share`, in place: 0 is the static embeddings, 1 is unchanged.

    Raises:
        ValueError: share is not in 0..1, or the encoder has no layers.
    """
    check_share(share)
    if not len(encoder.layers):
        raise ValueError("this encoder is static embeddings: it has no layers to interpolate with")
    scale_layers(encoder, share)
    return encoder


@torch.no_grad()
def interpolate_weights(model: nn.Module, other: nn.Module, share: float) -> nn.Module:
    """Move every weight of `model` towards `other` by `share`, in place: 0 changes nothing, 1 is the other model.

    Raises:
        ValueError: share is not in 0..1, or the models differ in a weight's name or shape.
    """
    check_share(share)
    weights, others = dict(model.named_parameters()), dict(other.named_parameters())
    for name in sorted({*weights, *others}):
        shapes = [tuple(side[name].shape) if name in side else None for side in (weights, others)]
        if shapes[0] != shapes[1]:
            alone = "; operation average with part=encoder takes the encoders alone" if "decoder." in name else ""
            differ = f"the two models differ in {name}: {shapes[0] or 'none'} and {shapes[1] or 'none'}"
            raise ValueError(differ + alone)
    for name, weight in weights.items():
        weight.lerp_(others[name].to(weight.dtype), share)
    others = dict(other.named_buffers())
    for name, buffer in model.named_buffers():  # means and variances of batch norm
        if buffer.is_floating_point() and name in others:
            buffer.lerp_(others[name].to(buffer.dtype), share)
    return model


def check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, not {share}")


def interpolate_checkpoint(
    model: str | Path, out: str | Path, share: float = 0.5, *, start: str | Path | None = None
) -> Path:
    """Take a point between a checkpoint's start (share 0) and the checkpoint itself (share 1); save it in `out`.

    Args:
        model: folder of an encoder, a training checkpoint or a release; with `start`, of a speech encoder too.
        start: the checkpoint before finetuning, of the same shape. Without it, the start is the model without its
            layers: only their outputs are scaled (:func:`interpolate_layers`).
    """
    check_share(share)
    if start is None:
        opened = open_checkpoint(model)
        interpolate_layers(encoder_of(opened), share)
    else:
        opened, before = open_both(model, start)
        interpolate_weights(opened, before, 1 - share)
    parents = {"model": model} | ({"start": start} if start else {})
    return save_changed(opened, out, "interpolate", {"share": share}, parents=parents)
