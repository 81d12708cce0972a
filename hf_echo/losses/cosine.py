"""Cosine distance between the embeddings of translations."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cosine_similarity

from .dtypes import widened


def cosine_loss(source: Tensor, target: Tensor) -> Tensor:
    """Mean over the batch of `1 - cos(source_i, target_i)` (LASER3; Modular Sentence Encoders 3.2).

    `CosineSimilarityLoss` of sentence-transformers is another loss: the square of `cos - 1`.
    Computed in float32 or wider.

    Args:
        source, target: (n, d).

    Returns:
        Scalar between 0 and 2; 0 without rows.

    Example:
        >>> import torch
        >>> cosine_loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [1.0, 0.0]])).item()
        0.5
    """
    cosines = cosine_similarity(*widened(source, target))
    return (1 - cosines).sum() / max(len(source), 1)
