"""Sampled token cross-entropy, for small decoders in which the softmax over the vocabulary
dominates the time.

The sum over the vocabulary is estimated from the batch's target tokens, each counted once, and a
uniform sample of the other tokens, each weighted by (number of others / sample size) (importance
sampling, Bengio and Senecal 2008). The estimate of the sum is unbiased; the loss, its logarithm, is
biased slightly downwards.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .translation import IGNORED, Reduction, divisor_of, translation_loss


def sampled_translation_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    samples: int = 4096,
    reduction: Reduction = "mean",
) -> Tensor:
    """`translation_loss` with a softmax over the targets of the batch and `samples` random other
    tokens.

    Args:
        hidden, weight, labels: as in `translation_loss`.
        samples: tokens drawn without replacement from those that are not targets in this batch
            (torch's default generator). With at least as many as there are, the loss equals
            `translation_loss`.
        reduction: as in `translation_loss`: OS 4.3 prints the "sum" over a sentence, the recipes'
            weights belong to the "mean" over tokens.

    Returns:
        Scalar, as in `translation_loss`.

    Example:
        >>> import torch
        >>> hidden, weight, labels = torch.zeros(3, 8), torch.randn(10, 8), torch.tensor([1, 2, -100])
        >>> sampled_translation_loss(hidden, weight, labels, samples=3).item()  # 2 targets + 3 that stand for 8
        2.30258...
    """
    kept = labels != IGNORED
    targets = labels[kept].unique()
    if len(targets) + samples >= len(weight):
        return translation_loss(hidden, weight, labels, reduction=reduction)

    vocabulary = torch.arange(len(weight), device=weight.device)
    others = vocabulary[torch.isin(vocabulary, targets, invert=True)]
    drawn = others[torch.randperm(len(others), device=others.device)[:samples]]

    # A drawn token stands for several: a bias on its logit, as one more dimension whose input is 1.
    tokens = torch.cat([targets, drawn])
    bias = weight.new_zeros(len(tokens), 1)
    bias[len(targets) :] = math.log(len(others) / samples)
    matrix = torch.cat([weight[tokens], bias], dim=1)
    rows = hidden[kept]  # (kept tokens, h): the sentences are counted in `kept`
    rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)

    # `targets` are sorted, so that a label's place is its rank among them.
    places = torch.searchsorted(targets, labels[kept])
    token_mean = translation_loss(rows, matrix, places)
    return token_mean * (divisor_of(kept, "mean") / divisor_of(kept, reduction))
