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


def test_total_weighs_the_named_parts_and_carries_gradients():
    parts = {name: torch.tensor(value, requires_grad=True) for name, value in (("a", 2.0), ("b", 3.0), ("log", 9.0))}
    total = weighted_total(parts, {"a": 0.05, "b": 1.0})
    total.backward()
    assert total.item() == pytest.approx(3.1)
    assert parts["a"].grad.item() == pytest.approx(0.05) and parts["b"].grad.item() == 1 and parts["log"].grad is None
