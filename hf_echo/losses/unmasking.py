"""Cross-unmasking loss: masked tokens of one language, predicted with the sentence vector of the
other."""

from __future__ import annotations

import torch
from torch import Tensor

from .translation import translation_loss


def unmasking_loss(states: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the masked tokens, one direction of L_mlm (MEXMA section 3, "The
    cross-unmasking").

    L_mlm = CE([S_B, A'], A) + CE([S_A, B'], B). A' are the states of the masked sentence A without
    its CLS (printed with a hat in the formula and without in section 5.1, which means the same),
    S_B the clean CLS of its translation, and [.., ..] the sequence that the unmasking head reads.
    The head's output is `states`. Each CE is a mean over masked tokens here; the paper's beta = 1/2
    weighs the sum of both, which is 1 on their mean.

    Equals `F.cross_entropy(states @ weight.T + bias, labels)` with value and gradients, without the
    logits of all tokens in memory (`translation_loss`): the bias is one more column of the matrix.

    Args:
        states: (batch, seq, h) or (tokens, h), the head's output.
        weight: (vocabulary, h), the token embeddings of the encoder (tied).
        bias: (vocabulary,).
        labels: (batch, seq) or (tokens,), the original token where one was masked, -100 elsewhere.

    Returns:
        Scalar, the mean over masked tokens; 0 with zero gradients if none is masked.

    Example:
        >>> import torch
        >>> states, bias = torch.zeros(1, 2, 8), torch.tensor([0.0, 0.0, 0.0, 0.0])
        >>> unmasking_loss(states, torch.randn(4, 8), bias, torch.tensor([[3, -100]])).item()  # log 4
        1.38629...
    """
    matrix = torch.cat([weight, bias[:, None].to(weight.dtype)], 1)
    ones = states.new_ones(*states.shape[:-1], 1)
    states = torch.cat([states, ones], -1)
    return translation_loss(states, matrix, labels)
