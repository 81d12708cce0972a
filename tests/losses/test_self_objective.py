"""Self-objective loss against Eq. 14 as loops over tokens, the links of OS 10.1 among them."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from hf_echo.losses import self_objective_loss

from .test_contrastive import cos


def eq_14(x: np.ndarray, y: np.ndarray, scale: float) -> float:
    """(n, d) and (m, d): L_SO, the printed sum, with M as OS 10.1 prints it."""
    n = len(x)
    m = len(y)
    similarity = np.array([[cos(a, b) for b in y] for a in x])
    total = 0.0
    for i, j in np.ndindex(n, m):
        row = similarity[i]
        column = similarity[:, j]
        # i is the best of column j, and j the best of row i.
        if similarity[i, j] == row.max() == column.max():
            total += softmax(scale * row)[j] / n / 2
            total += softmax(scale * column)[i] / m / 2
    return total


@pytest.fixture
def pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    lengths = [(4, 6), (7, 3), (1, 1), (2, 7)]
    return [(rng.normal(size=(n, 5)), rng.normal(size=(m, 5))) for n, m in lengths]


def padded(sentences: list[np.ndarray], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States (batch, 7, 5) and their mask.

    What is not masked in stands anywhere in the row, and holds numbers that would change the links.
    """
    rng = np.random.default_rng(seed)
    states = torch.from_numpy(rng.normal(size=(len(sentences), 7, 5)))
    mask = torch.zeros(len(sentences), 7, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        places = np.sort(rng.permutation(7)[: len(sentence)])
        states[row, places] = torch.from_numpy(sentence)
        mask[row, places] = True
    return states, mask


@pytest.mark.parametrize("scale", [1.0, 20.0, 500.0])
def test_is_eq_14(pairs, scale):
    sources, source_mask = padded([source for source, _ in pairs], seed=1)
    targets, target_mask = padded([target for _, target in pairs], seed=2)

    loss = self_objective_loss(sources, targets, source_mask, target_mask, scale=scale)

    # Equation 14 for each pair of sentences without padding.
    expected = -np.mean([eq_14(x, y, scale) for x, y in pairs])
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_only_mutual_nearest_tokens_count():
    """Tokens 0 and 1 of the source have the same nearest target; only the nearer one is linked:
    (1, 0), (2, 1)."""
    source = torch.tensor([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    target = torch.eye(2, dtype=torch.float64)
    # The targets are unit vectors: the cosines are the numbers of `source`.
    over_targets = source.softmax(1)
    over_sources = source.softmax(0)

    loss = self_objective_loss(source[None], target[None], scale=1.0)

    forward = (over_targets[1, 0] + over_targets[2, 1]) / 3
    backward = (over_sources[1, 0] + over_sources[2, 1]) / 2
    torch.testing.assert_close(loss, -(forward + backward) / 2)
