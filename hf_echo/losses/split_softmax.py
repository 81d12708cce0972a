"""Contrastive losses with hard negatives: the split softmax, and the single softmax of the papers'
ablation.

Hard negatives are near copies of the translation. Each source uses only its own, so they are never
gathered over processes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .contrastive import _dropped, _softmax_loss, contrastive_loss, cosine
from .dtypes import widened


def split_softmax_loss(
    source: Tensor,
    target: Tensor,
    hard_negatives: Tensor,
    hard_negative_mask: Tensor,
    *,
    gamma: float = 0.8,
    **options: Any,
) -> Tensor:
    """Split-softmax contrastive loss (Omnilingual SONAR Eq. 5, ECHO Eq. 4, there without the
    logarithm).

    `(1 - gamma) * contrastive + gamma * hard`. The first term is `contrastive_loss` over the batch,
    with margin and guide. The second is the mean negative log softmax of the translation against
    this source's hard negatives, without guide and without margin
    (with a margin, training does not converge: text of OS Table 12).

    Args:
        source, target: (n, d) and (N, d), as in `contrastive_loss`.
        hard_negatives: (n, K, d); those of row i belong to `source[i]`. K may be 0.
        hard_negative_mask: (n, K), True = a hard negative; the content of other slots is ignored.
        gamma: weight of the hard term, from 0 to 1.
        options: `logit_scale`, `margin`, `margin_space`, `guide_source`, `guide_target`, `radius`,
            `exclude` and `offset` of `contrastive_loss`, with its defaults.

    Returns:
        Scalar. A row without hard negatives has a hard term of log 1 = 0 and still counts in the
        mean.

    Example:
        >>> import torch
        >>> x, negatives = torch.eye(2), torch.eye(2).flip(0).unsqueeze(1)
        >>> mask = torch.tensor([[True], [False]])
        >>> split_softmax_loss(x, x, negatives, mask, gamma=1.0, logit_scale=1.0).item()  # log(1 + e^-1) / 2
        0.15663...
    """
    return split_softmax_parts(
        source, target, hard_negatives, hard_negative_mask, gamma=gamma, **options
    )["total"]


def split_softmax_parts(
    source: Tensor,
    target: Tensor,
    hard_negatives: Tensor,
    hard_negative_mask: Tensor,
    *,
    gamma: float = 0.8,
    logit_scale: float = 100.0,
    offset: int = 0,
    **options: Any,
) -> dict[str, Tensor]:
    """`split_softmax_loss` with its named terms, for logging.

    Returns:
        "contrastive" and "hard_negatives", both unweighted, and "total", the loss.

    Example:
        >>> import torch
        >>> x = torch.eye(2)
        >>> sorted(split_softmax_parts(x, x, torch.zeros(2, 0, 2), torch.zeros(2, 0, dtype=torch.bool)))
        ['contrastive', 'hard_negatives', 'total']
    """
    contrastive = contrastive_loss(
        source, target, logit_scale=logit_scale, offset=offset, **options
    )
    translations = target[offset : offset + len(source)]
    hard = hard_negatives_loss(
        source, translations, hard_negatives, hard_negative_mask, logit_scale=logit_scale
    )
    total = (1 - gamma) * contrastive + gamma * hard
    return {"contrastive": contrastive, "hard_negatives": hard, "total": total}


def hard_negatives_loss(
    source: Tensor,
    target: Tensor,
    hard_negatives: Tensor,
    hard_negative_mask: Tensor,
    *,
    logit_scale: Tensor | float = 100.0,
) -> Tensor:
    """The hard term of `split_softmax_loss` alone, without a softmax over the batch
    (OS Eq. 5, ECHO Eq. 4).

    Args:
        source, target: (n, d); row i of `target` translates row i of `source`.
        hard_negatives, hard_negative_mask, logit_scale: as in `split_softmax_loss`; a `logit_scale`
            of (n, 1) has one number a row.

    Returns:
        Scalar, the mean over the n rows.

    Example:
        >>> import torch
        >>> x, negatives = torch.eye(2), torch.eye(2).flip(0).unsqueeze(1)
        >>> mask = torch.tensor([[True], [False]])
        >>> hard_negatives_loss(x, x, negatives, mask, logit_scale=1.0).item()  # log(1 + e^-1) / 2
        0.15663...
    """
    mask = hard_negative_mask.bool()
    positive = _row_cosine(source, target.unsqueeze(1))  # (n, 1)
    negatives = _row_cosine(source, _blank(hard_negatives, mask))  # (n, K)
    negatives = negatives.masked_fill(~mask, -math.inf)
    logits = logit_scale * torch.cat([positive, negatives], dim=1)
    log_probability = logits.log_softmax(1)[:, 0]
    return -log_probability.sum() / max(len(source), 1)


def one_softmax_loss(  # noqa: PLR0913 (the symbols of OS Eq. 5)
    source: Tensor,
    target: Tensor,
    hard_negatives: Tensor,
    hard_negative_mask: Tensor,
    *,
    logit_scale: float = 100.0,
    guide_source: Tensor | None = None,
    guide_target: Tensor | None = None,
    radius: float = 0.5,
    exclude: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """Contrastive loss with in-batch and hard negatives in one softmax, without margin
    (OS Table 12b, "one softmax").

    In-batch negatives are filtered by the guide. In the paper, this ablation beats training without
    hard negatives on xsim++ and is worse on xsim; `split_softmax_loss` is the paper's recipe. The
    paper does not say whether a source also uses other sources' hard negatives; here it does not.
    Arguments and result as in `split_softmax_loss`.

    Example:
        >>> import torch
        >>> x, negatives = torch.eye(2), -torch.eye(2).unsqueeze(1)
        >>> one_softmax_loss(x, x, negatives, torch.ones(2, 1), logit_scale=1.0).item()  # log(1+1/e+1/e^2)
        0.40760...
    """
    mask = hard_negative_mask.bool()
    dropped = _dropped(source, target, guide_source, guide_target, radius, exclude, offset)
    # The hard negatives are K more columns: (n, N + K).
    dropped = torch.cat([dropped, ~mask], dim=1)
    in_batch = cosine(source, target)
    hard = _row_cosine(source, _blank(hard_negatives, mask))
    logits = logit_scale * torch.cat([in_batch, hard], dim=1)
    return _softmax_loss(logits, dropped, 0.0, offset)


def _row_cosine(source: Tensor, candidates: Tensor) -> Tensor:
    """Cosines of each row with its candidates, (n, d) and (n, K, d) -> (n, K),
    in float32 or wider."""
    with torch.autocast(source.device.type, enabled=False):
        source, candidates = widened(source, candidates)
        unit_source = F.normalize(source, dim=-1)
        unit_candidates = F.normalize(candidates, dim=-1)
        return (unit_candidates @ unit_source.unsqueeze(2)).squeeze(2)


def _blank(hard_negatives: Tensor, mask: Tensor) -> Tensor:
    """Set unused slots to zero: an infinity there would make every gradient NaN, even if masked."""
    return hard_negatives.masked_fill(~mask.unsqueeze(2), 0.0)
