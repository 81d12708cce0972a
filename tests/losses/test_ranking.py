"""Ranking contrastive loss against EMMA-X Eq. 5 as a loop in float64, with its gradient."""

import math

import numpy as np
import pytest
import torch

from hf_echo.losses import ranking_contrastive_loss

from .numpy_gradient import numpy_gradient

TEMPERATURES = (0.05, 0.075, 0.1)


def eq5(query, keys, ranks, exclude=None, temperatures=TEMPERATURES) -> list[float]:
    parts = []
    for rank, temperature in enumerate(temperatures, 1):
        terms = []
        for i, x in enumerate(query):
            above = below = 0.0
            for k, y in enumerate(keys):
                if exclude is not None and exclude[i, k]:
                    continue
                e = math.exp(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) / temperature)
                above += e * (ranks[i, k] == rank)
                below += e * (ranks[i, k] >= rank)
            if above:
                terms.append(-math.log(above / below))
        parts.append(sum(terms) / max(len(terms), 1))
    return parts


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    query, keys = rng.normal(size=(5, 6)), rng.normal(size=(9, 6))
    ranks = rng.integers(1, 5, size=(5, 9))
    ranks[0] = 4  # no key of a rank below the worst one
    return query, keys, ranks, rng.random((5, 9)) < 0.2


@pytest.mark.parametrize("excluded", [False, True])
def test_value_and_gradient(batch, excluded):
    query, keys, ranks, exclude = batch
    exclude = exclude if excluded else None
    tensors = [torch.tensor(a, requires_grad=True) for a in (query, keys)]
    mask = None if exclude is None else torch.tensor(exclude)
    parts = ranking_contrastive_loss(*tensors, torch.tensor(ranks), temperatures=TEMPERATURES, exclude=mask)
    assert list(parts) == ["rank_1", "rank_2", "rank_3"]
    assert [part.item() for part in parts.values()] == pytest.approx(eq5(query, keys, ranks, exclude), rel=1e-10)
    sum(parts.values()).backward()
    of_query = numpy_gradient(lambda q: sum(eq5(q, keys, ranks, exclude)), query)
    of_keys = numpy_gradient(lambda k: sum(eq5(query, k, ranks, exclude)), keys)
    np.testing.assert_allclose(tensors[0].grad.numpy(), of_query, atol=1e-7)
    np.testing.assert_allclose(tensors[1].grad.numpy(), of_keys, atol=1e-7)


def test_the_mean_of_the_positives_would_add_the_log_of_their_number(batch):
    """What the authors' code does: the same gradient, and log 3 more for three positives."""
    query, keys = torch.tensor(batch[0]), torch.tensor(batch[1])
    ranks = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 2, 2]]).expand(5, 9)
    part = ranking_contrastive_loss(query, keys, ranks, temperatures=[0.1])["rank_1"]
    cosines = torch.nn.functional.normalize(query) @ torch.nn.functional.normalize(keys).T
    probability = (cosines / 0.1).softmax(1)
    assert (-probability[:, :3].mean(1).log()).mean().item() == pytest.approx(part.item() + math.log(3), rel=1e-10)
