"""CTC against the sum over all paths of frames."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from hf_echo.losses import ctc_loss


def probability(frames: np.ndarray, label: tuple[int, ...]) -> float:
    """Of a label: the sum over all paths that collapse to it. frames: (n, characters + 1) probabilities."""
    total = 0.0
    for path in product(range(frames.shape[1]), repeat=len(frames)):
        collapsed = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        if tuple(collapsed) == label:
            total += np.prod([frames[i, c] for i, c in enumerate(path)])
    return total


def test_ctc_is_the_sum_over_paths():
    logits = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(0))
    labels, frames = [(1, 2), (2, 2, 1), (1,)], [4, 5, 3]
    probabilities = logits.double().softmax(-1).numpy()
    each = [-np.log(probability(p[:n], label)) / len(label) for p, n, label in zip(probabilities, frames, labels)]
    padded = torch.tensor([[1, 2, 0], [2, 2, 1], [1, 0, 0]])
    loss = ctc_loss(logits, torch.tensor(frames), padded, torch.tensor([2, 3, 1]))
    assert loss.item() == pytest.approx(np.mean(each), rel=1e-5)


def test_rows_that_cannot_be_aligned_count_as_zero():
    logits = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 2, 0]])  # 1 1 1 needs five frames; nothing; fits
    loss = ctc_loss(logits, torch.tensor([3, 3, 3]), labels, torch.tensor([3, 0, 2]))
    want = -np.log(probability(logits.detach().double().softmax(-1).numpy()[2], (1, 2))) / 2 / 3
    assert loss.item() == pytest.approx(want, rel=1e-5)
    loss.backward()
    assert logits.grad.isfinite().all() and not logits.grad[:2].any() and logits.grad[2].any()
    assert ctc_loss(logits[:0], torch.tensor([]), labels[:0], torch.tensor([])).item() == 0


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="logits must be"):
        ctc_loss(torch.zeros(2, 3, 4), torch.tensor([3]), torch.zeros(2, 1), torch.tensor([1, 1]))
