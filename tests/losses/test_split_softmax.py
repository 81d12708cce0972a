"""Split softmax and one softmax against loops written from Eq. 5."""

import math

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from hf_echo.losses import (
    contrastive_loss,
    one_softmax_loss,
    split_softmax_loss,
    split_softmax_parts,
)

from .test_contrastive import cos, eq2

ROWS = 4
TARGETS = 6
OFFSET = 1  # source i is translated by target i + 1


@pytest.fixture
def arrays() -> tuple[np.ndarray, ...]:
    """Sources (4, 5), targets (6, 5), hard negatives (4, 3, 5) near the translations,
    and their mask."""
    rng = np.random.default_rng(0)
    target = rng.normal(size=(TARGETS, 5))
    translations = target[OFFSET : OFFSET + ROWS]
    source = translations + 0.5 * rng.normal(size=translations.shape)
    hard = translations[:, None] + 0.4 * rng.normal(size=(ROWS, 3, 5))
    mask = rng.random((ROWS, 3)) < 0.7
    mask[1] = False  # a sentence for which no hard negative was found
    mask[0] = True
    return source, target, hard, mask


@pytest.fixture
def tensors(arrays) -> list[torch.Tensor]:
    return [torch.tensor(array) for array in arrays]


def hard_sum(x: np.ndarray, candidates: np.ndarray, mask: np.ndarray, scale: float) -> float:
    total = 0.0
    for candidate in candidates[mask]:
        total += math.exp(scale * cos(x, candidate))
    return total


def hard_term(source, target, hard, mask, scale: float) -> float:
    """Second term of Omnilingual SONAR Eq. 5 without gamma, a loop in float64."""
    total = 0.0
    for i, x in enumerate(source):
        positive = math.exp(scale * cos(x, target[i + OFFSET]))
        total -= math.log(positive / (positive + hard_sum(x, hard[i], mask[i], scale)))
    return total / len(source)


@pytest.mark.parametrize(("scale", "margin"), [(100, 0.3), (10, 0.0)])
def test_parts_are_those_of_the_equation(arrays, tensors, scale, margin):
    source, target, _, _ = arrays

    parts = split_softmax_parts(*tensors, logit_scale=scale, margin=margin, offset=OFFSET)

    # Both terms by the printed formula, in NumPy.
    contrastive = eq2(source, target, scale=scale, margin=margin, space="cosine", offset=OFFSET)
    assert parts["contrastive"].item() == pytest.approx(contrastive, rel=1e-10)
    assert parts["hard_negatives"].item() == pytest.approx(hard_term(*arrays, scale), rel=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 0.8, 1.0])
def test_gamma_weighs_the_parts(tensors, gamma):
    parts = split_softmax_parts(*tensors, offset=OFFSET)

    loss = split_softmax_loss(*tensors, gamma=gamma, offset=OFFSET)

    # The weighted sum of the two parts.
    expected = (1 - gamma) * parts["contrastive"] + gamma * parts["hard_negatives"]
    torch.testing.assert_close(loss, expected)


def test_without_hard_negatives_their_term_is_0(tensors):
    source, target, hard, mask = tensors

    parts = split_softmax_parts(source, target, hard[:, :0], mask[:, :0], offset=OFFSET)

    assert parts["hard_negatives"] == 0


def test_the_guide_filters_in_batch_negatives_only(tensors):
    source, target, hard, mask = tensors
    guide_target = target + 0.1
    options = dict(
        guide_source=guide_target[OFFSET : OFFSET + ROWS],
        guide_target=guide_target,
        radius=0.3,
        margin_space="logit",
        offset=OFFSET,
        exclude=torch.arange(TARGETS).expand(ROWS, TARGETS) == 5,
    )
    unfiltered = split_softmax_parts(
        source, target, hard, mask, margin_space="logit", offset=OFFSET
    )

    filtered = split_softmax_parts(source, target, hard, mask, **options)

    # The contrastive part is that of a filtered loss; hard negatives are never filtered.
    assert torch.equal(filtered["contrastive"], contrastive_loss(source, target, **options))
    assert not torch.equal(filtered["contrastive"], unfiltered["contrastive"])
    assert torch.equal(filtered["hard_negatives"], unfiltered["hard_negatives"])


@pytest.mark.parametrize("loss_of", [split_softmax_loss, one_softmax_loss])
def test_unused_slots_may_hold_anything(tensors, loss_of):
    source, target, hard, mask = tensors
    unused = ~mask[..., None]
    clean = hard.masked_fill(unused, 0).requires_grad_()
    expected = loss_of(source, target, clean, mask, offset=OFFSET)
    expected.backward()

    rubbish = hard.masked_fill(unused, math.inf).requires_grad_()
    loss = loss_of(source, target, rubbish, mask, offset=OFFSET)
    loss.backward()

    # Zeros in the same places give the same loss and gradients.
    assert torch.equal(loss, expected)
    assert torch.equal(rubbish.grad, clean.grad)
    assert not rubbish.grad[~mask].any()
    assert rubbish.grad[mask].any()


@pytest.mark.parametrize(
    ("loss_of", "options"), [(split_softmax_loss, {"gamma": 1.0}), (one_softmax_loss, {})]
)
def test_one_row_is_multiple_negatives_ranking(tensors, loss_of, options):
    source, target, hard, _ = tensors
    x = source[:1]
    y = target[OFFSET : OFFSET + 1]
    negatives = hard[:1]
    # The loss of sentence-transformers takes hard negatives of one row.
    theirs = MultipleNegativesRankingLoss(model=None, scale=30.0)
    expected = theirs.compute_loss_from_embeddings([x, y, *negatives.unbind(1)], None)

    loss = loss_of(x, y, negatives, torch.ones(1, 3), logit_scale=30, **options)

    torch.testing.assert_close(loss, expected)


def test_one_softmax_equals_its_definition(arrays, tensors):
    source, target, hard, mask = arrays
    exclude = np.random.default_rng(2).random((ROWS, TARGETS)) < 0.4
    # One softmax over translation, other targets and negatives, as a double loop.
    total = 0.0
    for i, x in enumerate(source):
        positive = math.exp(20 * cos(x, target[i + OFFSET]))
        everything = positive + hard_sum(x, hard[i], mask[i], scale=20)
        for j, y in enumerate(target):
            if j != i + OFFSET and not exclude[i, j]:
                everything += math.exp(20 * cos(x, y))
        total -= math.log(positive / everything)

    loss = one_softmax_loss(*tensors, logit_scale=20, exclude=torch.tensor(exclude), offset=OFFSET)

    assert loss.item() == pytest.approx(total / ROWS, rel=1e-10)
