"""What several losses check: one line that names the argument, in place of torch's own errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def check_finite_numbers(**numbers: Tensor | float) -> None:
    """Raises ValueError for a number, or a tensor of numbers, that is NaN or infinite."""
    for name, number in numbers.items():
        if isinstance(number, Tensor):
            finite = torch.compiler.is_compiling() or bool(number.isfinite().all())  # the check synchronises the device
        else:
            finite = math.isfinite(number)
        if not finite:
            raise ValueError(f"{name} must be finite, got {number}")


def shapes(*tensors: Tensor) -> str:
    """Shapes in words, for messages: "(2, 3) and (2, 4)"."""
    *first, last = (str(tuple(tensor.shape)) for tensor in tensors)
    return f"{', '.join(first)} and {last}" if first else last


def check_exclude(exclude: Tensor | None, shape: Sequence[int]) -> None:
    """Raises ValueError for a mask that is not bool of this shape."""
    if exclude is not None and (exclude.shape != tuple(shape) or exclude.dtype != torch.bool):
        raise ValueError(f"exclude must be bool of shape {tuple(shape)}, got {exclude.dtype} of {tuple(exclude.shape)}")


def widened(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one dtype: float32, or float64 if one of them is float64."""
    wide = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return [tensor.to(wide) for tensor in tensors]
