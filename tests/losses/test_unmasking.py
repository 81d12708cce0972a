"""Unmasking loss against a loop in float64 and against PyTorch, with its gradients."""

import numpy as np
import pytest
import torch

from hf_echo.losses import unmasking_loss

from .numpy_gradient import numpy_gradient


def by_hand(states, weight, bias, labels) -> float:
    terms = []
    for state, label in zip(states.reshape(-1, states.shape[-1]), labels.ravel(), strict=True):
        if label != -100:
            logits = weight @ state + bias
            terms.append(np.log(np.exp(logits).sum()) - logits[label])
    return sum(terms) / max(len(terms), 1)


@pytest.mark.parametrize("chunk_size", [2, 1024])
def test_value_and_gradients(chunk_size):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((2, 4, 3), (7, 3), (7,))]
    labels = np.array([[2, -100, 6, 0], [-100, -100, 3, 3]])
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    loss = unmasking_loss(*tensors, torch.tensor(labels), chunk_size=chunk_size)
    loss.backward()
    assert loss.item() == pytest.approx(by_hand(*arrays, labels), rel=1e-12)
    for place, tensor in enumerate(tensors):

        def function(x, place=place):
            return by_hand(*(x if i == place else a for i, a in enumerate(arrays)), labels)

        np.testing.assert_allclose(tensor.grad.numpy(), numpy_gradient(function, arrays[place]), atol=1e-8)
