"""Self-objective loss against Eq. 14 as a loop over tokens; masks, gradients, errors."""

import numpy as np
import pytest
import torch

from hf_echo.evaluation.tokens.alignment import argmax_links
from hf_echo.losses import self_objective_loss


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def by_hand(x, y, scale):
    """(n, d) and (m, d): L_SO, the printed sum."""
    s = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
    links, total = argmax_links(s), 0.0
    for i, j in zip(*links.nonzero()):
        total += (softmax(scale * s[i])[j] / len(x) + softmax(scale * s[:, j])[i] / len(y)) / 2
    return total


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    lengths = [(4, 6), (7, 3), (1, 1), (2, 7)]
    pairs = [(rng.normal(size=(n, 5)), rng.normal(size=(m, 5))) for n, m in lengths]
    source, target = torch.randn(4, 7, 5, dtype=torch.float64), torch.randn(4, 7, 5, dtype=torch.float64)
    masks = torch.zeros(2, 4, 7, dtype=torch.bool)
    for i, (x, y) in enumerate(pairs):  # what is not masked in stands anywhere in the row
        places = [torch.from_numpy(np.sort(rng.permutation(7)[: len(side)])) for side in (x, y)]
        source[i, places[0]], target[i, places[1]] = torch.from_numpy(x), torch.from_numpy(y)
        masks[0, i, places[0]] = masks[1, i, places[1]] = True
    return pairs, source, target, masks


@pytest.mark.parametrize("scale", [1.0, 20.0, 500.0])
def test_is_eq_14(batch, scale):
    pairs, source, target, (a, b) = batch
    want = -np.mean([by_hand(x, y, scale) for x, y in pairs])
    assert self_objective_loss(source, target, a, b, scale=scale).item() == pytest.approx(want)
