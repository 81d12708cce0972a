"""Store matrices in 8 or 4 bits, convolutions in 8: integers and a scale per row or 32 values
(`modeling/few_bits_echo.py`).

The scale of a block is the one of the smallest squared error among those that map its largest value
to the range's end.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

TOKEN_VECTORS = ("embed_tokens.weight", "word_embeddings.weight")
BITS = {"int8": 8, "int4": 4}
BLOCK = 32  # values that share a scale in 4 bits; in 8 bits a row does
# of the scale that maps the largest value to the end of the range
STRETCH = torch.linspace(0.8, 1.12, 17)
ROWS = 4096  # at a time, for memory


def store_few_bits(folder: str | Path, matrices: str | None, tokens: str | None) -> None:
    """Rewrite the matrices, and the token vectors, of every model.safetensors below a folder as
    "int8" or "int4"."""
    for file in sorted(Path(folder).rglob("model.safetensors")):
        stored: dict[str, torch.Tensor] = {}
        for name, tensor in load_file(file).items():
            dtype = tokens if name.endswith(TOKEN_VECTORS) else matrices
            stored |= _stored(name, tensor, dtype)
        save_file(stored, file, metadata={"format": "pt"})


def _stored(name: str, tensor: torch.Tensor, dtype: str | None) -> dict[str, torch.Tensor]:
    """What stands in the file for a tensor: itself, or its integers and scales."""
    is_convolution = tensor.ndim == 3 and name.endswith(".weight")
    if dtype is None or not (tensor.ndim == 2 or is_convolution):
        return {name: tensor}
    if is_convolution or tensor.shape[1] % 2:  # two columns share a byte in 4 bits
        dtype = "int8"
    integers, scales = pack(tensor.flatten(1), BITS[dtype])
    if is_convolution:
        integers = integers.view(tensor.shape)
    return {f"{name}.{dtype}": integers, f"{name}.scale": scales}


def pack(matrix: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, columns) -> integers as they are stored, and scales
    (rows, blocks) in float16 (4 bits) or float32."""
    block = matrix.shape[1]
    if bits == 4 and block % BLOCK == 0:
        block = BLOCK
    integer_parts = []
    scale_parts = []
    for part in matrix.split(ROWS):
        integers, scales = _rounded(part.float().unflatten(1, (-1, block)), bits)
        integer_parts.append(integers)
        scale_parts.append(scales)
    integers = torch.cat(integer_parts)
    scales = torch.cat(scale_parts)
    if bits == 8:
        return integers, scales
    # Two columns share a byte; -8..7 is stored as 0..15.
    low, high = (integers.view(torch.uint8) + 8).unflatten(1, (-1, 2)).unbind(-1)
    return low | high << 4, scales


def _rounded(blocks: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, blocks, size) -> int8 (rows, blocks * size) and scales (rows, blocks)."""
    end = 2 ** (bits - 1)  # integers are -end to end - 1
    dtype = torch.float16 if bits == 4 else torch.float32  # of the stored scales
    # (rows, blocks, 1), with its sign
    largest = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    best_scale = torch.zeros_like(largest)
    best_error = torch.full_like(largest, torch.inf)
    for stretch in STRETCH:
        scale = largest / -end * stretch  # the range ends at -8, or 7: the largest value goes to -8
        scale = scale.to(dtype).float()
        rounded = _steps(blocks, scale, end) * scale
        error = (rounded - blocks).square().sum(2, keepdim=True)
        best_scale = torch.where(error < best_error, scale, best_scale)
        best_error = torch.minimum(error, best_error)
    integers = _steps(blocks, best_scale, end).to(torch.int8)
    return integers.flatten(1), best_scale[..., 0].to(dtype)


def _steps(blocks: torch.Tensor, scale: torch.Tensor, end: int) -> torch.Tensor:
    """The integers of values at a scale, from -end to end - 1."""
    # a block of zeros has the scale 0
    divisor = torch.where(scale == 0, 1.0, scale)
    return (blocks / divisor).round().clamp(-end, end - 1)
