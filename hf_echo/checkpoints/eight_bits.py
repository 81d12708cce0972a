"""Store token vectors in 8 bits (float8_e4m3fn): a quarter of float32, and they load in the dtype of the other weights.

An 8-bit float has 3 bits of mantissa: the error of a value is at most 1/16 of it. Values below 2**-6 have a larger
error, so an encoder's token vectors are scaled up first. The scale is a power of two and taken back by the projection:
embeddings stay the same but for rounding.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..modeling import EchoEncoder
from .rewrite import scale_layers

RMS = 4.0  # of scaled vectors; the largest value of the format is 448
FORMAT = torch.float8_e4m3fn


@torch.no_grad()
def scale_tokens(encoder: EchoEncoder) -> float:
    """Scale token vectors, and what the layers add to them, by a power of two so that their RMS is 2 to 4, in place.

    Returns:
        The scale. Sentence embeddings do not change: the projection, or the final norm, takes the scale back.
    """
    vectors = encoder.backbone.embed_tokens.weight
    scale = 2.0 ** math.floor(math.log2(RMS / float(vectors.float().square().mean().sqrt())))
    vectors.mul_(scale)
    scale_layers(encoder, scale)
    if not encoder.config.final_norm:
        encoder.projection.weight.div_(scale)
    return scale


def store_tokens(folder: str | Path) -> None:
    """Rewrite the token vectors of every model.safetensors below a folder in 8 bits.

    Raises:
        ValueError: a value is too large for the format; scale the vectors first.
    """
    for file in sorted(Path(folder).rglob("model.safetensors")):
        tensors = load_file(file)
        for name in [name for name in tensors if name.endswith("embed_tokens.weight")]:
            largest = float(tensors[name].float().abs().max())
            if not largest <= torch.finfo(FORMAT).max:
                raise ValueError(f"{file}: {name} holds {largest:g}, and 8 bits end at {torch.finfo(FORMAT).max:g}")
            tensors[name] = tensors[name].to(FORMAT)
        save_file(tensors, file, metadata={"format": "pt"})
