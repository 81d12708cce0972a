"""Store matrices in 8 or 4 bits, convolutions in 8: integers and a scale per row or 32 values
(`modeling/few_bits_echo.py`).

The scale of a block is the one of the smallest squared error among those that map its largest value to the range's end.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

TOKEN_VECTORS = ("embed_tokens.weight", "word_embeddings.weight")
BITS = {"int8": 8, "int4": 4}
BLOCK = 32  # values that share a scale in 4 bits; in 8 bits a row does
STRETCH = torch.linspace(0.8, 1.12, 17)  # of the scale that maps the largest value to the end of the range
ROWS = 4096  # at a time, for memory


def store_few_bits(folder: str | Path, matrices: str | None, tokens: str | None) -> None:
    """Rewrite the matrices, and the token vectors, of every model.safetensors below a folder as "int8" or "int4"."""
    for file in sorted(Path(folder).rglob("model.safetensors")):
        stored = {}
        for name, tensor in load_file(file).items():
            kind = tokens if name.endswith(TOKEN_VECTORS) else matrices
            convolution = tensor.ndim == 3 and name.endswith(".weight")
            if kind is None or not (tensor.ndim == 2 or convolution):
                stored[name] = tensor
                continue
            kind = "int8" if convolution or tensor.shape[1] % 2 else kind  # two columns share a byte
            values, stored[f"{name}.scale"] = pack(tensor.flatten(1), BITS[kind])
            stored[f"{name}.{kind}"] = values.view(tensor.shape) if convolution else values
        save_file(stored, file, metadata={"format": "pt"})


def pack(matrix: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, columns) -> integers as they are stored, and scales (rows, blocks) in float16 (4 bits) or float32."""
    size = BLOCK if bits == 4 and matrix.shape[1] % BLOCK == 0 else matrix.shape[1]
    parts = [_rounded(part.float().unflatten(1, (-1, size)), bits) for part in matrix.split(ROWS)]
    values, scale = (torch.cat(list(part)) for part in zip(*parts, strict=True))
    if bits == 8:
        return values, scale
    low, high = (values.view(torch.uint8) + 8).unflatten(1, (-1, 2)).unbind(-1)
    return low | high << 4, scale


def _rounded(blocks: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, blocks, size) -> int8 (rows, blocks * size) and scales (rows, blocks)."""
    end = 2 ** (bits - 1)
    largest = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    best, error = torch.zeros_like(largest), torch.full_like(largest, torch.inf)
    for stretch in STRETCH:
        scale = largest / -end * stretch  # the range ends at -8, or 7: the largest value goes to -8
        scale = scale.half().float() if bits == 4 else scale  # as it is stored
        now = (_steps(blocks, scale, end) * scale - blocks).square().sum(2, keepdim=True)
        best, error = torch.where(now < error, scale, best), torch.minimum(now, error)
    values = _steps(blocks, best, end).to(torch.int8).flatten(1)
    return values, best[..., 0].half() if bits == 4 else best[..., 0]


def _steps(blocks: torch.Tensor, scale: torch.Tensor, end: int) -> torch.Tensor:
    return (blocks / torch.where(scale == 0, 1.0, scale)).round().clamp(-end, end - 1)
