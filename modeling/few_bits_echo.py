"""Reads weights that a release stores in few bits; they are unpacked at loading, into the dtype of
the other weights.

A matrix `name` (rows, columns) is stored as two tensors:

    name.int8    int8 (rows, columns), or (rows, columns, width) of a convolution
    name.int4    uint8 (rows, columns / 2): two values a byte, the even column in the low half, each plus 8
    name.scale   (rows, blocks): one scale for each block of columns / blocks values
"""

from __future__ import annotations

import torch
from safetensors import safe_open
from safetensors.torch import load_file

KINDS = (".int8", ".int4")


def read_few_bits(
    files: list[str] | None, dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor] | None:
    """All tensors of safetensors files, matrices in `dtype` or float32;
    None if no tensor is stored in few bits."""
    if (
        not files
        or not all(file.endswith(".safetensors") for file in files)
        or not any(map(_few_bits, files))
    ):
        return None
    tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
    for name in [name for name in tensors if name.endswith(KINDS)]:
        matrix = name.rpartition(".")[0]
        if (
            scale := tensors.pop(f"{matrix}.scale", None)
        ) is not None:  # otherwise the loader says that it lacks
            tensors[matrix] = unpack(tensors.pop(name), scale).to(dtype or torch.float32)
    return tensors


def _few_bits(file: str) -> bool:
    with safe_open(file, "pt") as opened:
        return any(name.endswith(KINDS) for name in opened.keys())


def unpack(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The float32 tensor (rows, columns, ...) of values, int8 or in pairs as uint8,
    and scales (rows, blocks)."""
    if values.dtype == torch.uint8:
        values = torch.stack([values & 15, values >> 4], dim=-1).flatten(1).to(torch.int8) - 8
    blocks = values.float().view(*scale.shape, -1)
    return blocks.mul_(scale.float()[..., None]).view(values.shape)
