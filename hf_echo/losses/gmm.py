"""Gaussian mixture over the difference of two embeddings:
which semantic rank a pair of sentences has (EMMA-X)."""

from __future__ import annotations

import torch
from torch import Tensor

from .dtypes import widened


def gmm_log_posterior(
    query: Tensor, keys: Tensor, mean: Tensor, log_sigma: Tensor, weight_logits: Tensor
) -> Tensor:
    """log P(rank | query, key) of a mixture of diagonal Gaussians (EMMA-X appendix Eq. 4, Eq. 5 of
    the paper).

        P(r | x, y) = pi_r N_r(x - y) / sum_j pi_j N_j(x - y)
        log N_r(z)  = -d/2 log(2 pi) - sum_k log sigma_rk - 1/2 sum_k ((z_k - mu_rk) / sigma_rk)^2

    Eq. 4 prints pi_r inside N_r as well; it is counted once here. sigma is a standard deviation, as
    Eq. 4 uses it (|diag(sigma)| and sigma^-2); appendix A.2 calls it a variance.

    The squares are expanded into matrix products, so nothing of size n * m * d is kept. Computed in
    float32 (float64 for float64 inputs), also under autocast.

    Args:
        query: (n, d). keys: (m, d). The caller detaches them.
        mean, log_sigma: (R, d).
        weight_logits: (R,), softmax gives pi.

    Returns:
        (n, m, R); exp sums to 1 over the last dimension. Rank 1 is at index 0.

    Example:
        >>> import torch
        >>> mean, log_sigma = torch.tensor([[0.0], [1.0]]), torch.zeros(2, 1)
        >>> gmm_log_posterior(torch.ones(1, 1), torch.ones(1, 1), mean, log_sigma, torch.zeros(2)).exp()
        tensor([[[0.6225, 0.3775]]])
    """
    with torch.autocast(query.device.type, enabled=False):
        query, keys, mean, log_sigma, weight_logits = widened(
            query, keys, mean, log_sigma, weight_logits
        )
        log_densities = []
        for mu, log_s in zip(mean, log_sigma, strict=True):
            # ||(x - y - mu) / sigma||^2, expanded around x - mu: (n, d) and (m, d) -> (n, m)
            sigma = log_s.exp()
            left = (query - mu) / sigma
            right = keys / sigma
            left_squares = left.square().sum(1)
            right_squares = right.square().sum(1)
            squares = left_squares[:, None] + right_squares - 2 * left @ right.T
            log_densities.append(-squares.clamp(min=0) / 2 - log_s.sum())
        # -d/2 log(2 pi) is the same for all ranks: it cancels here.
        joint = torch.stack(log_densities, -1) + weight_logits.log_softmax(0)
        return joint.log_softmax(-1)


def gmm_loss(log_posterior: Tensor, ranks: Tensor, *, smoothing: float = 0.3) -> Tensor:
    """Train the mixture on the encoder's ranks (EMMA-X, the E-step; Eq. 6 of the paper lacks the
    minus sign).

    Mean over pairs of `-sum_r q_r log P(r | x, y)` with q = 1 - smoothing for the given rank and
    smoothing / (R - 1) for each other one. The smoothing (0.3, as in the authors' code) says that
    the other side's ranks may be wrong.

    Args:
        log_posterior: (n, m, R) of `gmm_log_posterior`.
        ranks: (n, m) integers, 1 ... R.
        smoothing: 0 <= smoothing < 1.

    Returns:
        Scalar; 0 without pairs. A sentence with its own key is a pair like any other, as in the
        authors' code.
    """
    total = log_posterior.shape[-1]
    # q: (n, m, R)
    q = torch.full_like(log_posterior, smoothing / (total - 1))
    q.scatter_(-1, ranks.long()[..., None] - 1, 1 - smoothing)
    return -(q * log_posterior).sum() / max(ranks.numel(), 1)
