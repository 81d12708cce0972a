"""Ranking contrastive loss against EMMA-X Eq.
5 as a loop in float64 (its gradient: `test_checks.py`)."""

import math

import numpy as np
import pytest
import torch

from hf_echo.losses import ranking_contrastive_loss

from .test_contrastive import cos

TEMPERATURES = (0.05, 0.075, 0.1)


def eq5(query: np.ndarray, keys: np.ndarray, ranks: np.ndarray, rank: int) -> float:
    """l_r; a key of rank 0 is excluded."""
    temperature = TEMPERATURES[rank - 1]
    terms = []
    for i, x in enumerate(query):
        positive = 0.0
        candidates = 0.0
        for k, y in enumerate(keys):
            similarity = math.exp(cos(x, y) / temperature)
            if ranks[i, k] == rank:
                positive += similarity
            if ranks[i, k] >= rank:
                candidates += similarity
        if positive:
            terms.append(-math.log(positive / candidates))
    return np.mean(terms)


@pytest.fixture
def query() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 6))


@pytest.fixture
def keys() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(9, 6))


@pytest.fixture
def ranks() -> np.ndarray:
    """The first query has no key of a rank below the worst one."""
    ranks = np.random.default_rng(2).integers(1, 5, size=(5, 9))
    ranks[0] = 4
    return ranks


@pytest.mark.parametrize("excluded_share", [0, 0.2])
def test_parts_are_those_of_eq_5(query, keys, ranks, excluded_share):
    exclude = np.random.default_rng(3).random((5, 9)) < excluded_share
    inputs = map(torch.tensor, (query, keys, ranks))

    parts = ranking_contrastive_loss(
        *inputs, temperatures=TEMPERATURES, exclude=torch.tensor(exclude)
    )

    # Equation 5, written out for each rank. To leave a key out is to give it a rank that no part
    # reads.
    assert list(parts) == ["rank_1", "rank_2", "rank_3"]
    for rank in (1, 2, 3):
        expected = eq5(query, keys, np.where(exclude, 0, ranks), rank)
        assert parts[f"rank_{rank}"].item() == pytest.approx(expected, rel=1e-10)


def test_the_mean_of_the_positives_would_add_the_log_of_their_number(query, keys):
    """What the authors' code does: the same gradient, and log 3 more for three positives."""
    x = torch.tensor(query)
    y = torch.tensor(keys)
    ranks = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 2, 2]]).expand(5, 9)
    cosines = torch.nn.functional.cosine_similarity(x[:, None], y, dim=-1)
    probability = (cosines / 0.1).softmax(1)
    loss_of_the_code = -probability[:, :3].mean(1).log().mean()

    part = ranking_contrastive_loss(x, y, ranks, temperatures=[0.1])["rank_1"]

    assert loss_of_the_code.item() == pytest.approx(part.item() + math.log(3), rel=1e-10)
