"""Store token vectors in 8 bits (float8_e4m3fn): a quarter of float32, and they load in the dtype of the other weights.

An 8-bit float has 3 bits of mantissa: the error of a value is at most 1/16 of it. Values below 2**-6 have a larger
error, so an encoder's token vectors are scaled up first. The scale is a power of two and taken back by what reads them:
embeddings stay the same but for rounding.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..modeling import EchoEncoder
from .pruning.layout import layout_of

RMS = 4.0  # of scaled vectors; the largest value of the format is 448
FORMAT = torch.float8_e4m3fn
TOKEN_VECTORS = ("embed_tokens.weight", "word_embeddings.weight")


@torch.no_grad()
def scale_tokens(encoder: EchoEncoder) -> float:
    """Scale token vectors by a power of two so that their RMS is 2 to 4, in place, and take it back where it is read.

    Of a Llama shape, what the layers add is scaled too, and the last norm or the projection takes the scale back; of a
    BERT shape, the norm behind the vectors of tokens, positions and types does.

    Returns:
        The scale. Sentence embeddings do not change.

    Raises:
        ValueError: a backbone of another shape.
    """
    if (layout := layout_of(encoder)) is None:
        kind = encoder.config.backbone.model_type
        raise ValueError(
            f"token_dtype: the token vectors of a backbone of type {kind!r} cannot be scaled: leave it out"
        )
    vectors = encoder.get_input_embeddings().weight
    scale = 2.0 ** math.floor(math.log2(RMS / float(vectors.float().square().mean().sqrt())))
    for module in layout.embeddings:
        module.weight.mul_(scale)
    if not layout.layers[0].attention.rotary:
        return scale
    for layer in layout.layers:
        for linear in (layer.attention.output, layer.leave):
            for parameter in linear.parameters():  # a bias is added to the states too
                parameter.mul_(scale)
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
        for name in [name for name in tensors if name.endswith(TOKEN_VECTORS)]:
            largest = float(tensors[name].float().abs().max())
            if not largest <= torch.finfo(FORMAT).max:
                raise ValueError(f"{file}: {name} holds {largest:g}, and 8 bits end at {torch.finfo(FORMAT).max:g}")
            tensors[name] = tensors[name].to(FORMAT)
        save_file(tensors, file, metadata={"format": "pt"})
