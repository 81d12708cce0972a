"""KoLeo against a loop in float64, with its gradient."""

import numpy as np
import pytest
import torch

from hf_echo.losses import koleo_loss

from .numpy_gradient import numpy_gradient


def by_hand(x: np.ndarray) -> float:
    unit = [row / np.linalg.norm(row) for row in x]
    total = 0.0
    for i, row in enumerate(unit):
        nearest = min(np.linalg.norm(row - other + 1e-8) for j, other in enumerate(unit) if j != i)
        total -= np.log(nearest + 1e-8)
    return total / len(x)


@pytest.mark.parametrize("rows", [2, 3, 9])
def test_value_and_gradient(rows):
    x = np.random.default_rng(rows).normal(size=(rows, 5)) * np.arange(1, rows + 1)[:, None]
    tensor = torch.tensor(x, requires_grad=True)
    loss = koleo_loss(tensor)
    loss.backward()
    assert loss.item() == pytest.approx(by_hand(x), rel=1e-12)
    np.testing.assert_allclose(tensor.grad.numpy(), numpy_gradient(by_hand, x), atol=1e-8)


def test_equal_rows_are_finite_and_a_step_spreads_near_rows():
    equal = torch.ones(3, 4, requires_grad=True)
    koleo_loss(equal).backward()
    assert torch.isfinite(equal.grad).all() and koleo_loss(equal).item() == pytest.approx(-np.log(3e-8), rel=1e-3)
    near = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], requires_grad=True)
    before = koleo_loss(near)
    (gradient,) = torch.autograd.grad(before, near)
    assert koleo_loss(near - 1e-3 * gradient) < before


@pytest.mark.parametrize("rows", [6, 60])
def test_neighbours_among_nearly_equal_rows(rows):
    """Their cosines are 1 - 1e-7, which float32 cannot tell apart."""
    x = 1 + 1e-3 * torch.randn(rows, 64, generator=torch.Generator().manual_seed(2))
    assert koleo_loss(x).item() == pytest.approx(by_hand(x.double().numpy()), abs=1e-3)
