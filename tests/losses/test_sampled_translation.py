"""Sampled softmax: equal to the full softmax if all tokens are drawn, otherwise an unbiased sum."""

import math

import numpy as np
import pytest
import torch

from hf_echo.losses import sampled_translation_loss, translation_loss


@pytest.fixture
def batch():
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, 6, generator=rng, dtype=torch.float64)
    weight = torch.randn(40, 6, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, 40, (3, 5), generator=rng)
    labels[1, 3:] = -100
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def test_everything_drawn_is_the_whole_softmax(batch):
    hidden, weight, labels = batch
    whole, sampled = translation_loss(*batch), sampled_translation_loss(*batch, samples=40)
    assert sampled.item() == pytest.approx(whole.item(), abs=1e-12)
    # All but one: the sample is everything that is no target, whatever it stands for.
    others = 40 - len(labels[labels >= 0].unique())
    almost = sampled_translation_loss(*batch, samples=others - 1)
    assert almost.item() == pytest.approx(whole.item(), abs=0.2)


def test_equals_the_formula(batch):
    hidden, weight, labels = (x.detach().numpy() for x in batch)
    torch.manual_seed(3)
    loss = sampled_translation_loss(*batch, samples=7).item()
    kept = labels >= 0
    targets = np.unique(labels[kept])
    others = np.setdiff1d(np.arange(40), targets)
    torch.manual_seed(3)
    drawn = others[torch.randperm(len(others))[:7].numpy()]
    total = 0.0
    for h, label in zip(hidden[kept], labels[kept]):
        sums = sum(math.exp(h @ weight[t]) for t in targets)
        sums += sum(math.exp(h @ weight[t]) * len(others) / 7 for t in drawn)
        total += math.log(sums) - h @ weight[label]
    assert loss == pytest.approx(total / kept.sum(), abs=1e-10)


def test_sum_equals_the_formula(batch):
    """The sum over each sentence's tokens, then the mean over the three sentences: 13 tokens in all."""
    torch.manual_seed(3)
    token_mean = sampled_translation_loss(*batch, samples=7).item()
    torch.manual_seed(3)

    summed = sampled_translation_loss(*batch, samples=7, reduction="sum").item()

    assert summed == pytest.approx(token_mean * 13 / 3, rel=1e-12)


def test_sum_with_everything_drawn_is_that_of_the_whole_softmax(batch):
    whole = translation_loss(*batch, reduction="sum").item()

    sampled = sampled_translation_loss(*batch, samples=40, reduction="sum").item()

    assert sampled == pytest.approx(whole, rel=1e-12)


def test_the_partition_sum_is_unbiased(batch):
    """exp(loss + own logit) is the estimated sum: its mean over draws is the true sum."""
    hidden, weight, _ = (x.detach() for x in batch)
    row, label = hidden[0, :1], torch.tensor([4])
    own = (row @ weight[4])[0]
    torch.manual_seed(0)
    found = [(sampled_translation_loss(row, weight, label, samples=10) + own).exp().item() for _ in range(3000)]
    assert np.mean(found) == pytest.approx((row @ weight.T).exp().sum().item(), rel=0.03)
