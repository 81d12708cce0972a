"""Chunked cross-entropy against numpy and F.cross_entropy: value, gradients, and memory."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hf_echo.losses import translation_loss


def plain_translation_loss(hidden, weight, labels, **options):
    return F.cross_entropy((hidden @ weight.T).flatten(0, -2).float(), labels.flatten(), **options)


def batch(shape=(3, 7), h=6, vocabulary=11, dtype=torch.float32, ignored=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(*shape, h, generator=generator, dtype=dtype).requires_grad_()
    weight = torch.randn(vocabulary, h, generator=generator, dtype=dtype).requires_grad_()
    labels = torch.randint(vocabulary, shape, generator=generator)
    return hidden, weight, labels.masked_fill(torch.rand(shape, generator=generator) < ignored, -100)


def test_equals_numpy():
    hidden, weight, labels = batch(dtype=torch.float64)
    logits = hidden.detach().numpy().reshape(-1, 6) @ weight.detach().numpy().T
    losses = [
        math.log(np.exp(row).sum()) - row[label]
        for row, label in zip(logits, labels.flatten().tolist(), strict=True)
        if label != -100
    ]
    assert len(losses) < labels.numel()
    assert translation_loss(hidden, weight, labels).item() == pytest.approx(np.mean(losses), rel=1e-12)


def test_sum_equals_the_printed_formula():
    """OS 4.3: minus the sum of the log probabilities of a sentence's tokens; Eq. 4 takes the mean over sentences."""
    hidden, weight, labels = batch(shape=(4, 7), dtype=torch.float64)
    labels[2] = -100  # a sentence that the decoder does not read
    logits = hidden.detach().numpy() @ weight.detach().numpy().T
    sentence_losses = []
    for sentence, sentence_labels in zip(logits, labels.tolist(), strict=True):
        log_likelihood = [
            row[label] - math.log(np.exp(row).sum())
            for row, label in zip(sentence, sentence_labels, strict=True)
            if label != -100
        ]
        if log_likelihood:
            sentence_losses.append(-sum(log_likelihood))

    loss = translation_loss(hidden, weight, labels, reduction="sum").item()

    assert len(sentence_losses) == 3
    assert loss == pytest.approx(np.mean(sentence_losses), rel=1e-12)


def test_sum_of_one_sentence_is_its_length_times_the_mean():
    hidden, weight, labels = batch(shape=(7,), ignored=0.0)

    summed = translation_loss(hidden, weight, labels, reduction="sum")

    assert summed.item() == pytest.approx(7 * translation_loss(hidden, weight, labels).item(), rel=1e-6)


def test_gradients_of_the_sum_equal_those_of_the_plain_loss():
    hidden, weight, labels = batch()
    plain = plain_translation_loss(hidden, weight, labels, reduction="sum") / len(labels)
    expected = torch.autograd.grad(plain, (hidden, weight))

    summed = translation_loss(hidden, weight, labels, reduction="sum", chunk_size=4)

    gradients = torch.autograd.grad(summed, (hidden, weight))
    torch.testing.assert_close(gradients, expected, atol=1e-5, rtol=1e-5)


def test_another_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction must be 'mean' or 'sum', got 'none'"):
        translation_loss(*batch(), reduction="none")


@pytest.mark.parametrize("chunk_size", [1, 4, 5, 1024])
@pytest.mark.parametrize("shape", [(13,), (3, 7)])
def test_value_and_gradients_equal_the_plain_loss(chunk_size, shape):
    hidden, weight, labels = batch(shape)
    options = dict(ignore_index=0) if chunk_size == 5 else {}
    labels = labels.clamp(min=0) if options else labels
    chunked = translation_loss(hidden, weight, labels, chunk_size=chunk_size, **options)
    plain = plain_translation_loss(hidden, weight, labels, **options)
    assert chunked.shape == () and torch.allclose(chunked, plain, atol=1e-6)
    # 0.05 as a stage's weight: the gradient made in the forward must be scaled in the backward
    gradients = (torch.autograd.grad(0.05 * loss, (hidden, weight)) for loss in (chunked, plain))
    for mine, other in zip(*gradients, strict=True):
        assert mine.dtype == torch.float32 and torch.allclose(mine, other, atol=1e-7)


def test_large_logits_do_not_overflow():
    hidden, weight, labels = batch()
    with torch.no_grad():
        hidden *= 1e4
    loss = translation_loss(hidden, weight, labels, chunk_size=4)
    loss.backward()
    assert torch.allclose(loss, plain_translation_loss(hidden, weight, labels))
    assert hidden.grad.isfinite().all() and weight.grad.isfinite().all()


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
def test_bfloat16_autocast(weight_dtype):
    hidden, weight, labels = batch((4, 16), h=32, vocabulary=50)
    exact = plain_translation_loss(hidden, weight, labels)
    expected = torch.autograd.grad(exact, (hidden, weight))
    low = weight.detach().to(weight_dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = translation_loss(hidden, low, labels, chunk_size=8)
        plain = plain_translation_loss(hidden, low, labels)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)  # the same logits in bfloat16, softmax in float32
    gradients = torch.autograd.grad(loss, (hidden, low))
    assert [g.dtype for g in gradients] == [torch.float32, weight_dtype]
    for mine, other in zip(gradients, expected, strict=True):
        assert (mine.float() - other).norm() < 0.02 * other.norm()


def test_weight_gradient_is_summed_in_float32():
    """257 chunks add 0.5 each; a bfloat16 sum would stop at 128, where its steps are 1."""
    hidden = torch.ones(257, 1, dtype=torch.bfloat16)
    weight = torch.zeros(2, 1, requires_grad=True)
    labels = torch.zeros(257, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16):
        loss = translation_loss(hidden, weight, labels, chunk_size=1)
    (257 * loss).backward()
    assert weight.grad.flatten().tolist() == pytest.approx([-128.5, 128.5], rel=1e-6)


class LargestTensor(TorchDispatchMode):
    """Number of elements of the largest tensor that any operation returned."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return out


def largest(step) -> int:
    with LargestTensor() as mode:
        step()
    return mode.elements


@pytest.mark.parametrize("autocast", [False, True])
def test_no_tensor_ever_holds_all_logits(autocast):
    tokens, vocabulary, h, chunk = 64, 500, 4, 8
    hidden, weight, labels = batch((tokens,), h=h, vocabulary=vocabulary, ignored=0.0)

    def step(loss_of):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = loss_of()
        loss.backward()

    assert largest(lambda: step(lambda: plain_translation_loss(hidden, weight, labels))) == tokens * vocabulary
    chunked = largest(lambda: step(lambda: translation_loss(hidden, weight, labels, chunk_size=chunk)))
    assert chunked == chunk * vocabulary
