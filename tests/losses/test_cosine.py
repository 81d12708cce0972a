"""1 - cos against NumPy, gradient included."""

import numpy as np
import pytest
import torch

from hf_echo.losses import cosine_loss

from .numpy_gradient import numpy_gradient


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
    assert cosine_loss(rows[:0], rows[:0]).item() == 0
