"""KoLeo against a loop in float64."""

import numpy as np
import pytest
import torch

from hf_echo.losses import koleo_loss


def by_hand(x: np.ndarray) -> float:
    """-mean log of the distance of each unit row to its nearest other."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    total = 0.0
    for i, row in enumerate(unit):
        others = np.delete(unit, i, axis=0)
        nearest = np.linalg.norm(row - others + 1e-8, axis=1).min()
        total -= np.log(nearest + 1e-8)
    return total / len(x)


def rows_of_any_length(rows: int) -> np.ndarray:
    lengths = np.arange(1, rows + 1)
    return lengths[:, None] * np.random.default_rng(rows).normal(size=(rows, 5))


@pytest.mark.parametrize("rows", [2, 3, 9])
def test_value_is_that_of_a_loop(rows):
    x = rows_of_any_length(rows)

    assert koleo_loss(torch.tensor(x)).item() == pytest.approx(by_hand(x), rel=1e-12)


def test_gradient():
    x = torch.tensor(rows_of_any_length(9), requires_grad=True)

    assert torch.autograd.gradcheck(koleo_loss, [x])


def test_equal_rows_have_a_finite_loss():
    """Distance 2e-8 in four dimensions that differ by eps, and eps once more."""
    equal = torch.ones(3, 4, requires_grad=True)

    loss = koleo_loss(equal)
    loss.backward()

    assert loss.item() == pytest.approx(-np.log(3e-8), rel=1e-3)
    assert equal.grad.isfinite().all()


@pytest.mark.parametrize("rows", [6, 60])
def test_neighbours_among_nearly_equal_rows(rows):
    """Their cosines are 1 - 1e-7, which float32 cannot tell apart."""
    x = 1 + 1e-3 * torch.randn(rows, 64, generator=torch.Generator().manual_seed(2))

    loss = koleo_loss(x)

    assert loss.item() == pytest.approx(by_hand(x.double().numpy()), abs=1e-3)
