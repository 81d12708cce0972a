"""Token cross-entropy over a sample of the vocabulary: where the softmax is most of a small decoder's work.

The sum over the vocabulary is estimated from the batch's own target tokens, each counted once, and a uniform sample of
the rest, each standing for as many as were left out (importance sampling, Bengio and Senecal 2008). Its expectation is
the whole sum; the loss, its logarithm, comes out a little low.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .translation import translation_loss


def sampled_translation_loss(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, samples: int = 4096, ignore_index: int = -100
) -> Tensor:
    """`translation_loss` with the softmax over the targets of the batch and `samples` other tokens.

    Args:
        hidden, weight, labels: as in `translation_loss`.
        samples: tokens drawn, without replacement, from those that are no target in this batch (torch's default
            generator). With as many as there are, the loss is `translation_loss`.

    Raises:
        ValueError: as `translation_loss`; samples < 1.

    Example:
        >>> import torch
        >>> hidden, weight, labels = torch.zeros(3, 8), torch.randn(10, 8), torch.tensor([1, 2, -100])
        >>> sampled_translation_loss(hidden, weight, labels, samples=3).item()  # 2 targets + 3 that stand for 8
        2.30258...
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    targets = labels[labels != ignore_index].unique()
    if len(targets) and (targets[0] < 0 or targets[-1] >= len(weight)) or len(targets) + samples >= len(weight):
        return translation_loss(hidden, weight, labels, ignore_index=ignore_index)
    others = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    others[targets] = False
    others = others.nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=others.device)[:samples]]
    tokens = torch.cat([targets, drawn])
    places = torch.full((len(weight),), -1, dtype=torch.long, device=weight.device)
    places[tokens] = torch.arange(len(tokens), device=weight.device)
    kept = labels != ignore_index
    # What a token stands for is a bias on its logit: one more dimension, whose input is 1.
    bias = torch.zeros(len(tokens), 1, dtype=weight.dtype, device=weight.device)
    bias[len(targets) :] = math.log(len(others) / samples)
    rows = hidden[kept]
    rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
    return translation_loss(rows, torch.cat([weight[tokens], bias], dim=1), places[labels[kept]])
