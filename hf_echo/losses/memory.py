"""Cross-batch memory: embeddings of earlier batches as further negatives (https://arxiv.org/abs/1912.06798).

A machine that can hold a hundred pairs at a time still sees thousands of negatives. What is remembered has no gradient,
and is as old as the steps since; at the small rates of finetuning an embedding moves little in that time.
"""

from __future__ import annotations

import torch
from torch import Tensor


class CrossBatchMemory:
    """The last `size` rows of what every batch brings.

    Example:
        >>> import torch
        >>> memory = CrossBatchMemory(2)
        >>> memory.join(target=torch.tensor([[1.0], [2.0], [3.0]]))["target"].tolist()  # nothing remembered yet
        [[1.0], [2.0], [3.0]]
        >>> memory.join(target=torch.tensor([[4.0]]))["target"].tolist()
        [[4.0], [2.0], [3.0]]
    """

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size, self.rows = size, {}

    def join(self, **rows: Tensor) -> dict[str, Tensor]:
        """Each tensor of the batch, (n, ...), and behind it what is remembered of the same name; then remembers it."""
        joined = {
            name: torch.cat([new, self.rows[name].to(new)]) if name in self.rows else new
            for name, new in rows.items()
        }
        self.rows = {
            name: torch.cat([self.rows[name], new.detach()])[-self.size :]
            if name in self.rows
            else new.detach()[-self.size :]
            for name, new in rows.items()
        }
        return joined
