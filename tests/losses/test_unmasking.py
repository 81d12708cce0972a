"""Unmasking loss against a loop in float64."""

import numpy as np
import pytest
import torch

from hf_echo.losses import unmasking_loss

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
    """Mean cross-entropy of the masked tokens, one by one."""
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


def test_gradients(arrays):
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays.values()]

    assert torch.autograd.gradcheck(
        lambda *inputs: unmasking_loss(*inputs, labels=torch.tensor(LABELS)), tensors
    )
