"""Gaussian mixture over differences and the encoder's ranks, against float64 loops and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from hf_echo.losses import gmm_log_posterior, gmm_loss, interpolated_keys, nearest_ranks, update_means

from .numpy_gradient import numpy_gradient


@pytest.fixture
def mixture():
    """query, keys, mean, log_sigma, weight_logits"""
    rng = np.random.default_rng(0)
    shapes = ((3, 5), (4, 5), (4, 5), (4, 5), (4,))
    return [rng.normal(size=shape) * (0.3 if i == 3 else 1) for i, shape in enumerate(shapes)]


def posterior(query, keys, mean, log_sigma, weight_logits) -> np.ndarray:
    """Eq. 4 with pi counted once, a loop."""
    pi = np.exp(weight_logits) / np.exp(weight_logits).sum()
    out = np.zeros((len(query), len(keys), len(mean)))
    for i, x in enumerate(query):
        for k, y in enumerate(keys):
            for r in range(len(mean)):
                sigma = np.exp(log_sigma[r])
                z = (x - y) - mean[r]
                density = np.exp(-0.5 * z @ np.diag(sigma**-2.0) @ z) / ((2 * np.pi) ** (len(x) / 2) * sigma.prod())
                out[i, k, r] = pi[r] * density
    return out / out.sum(-1, keepdims=True)


def loss_by_hand(arrays, ranks, smoothing) -> float:
    p, terms = posterior(*arrays), []
    for i, k in np.ndindex(ranks.shape):
        q = np.full(p.shape[-1], smoothing / (p.shape[-1] - 1))
        q[ranks[i, k] - 1] = 1 - smoothing
        terms.append(-(q * np.log(p[i, k])).sum())
    return sum(terms) / len(terms)


def test_posterior_is_that_of_a_loop_and_of_scikit_learn(mixture):
    query, keys, mean, log_sigma, weight_logits = mixture
    other = GaussianMixture(4, covariance_type="diag")
    other.means_, other.weights_ = mean, np.exp(weight_logits) / np.exp(weight_logits).sum()
    other.precisions_cholesky_ = np.exp(-log_sigma)
    other.covariances_ = np.exp(2 * log_sigma)
    theirs = other.predict_proba((query[:, None] - keys[None]).reshape(-1, 5)).reshape(3, 4, 4)
    found = gmm_log_posterior(*map(torch.tensor, mixture)).exp().numpy()
    for want in (posterior(*mixture), theirs):
        np.testing.assert_allclose(found, want, rtol=1e-9)


def test_posterior_in_float32_at_full_width():
    """Squares are expanded into products: 1,024 unit dimensions with small sigmas keep three digits of the log."""
    rng = np.random.default_rng(1)
    query, keys = (rng.normal(size=(6, 1024)) / 32 for _ in range(2))
    mean, log_sigma = rng.normal(size=(4, 1024)) / 100, np.log(rng.uniform(0.02, 0.06, size=(4, 1024)))
    arrays = [query, keys, mean, log_sigma, np.zeros(4)]
    exact = gmm_log_posterior(*map(torch.tensor, arrays))
    found = gmm_log_posterior(*(torch.tensor(a, dtype=torch.float32) for a in arrays))
    assert (found - exact).abs().max() < 1e-3 * exact.abs().max()


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_loss_and_gradients(mixture, smoothing):
    ranks = np.random.default_rng(2).integers(1, 5, size=(3, 4))
    tensors = [torch.tensor(a, requires_grad=True) for a in mixture]
    loss = gmm_loss(gmm_log_posterior(*tensors), torch.tensor(ranks), smoothing=smoothing)
    loss.backward()
    assert loss.item() == pytest.approx(loss_by_hand(mixture, ranks, smoothing), rel=1e-9)
    for place in (2, 3, 4):

        def function(x, place=place):
            return loss_by_hand([x if i == place else a for i, a in enumerate(mixture)], ranks, smoothing)

        np.testing.assert_allclose(tensors[place].grad.numpy(), numpy_gradient(function, mixture[place]), atol=1e-7)


def test_ranks_running_means_and_interpolated_keys():
    means = torch.tensor([0.9, 0.5, 0.2, 0.0])
    assert nearest_ranks(torch.tensor([[0.95, 0.6], [0.31, -0.8]]), means).tolist() == [[1, 2], [3, 4]]
    means[2] = torch.nan
    cosines, ranks = torch.tensor([[0.8, 0.6], [0.3, 0.1]]), torch.tensor([[1, 1], [3, 3]])
    found = update_means(means, cosines, ranks, momentum=0.1)
    assert found.tolist() == pytest.approx([0.9 * 0.9 + 0.1 * 0.7, 0.5, 0.2, 0.0])
    share = torch.tensor([0.0, 0.3, 0.5, 0.8, 1.0])
    keys, ranks = interpolated_keys(torch.ones(5, 2), torch.zeros(5, 2), share, 4)
    assert keys[:, 0].tolist() == pytest.approx(share.tolist()) and ranks.tolist() == [4, 3, 2, 1, 1]
