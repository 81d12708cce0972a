"""The dtype in which losses are computed."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(*tensors: Tensor) -> list[Tensor]:
    """The tensors in one dtype: float32, or float64 if one of them is float64."""
    wide = torch.float32
    for tensor in tensors:
        wide = torch.promote_types(wide, tensor.dtype)
    return [tensor.to(wide) for tensor in tensors]
