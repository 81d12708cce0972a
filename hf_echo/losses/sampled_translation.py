"""Sampled token cross-entropy, for small decoders in which the softmax over the vocabulary dominates the time.

The sum over the vocabulary is estimated from the batch's target tokens, each counted once, and a uniform sample of the
other tokens, each weighted by (number of others / sample size) (importance sampling, Bengio and Senecal 2008). The
estimate of the sum is unbiased; the loss, its logarithm, is biased slightly downwards.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .translation import Reduction, divisor_of, translation_loss


def sampled_translation_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    samples: int = 4096,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """`translation_loss` with a softmax over the targets of the batch and `samples` random other tokens.

    Args:
        hidden, weight, labels: as in `translation_loss`.
        samples: tokens drawn without replacement from those that are not targets in this batch (torch's default
            generator). With at least as many as there are, the loss equals `translation_loss`.
        reduction: as in `translation_loss`: OS 4.3 prints the "sum" over a sentence, the recipes' weights belong to
            the "mean" over tokens.

    Returns:
        Scalar, as in `translation_loss`.

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
        return translation_loss(hidden, weight, labels, reduction=reduction, ignore_index=ignore_index)
    others = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    others[targets] = False
    others = others.nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=others.device)[:samples]]
    tokens = torch.cat([targets, drawn])
    places = torch.full((len(weight),), -1, dtype=torch.long, device=weight.device)
    places[tokens] = torch.arange(len(tokens), device=weight.device)
    kept = labels != ignore_index
    # A token's weight is a bias on its logit: one more dimension, whose input is 1.
    bias = torch.zeros(len(tokens), 1, dtype=weight.dtype, device=weight.device)
    bias[len(targets) :] = math.log(len(others) / samples)
    rows = hidden[kept]
    rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
    # Here the tokens of all sentences stand in one row: the sentences are counted in the labels.
    token_mean = translation_loss(rows, torch.cat([weight[tokens], bias], dim=1), places[labels[kept]])
    return token_mean * (divisor_of(kept, "mean") / divisor_of(kept, reduction))
