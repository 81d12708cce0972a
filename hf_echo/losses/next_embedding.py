"""Next-embedding prediction: the warm-up of Spectrum's tower (Omnilingual SONAR 9.1).
The caller detaches targets."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .contrastive import contrastive_loss

Negatives = Literal["document", "batch", "both"]


def next_embedding_loss(  # noqa: PLR0913 (a batch and what other ranks hold of it)
    predicted: Tensor,
    target: Tensor,
    *,
    document: Tensor,
    all_target: Tensor | None = None,
    all_document: Tensor | None = None,
    key: Tensor | None = None,
    all_key: Tensor | None = None,
    offset: int = 0,
    logit_scale: float = 20.0,
    negatives: Negatives = "both",
) -> Tensor:
    """InfoNCE between predicted and true embeddings of the next sentence (Omnilingual SONAR 9.1).

        L = -1/n sum_i log( exp(tau cos(p_i, e_i)) / (exp(tau cos(p_i, e_i)) + sum_{j in N_i}
        exp(tau cos(p_i, e_j))) )

    N_i are the other sentences of the document (in-document negatives) and those of other documents
    (in-batch negatives). The paper uses both, and prints neither formula nor scale; tau is that of
    Eq. 15.

    Args:
        predicted: (n, d), row i is predicted from the sentences before sentence i.
        target: (n, d), embedding of sentence i.
        document: (n,) integers, equal for the sentences of one document.
        all_target, all_document, all_key: the same of all processes, (N, ...); row i is at `offset
            + i`.
        key: (n,) integers, equal for equal texts: these are not negatives of each other.
        logit_scale: tau.
        negatives: "document", "batch" (other documents only) or "both".

    Returns:
        Scalar; 0 without rows.

    Example:
        >>> import torch
        >>> target = torch.eye(3)
        >>> next_embedding_loss(target, target, document=torch.tensor([0, 0, 1]), logit_scale=1.0).item()
        0.5514...
    """
    # Without other processes, these rows are all rows.
    all_target = target if all_target is None else all_target
    all_document = document if all_document is None else all_document
    all_key = key if all_key is None else all_key

    exclude = torch.zeros(len(target), len(all_target), dtype=torch.bool, device=target.device)
    same_document = document[:, None] == all_document
    if negatives == "document":
        exclude |= ~same_document
    elif negatives == "batch":
        exclude |= same_document
    if key is not None:
        exclude |= key[:, None] == all_key
    return contrastive_loss(
        predicted, all_target, logit_scale=logit_scale, margin=0.0, exclude=exclude, offset=offset
    )
