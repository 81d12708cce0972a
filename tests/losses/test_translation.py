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
    logits = hidden @ weight.T
    return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), **options)


def batch(shape=(3, 7), h=6, vocabulary=11, dtype=torch.float32, ignored=0.3):
    """(hidden states, output matrix, labels), of which a share is ignored."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(*shape, h, generator=generator, dtype=dtype).requires_grad_()
    weight = torch.randn(vocabulary, h, generator=generator, dtype=dtype).requires_grad_()
    labels = torch.randint(vocabulary, shape, generator=generator)
    labels[torch.rand(shape, generator=generator) < ignored] = -100
    return hidden, weight, labels


def sentence_losses(hidden, weight, labels) -> list[list[float]]:
    """OS 4.3: minus the log probability of each token that counts, sentence by sentence."""
    logits = (hidden @ weight.T).detach().numpy()
    losses = []
    for sentence, sentence_labels in zip(logits, labels.tolist(), strict=True):
        token_losses = []
        for row, label in zip(sentence, sentence_labels, strict=True):
            if label != -100:
                token_losses.append(math.log(np.exp(row).sum()) - row[label])
        losses.append(token_losses)
    return losses


def test_mean_equals_the_printed_formula():
    hidden, weight, labels = batch(dtype=torch.float64)
    # Cross-entropy of each token in NumPy.
    token_losses = np.concatenate(sentence_losses(hidden, weight, labels))

    loss = translation_loss(hidden, weight, labels).item()

    assert len(token_losses) < labels.numel()
    assert loss == pytest.approx(token_losses.mean(), rel=1e-12)


def test_sum_equals_the_printed_formula():
    """Eq. 4 takes the mean over sentences; a sentence that the decoder does not read is none."""
    hidden, weight, labels = batch(shape=(4, 7), dtype=torch.float64)
    labels[2] = -100
    first, second, unread, fourth = sentence_losses(hidden, weight, labels)

    loss = translation_loss(hidden, weight, labels, reduction="sum").item()

    assert not unread
    assert loss == pytest.approx((sum(first) + sum(second) + sum(fourth)) / 3, rel=1e-12)


def test_sum_of_one_sentence_is_its_length_times_the_mean():
    hidden, weight, labels = batch(shape=(7,), ignored=0.0)
    mean = translation_loss(hidden, weight, labels)

    summed = translation_loss(hidden, weight, labels, reduction="sum")

    # One sentence of seven tokens.
    torch.testing.assert_close(summed, 7 * mean)


def test_gradients_of_the_sum_equal_those_of_the_plain_loss():
    hidden, weight, labels = batch()
    # The plain loss makes all logits at once.
    plain = plain_translation_loss(hidden, weight, labels, reduction="sum") / len(labels)
    expected = torch.autograd.grad(plain, (hidden, weight))

    summed = translation_loss(hidden, weight, labels, reduction="sum", chunk_size=4)

    gradients = torch.autograd.grad(summed, (hidden, weight))
    torch.testing.assert_close(gradients, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunk_size", [1, 4, 5, 1024])
@pytest.mark.parametrize("shape", [(13,), (3, 7)])
def test_gradients_equal_those_of_the_plain_loss(chunk_size, shape):
    """0.05 as a stage's weight: the gradient made in the forward must be scaled in the backward."""
    hidden, weight, labels = batch(shape)
    plain = plain_translation_loss(hidden, weight, labels)
    expected = torch.autograd.grad(0.05 * plain, (hidden, weight))

    chunked = translation_loss(hidden, weight, labels, chunk_size=chunk_size)

    gradients = torch.autograd.grad(0.05 * chunked, (hidden, weight))
    torch.testing.assert_close(chunked, plain)
    torch.testing.assert_close(gradients, expected, atol=1e-7, rtol=1e-5)


def test_another_label_may_be_ignored():
    hidden, weight, labels = batch()
    labels = labels.clamp(min=0)

    loss = translation_loss(hidden, weight, labels, ignore_index=0)

    # The plain loss with the same label ignored.
    torch.testing.assert_close(loss, plain_translation_loss(hidden, weight, labels, ignore_index=0))


def test_large_logits_do_not_overflow():
    hidden, weight, labels = batch()
    with torch.no_grad():
        hidden *= 1e4

    loss = translation_loss(hidden, weight, labels, chunk_size=4)
    loss.backward()

    # The plain loss, which subtracts the maximum.
    torch.testing.assert_close(loss, plain_translation_loss(hidden, weight, labels))
    assert hidden.grad.isfinite().all()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
def test_loss_under_autocast_has_logits_in_bfloat16(weight_dtype):
    hidden, weight, labels = batch((4, 16), h=32, vocabulary=50)
    weight = weight.to(weight_dtype)

    with torch.autocast("cpu", torch.bfloat16):
        loss = translation_loss(hidden, weight, labels, chunk_size=8)
        plain = plain_translation_loss(hidden, weight, labels)

    assert loss.dtype == torch.float32  # the softmax
    torch.testing.assert_close(loss, plain, rtol=1e-5, atol=0)


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
def test_gradients_under_autocast(weight_dtype):
    hidden, weight, labels = batch((4, 16), h=32, vocabulary=50)
    exact = torch.autograd.grad(plain_translation_loss(hidden, weight, labels), (hidden, weight))
    low = weight.detach().to(weight_dtype).requires_grad_()

    with torch.autocast("cpu", torch.bfloat16):
        loss = translation_loss(hidden, low, labels, chunk_size=8)
    of_hidden, of_weight = torch.autograd.grad(loss, (hidden, low))

    assert of_hidden.dtype == torch.float32
    assert of_weight.dtype == weight_dtype
    assert (of_hidden - exact[0]).norm() < 0.02 * exact[0].norm()
    assert (of_weight.float() - exact[1]).norm() < 0.02 * exact[1].norm()


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


class MatrixProducts(TorchDispatchMode):
    """Counts products of matrices."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm_)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("with_gradients", "trains_hidden", "trains_weight", "products"),
    [(True, True, True, 3), (True, True, False, 2), (True, False, True, 2), (False, True, True, 1)],
)
def test_gradients_that_nobody_needs_cost_no_product(
    with_gradients, trains_hidden, trains_weight, products
):
    """One product for the logits of a chunk, and one for each gradient."""
    hidden, weight, labels = batch((8,), ignored=0.0)
    hidden.requires_grad_(trains_hidden)
    weight.requires_grad_(trains_weight)

    with MatrixProducts() as matrix_products, torch.set_grad_enabled(with_gradients):
        translation_loss(hidden, weight, labels, chunk_size=4)

    assert matrix_products.count == 2 * products


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(
    ("loss_of", "options", "tokens_in_memory"),
    [(plain_translation_loss, {}, 64), (translation_loss, {"chunk_size": 8}, 8)],
)
def test_no_tensor_holds_more_logits_than_a_chunk(loss_of, options, tokens_in_memory, autocast):
    """The plain loss shows that the measure sees all logits."""
    vocabulary = 500
    inputs = batch((64,), h=4, vocabulary=vocabulary, ignored=0.0)

    with LargestTensor() as largest:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = loss_of(*inputs, **options)
        loss.backward()

    assert largest.elements == tokens_in_memory * vocabulary
