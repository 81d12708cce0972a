"""1 - cos, the squared distance and the weighted total against NumPy."""

import numpy as np
import pytest
import torch

from hf_echo.losses import cosine_loss, mse_loss, weighted_total

from .numpy_gradient import numpy_gradient


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


def numpy_loss(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean(1 - (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)))


def test_value_and_gradient_are_numpys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4))
    source = torch.tensor(a, requires_grad=True)
    loss = cosine_loss(source, torch.tensor(b))
    loss.backward()
    assert loss.item() == pytest.approx(numpy_loss(a, b), abs=1e-12)
    np.testing.assert_allclose(source.grad.numpy(), numpy_gradient(lambda x: numpy_loss(x, b), a), atol=1e-8)


def test_ends_of_the_scale():
    rows = torch.eye(3)
    assert cosine_loss(rows, 7 * rows).item() == pytest.approx(0, abs=1e-6)
    assert cosine_loss(rows, -rows).item() == pytest.approx(2)
