from __future__ import annotations

import numpy as np
import pytest
import torch

from hf_echo.losses import mse_loss, weighted_total


def test_mse_sums_over_dimensions_and_averages_over_rows():
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(size=(3, 7)), rng.normal(size=(3, 7))
    expected = sum(np.linalg.norm(s - t) ** 2 for s, t in zip(student, teacher, strict=True)) / 3
    loss = mse_loss(torch.tensor(student), torch.tensor(teacher))
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert loss.item() == pytest.approx(7 * torch.nn.functional.mse_loss(*map(torch.tensor, (student, teacher))).item())


def test_mse_gradients():
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mse_loss, (student, teacher))
    (gradient,) = torch.autograd.grad(mse_loss(student, teacher), student)
    assert torch.allclose(gradient, 2 * (student - teacher) / 3)


@pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 4)), ((1, 3), (2, 3)), ((3,), (3,))])
def test_mse_refuses_shapes_that_would_broadcast(a, b):
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        mse_loss(torch.zeros(a), torch.zeros(b))


def test_total_weighs_the_named_parts_and_carries_gradients():
    parts = {name: torch.tensor(value, requires_grad=True) for name, value in (("a", 2.0), ("b", 3.0), ("log", 9.0))}
    total = weighted_total(parts, {"a": 0.05, "b": 1.0})
    total.backward()
    assert total.item() == pytest.approx(3.1)
    assert parts["a"].grad.item() == pytest.approx(0.05) and parts["b"].grad.item() == 1 and parts["log"].grad is None


@pytest.mark.parametrize("weights", [{"contrastiv": 1.0}, {}])
def test_total_refuses_weights_without_a_part(weights):
    with pytest.raises(ValueError, match="contrastive"):
        weighted_total({"contrastive": torch.tensor(1.0)}, weights)
