"""Sampled softmax: equal to the full softmax if all tokens are drawn, otherwise an unbiased sum."""

import math

import numpy as np
import pytest
import torch

from hf_echo.losses import sampled_translation_loss, translation_loss

VOCABULARY = 40


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states (3, 5, 6), output matrix (40, 6) and labels (3, 5), of which 13 count."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, 6, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, VOCABULARY, (3, 5), generator=generator)
    labels[1, 3:] = -100
    return hidden, weight, labels


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_everything_drawn_is_the_whole_softmax(batch, reduction):
    whole = translation_loss(*batch, reduction=reduction)

    sampled = sampled_translation_loss(*batch, samples=VOCABULARY, reduction=reduction)

    assert sampled.item() == pytest.approx(whole.item(), rel=1e-12)


def test_all_tokens_but_one_are_nearly_the_whole_softmax(batch):
    _, _, labels = batch
    others = VOCABULARY - len(labels[labels >= 0].unique())

    sampled = sampled_translation_loss(*batch, samples=others - 1)

    # The whole softmax, which has one token more.
    assert sampled.item() == pytest.approx(translation_loss(*batch).item(), abs=0.2)


def test_equals_the_formula(batch):
    hidden, weight, labels = (tensor.numpy() for tensor in batch)
    kept = labels >= 0
    targets = np.unique(labels[kept])
    others = np.setdiff1d(np.arange(VOCABULARY), targets)
    torch.manual_seed(3)
    drawn = others[torch.randperm(len(others))[:7].numpy()]
    terms = []
    for h, label in zip(hidden[kept], labels[kept], strict=True):
        exponentials = np.exp(weight @ h)
        # Each of the 7 drawn tokens stands for len(others) / 7.
        partition = exponentials[targets].sum() + exponentials[drawn].sum() * len(others) / 7
        terms.append(math.log(partition) - h @ weight[label])

    torch.manual_seed(3)
    loss = sampled_translation_loss(*batch, samples=7).item()

    assert loss == pytest.approx(np.mean(terms), abs=1e-10)


def test_sum_equals_the_formula(batch):
    """The sum over each sentence's tokens, then the mean over the three sentences:
    13 tokens in all."""
    torch.manual_seed(3)
    token_mean = sampled_translation_loss(*batch, samples=7).item()

    torch.manual_seed(3)
    summed = sampled_translation_loss(*batch, samples=7, reduction="sum").item()

    assert summed == pytest.approx(token_mean * 13 / 3, rel=1e-12)


def test_the_partition_sum_is_unbiased(batch):
    """exp(loss + logit of the target) is the estimated sum: its mean over draws is the true sum."""
    hidden, weight, _ = batch
    row = hidden[0, :1]
    exponentials = (row @ weight.T).exp()
    torch.manual_seed(0)

    sums = []
    for _ in range(300):
        loss = sampled_translation_loss(row, weight, torch.tensor([4]), samples=30)
        sums.append((loss.exp() * exponentials[0, 4]).item())

    assert np.mean(sums) == pytest.approx(exponentials.sum().item(), rel=0.03)
