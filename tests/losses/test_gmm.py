"""Gaussian mixture over differences and the encoder's ranks,
against float64 loops and scikit-learn."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from hf_echo.losses import (
    gmm_log_posterior,
    gmm_loss,
    interpolated_keys,
    nearest_ranks,
    update_means,
)

D = 5
RANKS = 4


@pytest.fixture
def mixture() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "query": rng.normal(size=(3, D)),
        "keys": rng.normal(size=(4, D)),
        "mean": rng.normal(size=(RANKS, D)),
        "log_sigma": 0.3 * rng.normal(size=(RANKS, D)),
        "weight_logits": rng.normal(size=RANKS),
    }


def weights_of(weight_logits: np.ndarray) -> np.ndarray:
    return np.exp(weight_logits) / np.exp(weight_logits).sum()


def eq4(query, keys, mean, log_sigma, weight_logits) -> np.ndarray:
    """Eq. 4 with pi counted once: (n, m, R)."""
    differences = query[:, None, None] - keys[:, None]
    densities = norm.pdf(differences, mean, np.exp(log_sigma)).prod(-1)
    joint = weights_of(weight_logits) * densities
    return joint / joint.sum(-1, keepdims=True)


def loss_by_hand(mixture: dict[str, np.ndarray], ranks: np.ndarray, smoothing: float) -> float:
    """Smoothed cross-entropy of the ranks with the posterior of EMMA-X Eq. 4, term by term."""
    log_posterior = np.log(eq4(**mixture))
    terms = []
    for i, k in np.ndindex(ranks.shape):
        q = np.full(RANKS, smoothing / (RANKS - 1))
        q[ranks[i, k] - 1] = 1 - smoothing
        terms.append(-q @ log_posterior[i, k])
    return np.mean(terms)


def tensors(
    mixture: dict[str, np.ndarray], dtype: torch.dtype = torch.float64
) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(array, dtype=dtype, requires_grad=True)
        for name, array in mixture.items()
    }


def test_posterior_is_that_of_scikit_learn(mixture):
    # scikit-learn's mixture with the same means, weights and precisions.
    theirs = GaussianMixture(RANKS, covariance_type="diag")
    theirs.means_ = mixture["mean"]
    theirs.weights_ = weights_of(mixture["weight_logits"])
    theirs.precisions_cholesky_ = np.exp(-mixture["log_sigma"])
    differences = mixture["query"][:, None] - mixture["keys"]
    expected = theirs.predict_proba(differences.reshape(-1, D))

    posterior = gmm_log_posterior(**tensors(mixture)).exp()

    np.testing.assert_allclose(posterior.detach().reshape(-1, RANKS), expected, rtol=1e-9)


def test_posterior_in_float32_at_full_width():
    """Squares are expanded into products: 1,024 unit dimensions with small sigmas keep three digits
    of the log."""
    rng = np.random.default_rng(1)
    mixture = {
        "query": rng.normal(size=(6, 1024)) / 32,
        "keys": rng.normal(size=(6, 1024)) / 32,
        "mean": rng.normal(size=(RANKS, 1024)) / 100,
        "log_sigma": np.log(rng.uniform(0.02, 0.06, size=(RANKS, 1024))),
        "weight_logits": np.zeros(RANKS),
    }
    exact = gmm_log_posterior(**tensors(mixture))

    in_float32 = gmm_log_posterior(**tensors(mixture, torch.float32))

    assert (in_float32 - exact).abs().max() < 1e-3 * exact.abs().max()


@pytest.fixture
def ranks() -> np.ndarray:
    return np.random.default_rng(2).integers(1, RANKS + 1, size=(3, 4))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_loss_is_that_of_a_loop(mixture, ranks, smoothing):
    log_posterior = gmm_log_posterior(**tensors(mixture))

    loss = gmm_loss(log_posterior, torch.tensor(ranks), smoothing=smoothing)

    assert loss.item() == pytest.approx(loss_by_hand(mixture, ranks, smoothing), rel=1e-9)


def test_gradients(mixture, ranks):
    query, keys, *parameters = tensors(mixture).values()

    def loss(*parameters):
        log_posterior = gmm_log_posterior(query.detach(), keys.detach(), *parameters)
        return gmm_loss(log_posterior, torch.tensor(ranks))

    assert torch.autograd.gradcheck(loss, parameters)


def test_rank_of_the_nearest_mean():
    means = torch.tensor([0.9, 0.5, 0.2, 0.0])

    ranks = nearest_ranks(torch.tensor([[0.95, 0.6], [0.31, -0.8]]), means)

    assert ranks.tolist() == [[1, 2], [3, 4]]


def test_means_move_by_the_momentum():
    """Rank 2 has no pair and keeps its mean."""
    means = torch.tensor([0.9, 0.5])

    moved = update_means(means, torch.tensor([[0.8, 0.6]]), torch.tensor([[1, 1]]), momentum=0.1)

    assert moved.tolist() == pytest.approx([0.9 * 0.9 + 0.1 * 0.7, 0.5])


def test_a_first_mean_is_that_of_the_batch():
    means = torch.tensor([0.9, torch.nan])

    moved = update_means(means, torch.tensor([0.3, 0.1]), torch.tensor([2, 2]))

    assert moved.tolist() == pytest.approx([0.9, 0.2])


def test_keys_lie_between_the_two_texts():
    share = torch.tensor([0.0, 0.3, 0.5, 0.8, 1.0])

    keys, _ = interpolated_keys(3 * torch.ones(5, 2), -torch.ones(5, 2), share, 4)

    # The line from -1 to 3.
    torch.testing.assert_close(keys, (4 * share - 1)[:, None].expand(5, 2))


def test_rank_of_a_key_follows_its_share():
    share = torch.tensor([0.0, 0.3, 0.5, 0.8, 1.0])

    _, ranks = interpolated_keys(torch.ones(5, 2), torch.zeros(5, 2), share, 4)

    assert ranks.tolist() == [4, 3, 2, 1, 1]
