"""Gaussian mixture over the difference of two embeddings: which semantic rank a pair of sentences has (EMMA-X)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import shapes


def gmm_log_posterior(query: Tensor, keys: Tensor, mean: Tensor, log_sigma: Tensor, weight_logits: Tensor) -> Tensor:
    """log P(rank | query, key) of a mixture of diagonal Gaussians (EMMA-X appendix Eq. 4, Eq. 5 of the paper).

        P(r | x, y) = pi_r N_r(x - y) / sum_j pi_j N_j(x - y)
        log N_r(z)  = -d/2 log(2 pi) - sum_k log sigma_rk - 1/2 sum_k ((z_k - mu_rk) / sigma_rk)^2

    Eq. 4 prints pi_r inside N_r as well; it is counted once here. sigma is a standard deviation, as Eq. 4 uses it
    (|diag(sigma)| and sigma^-2); appendix A.2 calls it a variance.

    The squares are expanded into matrix products, so nothing of size n * m * d is kept. Computed in float32 (float64
    for float64 inputs), also under autocast.

    Args:
        query: (n, d). keys: (m, d). The caller detaches them.
        mean, log_sigma: (R, d).
        weight_logits: (R,), softmax gives pi.

    Returns:
        (n, m, R); exp sums to 1 over the last dimension. Rank 1 is at index 0.

    Raises:
        ValueError: shapes that do not fit.

    Example:
        >>> import torch
        >>> mean, log_sigma = torch.tensor([[0.0], [1.0]]), torch.zeros(2, 1)
        >>> gmm_log_posterior(torch.ones(1, 1), torch.ones(1, 1), mean, log_sigma, torch.zeros(2)).exp()
        tensor([[[0.6225, 0.3775]]])
    """
    ranks, d = mean.shape if mean.ndim == 2 else (-1, -1)
    if log_sigma.shape != mean.shape or weight_logits.shape != (ranks,):
        given = shapes(mean, log_sigma, weight_logits)
        raise ValueError(f"mean and log_sigma must be (ranks, d) and weight_logits (ranks,), got {given}")
    if query.ndim != 2 or keys.ndim != 2 or query.shape[1] != d or keys.shape[1] != d:
        raise ValueError(f"query and keys must be (n, {d}) and (m, {d}), got {shapes(query, keys)}")
    with torch.autocast(query.device.type, enabled=False):
        wide = torch.promote_types(torch.promote_types(query.dtype, mean.dtype), torch.float32)
        x, y, mu, log_sigma = (t.to(wide) for t in (query, keys, mean, log_sigma))
        scores = []
        for r in range(ranks):  # (x - y - mu) / sigma, expanded around x - mu
            scale = (-log_sigma[r]).exp()
            left, right = (x - mu[r]) * scale, y * scale
            squares = left.square().sum(1)[:, None] + right.square().sum(1)[None] - 2 * left @ right.T
            scores.append(-squares.clamp(min=0) / 2 - log_sigma[r].sum() - d / 2 * math.log(2 * math.pi))
        return (torch.stack(scores, -1) + weight_logits.to(wide).log_softmax(0)).log_softmax(-1)


def gmm_loss(log_posterior: Tensor, ranks: Tensor, *, smoothing: float = 0.3) -> Tensor:
    """Train the mixture on the encoder's ranks (EMMA-X, the E-step; Eq. 6 of the paper lacks the minus sign).

    Mean over pairs of `-sum_r q_r log P(r | x, y)` with q = 1 - smoothing for the given rank and smoothing / (R - 1)
    for each other one. The smoothing (0.3, as in the authors' code) says that the other side's ranks may be wrong.

    Args:
        log_posterior: (n, m, R) of `gmm_log_posterior`.
        ranks: (n, m) integers, 1 ... R.
        smoothing: 0 <= smoothing < 1.

    Returns:
        Scalar; 0 without pairs. A sentence with its own key is a pair like any other, as in the authors' code.

    Raises:
        ValueError: shapes that do not fit, smoothing or a rank out of range.
    """
    total = log_posterior.shape[-1]
    if ranks.shape != log_posterior.shape[:-1]:
        raise ValueError(f"ranks must be {tuple(log_posterior.shape[:-1])}, got {tuple(ranks.shape)}")
    if not 0 <= smoothing < 1 or total < 2:
        raise ValueError(f"smoothing must be in [0, 1) with at least two ranks, got {smoothing} and {total} ranks")
    if ranks.numel() and not (1 <= int(ranks.min()) and int(ranks.max()) <= total):
        raise ValueError(f"ranks must be 1 ... {total}, found {int(ranks.min())} ... {int(ranks.max())}")
    log_posterior, ranks = log_posterior.flatten(0, -2), ranks.flatten()
    own = F.one_hot(ranks.long() - 1, total).to(log_posterior.dtype)
    wanted = own * (1 - smoothing) + (1 - own) * smoothing / (total - 1)
    return -(wanted * log_posterior).sum() / max(len(ranks), 1)
