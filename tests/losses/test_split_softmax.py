"""Split softmax and one softmax against loops written from Eq. 5."""

import math

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from hf_echo.losses import contrastive_loss, one_softmax_loss, split_softmax_loss, split_softmax_parts

from .test_contrastive import cos, eq2


def batch(n=4, total=6, negatives=3, d=5, offset=1, seed=0):
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(total, d))
    own = target[offset : offset + n]
    source = own + 0.5 * rng.normal(size=(n, d))
    hard = own[:, None] + 0.4 * rng.normal(size=(n, negatives, d))
    mask = rng.random((n, negatives)) < 0.7
    mask[1:2] = False  # a sentence for which no hard negative was found
    mask[0] = True
    return source, target, hard, mask


def hard_term(source, target, hard, mask, *, scale, offset) -> float:
    """Second term of Omnilingual SONAR Eq. 5 without gamma, a loop in float64."""
    total = 0.0
    for i in range(len(source)):
        positive = math.exp(scale * cos(source[i], target[i + offset]))
        negatives = sum(math.exp(scale * cos(source[i], h)) for h, real in zip(hard[i], mask[i], strict=True) if real)
        total -= math.log(positive / (positive + negatives))
    return total / len(source)


def tensors(source, target, hard, mask, dtype=torch.float64):
    return *(torch.tensor(a, dtype=dtype) for a in (source, target, hard)), torch.tensor(mask)


@pytest.mark.parametrize("gamma", [0.0, 0.8, 1.0])
@pytest.mark.parametrize(("scale", "margin"), [(100, 0.3), (10, 0.0)])
def test_equals_the_equation(gamma, scale, margin):
    arrays = batch()
    contrastive = eq2(*arrays[:2], scale=scale, margin=margin, space="cosine", offset=1)
    hard = hard_term(*arrays, scale=scale, offset=1)
    paper = (gamma, scale, margin) == (0.8, 100, 0.3)  # the defaults
    options = dict(offset=1) if paper else dict(gamma=gamma, logit_scale=scale, margin=margin, offset=1)
    parts = split_softmax_parts(*tensors(*arrays), **options)
    assert parts["contrastive"].item() == pytest.approx(contrastive, rel=1e-10)
    assert parts["hard_negatives"].item() == pytest.approx(hard, rel=1e-10)
    loss = split_softmax_loss(*tensors(*arrays), **options)
    assert loss.shape == () and torch.equal(loss, parts["total"])
    assert loss.item() == pytest.approx((1 - gamma) * contrastive + gamma * hard, rel=1e-10)
    none = split_softmax_loss(*(t[:, :0] if i > 1 else t for i, t in enumerate(tensors(*arrays))), **options)
    assert none.item() == pytest.approx((1 - gamma) * contrastive, rel=1e-10)


def test_guide_and_exclude_reach_the_in_batch_term_and_only_it():
    source, target, hard, mask = tensors(*batch())
    guide_target = target + 0.1
    options = dict(
        guide_source=guide_target[1:5],
        guide_target=guide_target,
        radius=0.3,
        margin_space="logit",
        offset=1,
        exclude=torch.arange(6).expand(4, 6) == 5,
    )
    with_guide = split_softmax_parts(source, target, hard, mask, **options)
    without = split_softmax_parts(source, target, hard, mask, margin_space="logit", offset=1)
    assert torch.equal(with_guide["contrastive"], contrastive_loss(source, target, **options))
    assert not torch.equal(with_guide["contrastive"], without["contrastive"])
    assert torch.equal(with_guide["hard_negatives"], without["hard_negatives"])


@pytest.mark.parametrize("loss_of", [split_softmax_loss, one_softmax_loss])
def test_unused_slots_may_hold_anything(loss_of):
    source, target, hard, mask = tensors(*batch())
    rubbish = hard.masked_fill(~mask[..., None], math.inf).requires_grad_()
    clean = hard.masked_fill(~mask[..., None], 0).requires_grad_()
    loss, expected = (loss_of(source, target, rubbish, mask, offset=1), loss_of(source, target, clean, mask, offset=1))
    assert torch.equal(loss, expected)
    (gradient,), (expected,) = torch.autograd.grad(loss, rubbish), torch.autograd.grad(expected, clean)
    assert torch.equal(gradient, expected) and not gradient[~mask].any() and gradient[mask].any()


def test_hard_term_of_one_row_is_multiple_negatives_ranking():
    source, target, hard, _ = tensors(*batch(n=1, total=1, offset=0))
    theirs = MultipleNegativesRankingLoss(model=None, scale=30.0)
    columns = [source, target, *(hard[:, k] for k in range(3))]
    expected = theirs.compute_loss_from_embeddings(columns, None)
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert torch.allclose(split_softmax_loss(source, target, hard, mask, gamma=1.0, logit_scale=30), expected)
    assert torch.allclose(one_softmax_loss(source, target, hard, mask, logit_scale=30), expected)


def test_one_softmax_equals_its_definition():
    source, target, hard, mask = batch()
    kept = np.random.default_rng(2).random((4, 6)) < 0.6
    total = 0.0
    for i in range(4):
        positive = math.exp(20 * cos(source[i], target[i + 1]))
        others = sum(math.exp(20 * cos(source[i], target[j])) for j in range(6) if j != i + 1 and kept[i, j])
        others += sum(math.exp(20 * cos(source[i], h)) for h, real in zip(hard[i], mask[i], strict=True) if real)
        total -= math.log(positive / (positive + others)) / 4
    tensor_batch = tensors(source, target, hard, mask)
    loss = one_softmax_loss(*tensor_batch, logit_scale=20, exclude=~torch.tensor(kept), offset=1)
    assert loss.item() == pytest.approx(total, rel=1e-10)
