"""Layers that were trained briefly on top of a bag say less: what they add is scaled down.

With the token vectors frozen, an encoder of `stage: contrastive` or `hard_negatives` is its bag and what its layers
add. After some hundred steps much of that is the noise of the steps, more so for words that were rare in them. Scaled
down, the noise falls faster than the gain: a point on the line between two models, as in WiSE-FT (Wortsman et al.,
2022, https://arxiv.org/abs/2109.01903). Nothing is slower.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ..modeling import EchoEncoder
from .rewrite import rewrite_checkpoint


def damp_layers(encoder: EchoEncoder, share: float) -> EchoEncoder:
    """Scale the outputs of every attention and MLP by `share`, in place; 0 leaves the bag, 1 changes nothing.

    Raises:
        ValueError: share is not in 0..1, or the encoder has no layers.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is between 0 (the bag alone) and 1 (unchanged), not {share}")
    if not len(encoder.layers):
        raise ValueError("this encoder is a bag: it has no layers to damp")
    with torch.no_grad():
        for layer in encoder.layers:
            layer.self_attn.o_proj.weight.mul_(share)
            layer.mlp.down_proj.weight.mul_(share)
    return encoder


def damp_checkpoint(source: str | Path, out: str | Path, share: float) -> Path:
    """`damp_layers` on an encoder or a training checkpoint, saved with its tokenizer in another folder."""
    return rewrite_checkpoint(source, out, lambda encoder: damp_layers(encoder, share), "damp", share=share)
