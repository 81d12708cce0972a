"""1 - cos, the squared distance and the weighted total against NumPy."""

import numpy as np
import pytest
import torch

from hf_echo.losses import cosine_loss, mse_loss, weighted_total


@pytest.fixture
def student() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 7))


@pytest.fixture
def teacher() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3, 7))


def test_mse_sums_over_dimensions(student, teacher):
    loss = mse_loss(torch.tensor(student), torch.tensor(teacher))

    squared_norms = np.linalg.norm(student - teacher, axis=1) ** 2
    assert loss.item() == pytest.approx(squared_norms.mean(), rel=1e-12)


def test_total_weighs_the_named_parts():
    parts = {"a": torch.tensor(2.0), "b": torch.tensor(3.0), "log": torch.tensor(9.0)}

    total = weighted_total(parts, {"a": 0.05, "b": 1.0})

    assert total.item() == pytest.approx(0.05 * 2 + 3)


def test_gradients_of_the_parts_are_their_weights():
    parts = {name: torch.ones((), requires_grad=True) for name in ("a", "b", "log")}

    weighted_total(parts, {"a": 0.05, "b": 1.0}).backward()

    # A weighted sum has its weights as gradients; what has no weight is only logged.
    assert parts["a"].grad.item() == pytest.approx(0.05)
    assert parts["b"].grad.item() == 1
    assert parts["log"].grad is None


def numpy_cosine_loss(a: np.ndarray, b: np.ndarray) -> float:
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return 1 - cosines.mean()


def test_cosine_loss_is_that_of_numpy(student, teacher):
    loss = cosine_loss(torch.tensor(student), torch.tensor(teacher))

    assert loss.item() == pytest.approx(numpy_cosine_loss(student, teacher), abs=1e-12)


@pytest.mark.parametrize(("factor", "expected"), [(7, 0), (-1, 2)])
def test_ends_of_the_cosine_loss(factor, expected):
    rows = torch.eye(3)

    loss = cosine_loss(rows, factor * rows)

    assert loss.item() == pytest.approx(expected, abs=1e-6)
