"""Self-objective loss against Eq. 14 as loops over tokens, the links of OS 10.1 among them."""

import numpy as np
import pytest
import torch

from hf_echo.losses import self_objective_loss


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def cosine(a, b):
    return (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


def mutual_nearest(similarity):
    """M of Eq. 14 as OS 10.1 prints it: i is the best of column j, and j the best of row i."""
    rows, columns = similarity.shape
    links = []
    for i in range(rows):
        for j in range(columns):
            best_of_column = all(similarity[i, j] >= similarity[other, j] for other in range(rows))
            best_of_row = all(similarity[i, j] >= similarity[i, other] for other in range(columns))
            if best_of_column and best_of_row:
                links.append((i, j))
    return links


def eq_14(x, y, scale):
    """(n, d) and (m, d): L_SO, the printed sum."""
    n = len(x)
    m = len(y)
    similarity = np.array([[cosine(a, b) for b in y] for a in x])
    total = 0.0
    for i, j in mutual_nearest(similarity):
        forward = softmax(scale * similarity[i, :])[j] / n
        backward = softmax(scale * similarity[:, j])[i] / m
        total += (forward + backward) / 2
    return total


@pytest.fixture
def batch():
    """Four pairs of other lengths, as (n, d) arrays and as a padded batch with masks.

    What is not masked in stands anywhere in the row, and holds numbers that would change the links.
    """
    rng = np.random.default_rng(0)
    lengths = [(4, 6), (7, 3), (1, 1), (2, 7)]
    pairs = [(rng.normal(size=(n, 5)), rng.normal(size=(m, 5))) for n, m in lengths]
    padded = torch.from_numpy(rng.normal(size=(2, 4, 7, 5)))
    masks = torch.zeros(2, 4, 7, dtype=torch.bool)
    for row, pair in enumerate(pairs):
        for side, states in enumerate(pair):
            places = np.sort(rng.permutation(7)[: len(states)])
            padded[side, row, places] = torch.from_numpy(states)
            masks[side, row, places] = True
    return pairs, padded, masks


@pytest.mark.parametrize("scale", [1.0, 20.0, 500.0])
def test_is_eq_14(batch, scale):
    pairs, padded, masks = batch
    expected = -np.mean([eq_14(x, y, scale) for x, y in pairs])
    loss = self_objective_loss(*padded, *masks, scale=scale)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_only_mutual_nearest_tokens_count():
    """Two source tokens have the same nearest target; only the nearer one is linked, by hand: (1, 0) and (2, 1)."""
    source = np.array([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])
    target = np.array([[1.0, 0.0], [0.0, 1.0]])
    rows = np.array([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])
    linked = [(1, 0), (2, 1)]
    expected = 0.0
    for i, j in linked:
        expected += softmax(rows[i])[j] / 3 / 2 + softmax(rows[:, j])[i] / 2 / 2
    loss = self_objective_loss(torch.from_numpy(source)[None], torch.from_numpy(target)[None], scale=1.0)
    assert loss.item() == pytest.approx(-expected, rel=1e-9)
