"""Ranking contrastive loss: keys of a better semantic rank are closer to the query than keys of
worse ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .contrastive import cosine


def ranking_contrastive_loss(
    query: Tensor,
    keys: Tensor,
    ranks: Tensor,
    *,
    temperatures: Sequence[float],
    exclude: Tensor | None = None,
) -> dict[str, Tensor]:
    """Ranking InfoNCE over semantic ranks (EMMA-X appendix Eq. 5, which expands Eq. 7 of the
    paper).

    For each rank r below the worst one, with s the cosine and tau_r the r-th temperature:

        l_r = - mean over queries i of  log( sum over k of rank r      exp(s_ik / tau_r)
                                           / sum over k of rank >= r   exp(s_ik / tau_r) )

    The positives of a query are SUMMED inside the logarithm, as printed. (The authors' code takes
    their mean, which adds log of their number to the loss.) Better ranks than r do not take part in
    l_r. The total is the sum of parts.

    A query without a key of rank r has no term in l_r: the mean is over the queries that have one,
    and 0 if none has. Computed in float32 (float64 for float64 inputs), also under autocast.

    Args:
        query: (n, d), of any length.
        keys: (m, d). Detach them if they come from a momentum encoder.
        ranks: (n, m) integers, 1 = translation ... R = unrelated, with R at most len(temperatures)
            + 1.
        temperatures: tau_1 < tau_2 < ..., one for each rank but the worst.
        exclude: (n, m) bool, True = this key does not exist for this query, for example its own
            momentum copy.

    Returns:
        {"rank_1": l_1, "rank_2": l_2, ...}, one scalar per temperature.

    Example:
        >>> import torch
        >>> query, keys = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> parts = ranking_contrastive_loss(query, keys, torch.tensor([[1, 2]]), temperatures=[1.0])
        >>> round(parts["rank_1"].item(), 5)  # log(1 + e^-1)
        0.31326
    """
    similarity = cosine(query, keys)  # (n, m)
    if exclude is not None:
        # better than every rank: neither positive nor candidate
        ranks = ranks.masked_fill(exclude, 0)
    parts = {}
    for rank, temperature in enumerate(temperatures, 1):
        positive = ranks == rank
        candidate = ranks >= rank
        # Only queries with a key of this rank, since the logarithm of an empty sum is no number.
        rows = positive.any(1)
        logits = similarity[rows] / temperature
        positive_logits = logits.masked_fill(~positive[rows], -torch.inf)
        candidate_logits = logits.masked_fill(~candidate[rows], -torch.inf)
        losses = candidate_logits.logsumexp(1) - positive_logits.logsumexp(1)
        parts[f"rank_{rank}"] = losses.sum() / max(len(losses), 1)
    return parts
