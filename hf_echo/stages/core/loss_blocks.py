"""A loss of many rows against all rows of a batch, block by block: memory for one block of cosines,
not for all.

32,768 pairs have 4 GiB of cosines in float32, and a loss holds several such matrices for its
backward pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

BLOCK = 2048  # rows
COSINES = 2**28  # of a block: 1 GiB in float32


def loss_by_blocks(
    loss_of_rows: Callable[[slice], dict[str, torch.Tensor]], rows: int, columns: int = 1
) -> dict[str, torch.Tensor]:
    """Named means over `rows` rows, from a function that gives those of a slice of them.

    With more than one block, the backward pass computes each block again. Where each row is
    compared with very many `columns`, as of all processes of a large run, blocks are smaller.
    """
    block = min(BLOCK, max(COSINES // max(columns, 1), 1))
    if rows <= block:
        return loss_of_rows(slice(0, rows))
    totals: dict[str, torch.Tensor] = {}
    for start in range(0, rows, block):
        part = slice(start, min(start + block, rows))
        losses = checkpoint(loss_of_rows, part, use_reentrant=False)
        for name, loss in losses.items():
            weighted = loss * ((part.stop - part.start) / rows)
            totals[name] = totals[name] + weighted if name in totals else weighted
    return totals
