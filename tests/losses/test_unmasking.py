"""Unmasking loss against a loop in float64 and against PyTorch, with its gradients."""

import numpy as np
import pytest
import torch

from hf_echo.losses import unmasking_loss

from .numpy_gradient import numpy_gradient

LABELS = np.array([[2, -100, 6, 0], [-100, -100, 3, 3]])


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "states": rng.normal(size=(2, 4, 3)),
        "weight": rng.normal(size=(7, 3)),
        "bias": rng.normal(size=7),
    }


def by_hand(states: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> float:
    masked = LABELS != -100
    terms = []
    for state, label in zip(states[masked], LABELS[masked], strict=True):
        logits = weight @ state + bias
        terms.append(np.log(np.exp(logits).sum()) - logits[label])
    return np.mean(terms)


def test_value_is_that_of_a_loop(arrays):
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}

    loss = unmasking_loss(**tensors, labels=torch.tensor(LABELS))

    assert loss.item() == pytest.approx(by_hand(**arrays), rel=1e-12)


@pytest.mark.parametrize("name", ["states", "weight", "bias"])
def test_gradients_are_those_of_a_loop(arrays, name):
    tensors = {key: torch.tensor(array, requires_grad=True) for key, array in arrays.items()}

    unmasking_loss(**tensors, labels=torch.tensor(LABELS)).backward()

    expected = numpy_gradient(lambda x: by_hand(**arrays | {name: x}), arrays[name])
    np.testing.assert_allclose(tensors[name].grad, expected, atol=1e-8)
