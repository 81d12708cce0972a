"""What several losses check: one line that names the argument, in place of torch's own errors."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def check_finite_numbers(**numbers: Tensor | float) -> None:
    """Raises ValueError for a number, or a tensor of numbers, that is NaN or infinite."""
    for name, number in numbers.items():
        if not isinstance(number, Tensor):
            finite = math.isfinite(number)
        elif torch.compiler.is_compiling():
            finite = True  # the check would synchronise the device
        else:
            finite = bool(number.isfinite().all())
        if not finite:
            raise ValueError(f"{name} must be finite, got {number}")


def shapes(*tensors: Tensor) -> str:
    """Shapes in words, for messages: "(2, 3) and (2, 4)"."""
    return " and ".join(str(tuple(tensor.shape)) for tensor in tensors)


def widened(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one dtype: float32, or float64 if one of them is float64."""
    wide = torch.float32
    for tensor in tensors:
        wide = torch.promote_types(wide, tensor.dtype)
    return [tensor.to(wide) for tensor in tensors]
