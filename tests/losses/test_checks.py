"""Every loss takes float32 beside float64 and refuses in one line what torch would refuse in its own words."""

from __future__ import annotations

import math

import pytest
import torch

from hf_echo.losses import (
    contrastive_loss,
    cosine_loss,
    distillation_loss,
    hard_negatives_loss,
    mse_loss,
    next_embedding_loss,
    one_softmax_loss,
    ranking_contrastive_loss,
    self_objective_loss,
    split_softmax_loss,
    teacher_target,
    translation_loss,
    unmasking_loss,
    weighted_total,
)

N, D = 4, 6
MASK = torch.ones(N, 2, dtype=torch.bool)
RANKS = torch.tensor([[1, 2, 3, 4]] * N)
LABELS = torch.tensor([0, 2, -100, 1], dtype=torch.int32)


def negatives(dtype=torch.float32):
    return torch.randn(N, 2, D, generator=torch.Generator().manual_seed(2)).to(dtype)


PAIRS = {
    "contrastive": contrastive_loss,
    "cosine": cosine_loss,
    "distillation": distillation_loss,
    "hard negatives": lambda x, y: hard_negatives_loss(x, y, negatives(), MASK),
    "mse": mse_loss,
    "next embedding": lambda x, y: next_embedding_loss(x, y, document=torch.tensor([0, 0, 1, 1])),
    "one softmax": lambda x, y: one_softmax_loss(x, y, negatives(), MASK),
    "ranking": lambda x, y: sum(ranking_contrastive_loss(x, y, RANKS, temperatures=[0.1, 0.2, 0.3]).values()),
    "self objective": lambda x, y: self_objective_loss(x[None], y[None]),
    "split softmax": lambda x, y: split_softmax_loss(x, y, negatives(torch.float64), MASK),
    "translation": lambda x, y: translation_loss(x, y, LABELS),
    "unmasking": lambda x, y: unmasking_loss(x, y, torch.zeros(N), LABELS),
}


@pytest.mark.parametrize("loss", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("other", [torch.float64, torch.bfloat16])
def test_two_dtypes(loss, other):
    """Float32 beside another dtype gives the loss of the values in float64, with a gradient for both."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(N, D, generator=generator), torch.randn(N, D, generator=generator).to(other)
    x.requires_grad_()
    y.requires_grad_()
    have = loss(x, y)
    assert have.item() == pytest.approx(loss(x.detach().double(), y.detach().double()).item(), rel=1e-4)
    have.backward()
    assert x.grad.isfinite().all() and y.grad.isfinite().all()


@pytest.mark.parametrize("shapes", [((0, 3, D), (0, 2, D)), ((2, 0, D), (2, 3, D)), ((2, 3, D), (2, 0, D))])
def test_no_tokens_are_a_loss_of_0(shapes):
    x, y = (torch.ones(shape, requires_grad=True) for shape in shapes)
    loss = self_objective_loss(x, y)
    loss.backward()
    assert loss.item() == 0 and not x.grad.any() and not y.grad.any()


X = torch.ones(N, D)
REFUSED = {
    "total": (lambda: weighted_total({"a": X.sum()}, {"a": math.nan}), "weight of a must be finite, got nan"),
    "margin": (lambda: contrastive_loss(X, X, margin=math.inf), "margin must be finite, got inf"),
    "weight": (lambda: distillation_loss(X, X, mse_weight=math.nan), "mse_weight must be finite, got nan"),
    "share": (lambda: teacher_target(X, X, source_weight=math.nan), "source_weight must be finite, got nan"),
    "scale": (lambda: self_objective_loss(X[None], X[None], scale=math.inf), "scale must be finite, got inf"),
    "exclude": (lambda: distillation_loss(X, X, exclude=torch.zeros(N, N)), "exclude must be bool of shape (4, 4)"),
    "exclude of ranks": (
        lambda: ranking_contrastive_loss(
            X, X, RANKS, temperatures=[0.1, 0.2, 0.3], exclude=torch.zeros(N, 1, dtype=torch.bool)
        ),
        "exclude must be bool of shape (4, 4), got torch.bool of (4, 1)",
    ),
    "key": (
        lambda: next_embedding_loss(X, X, document=torch.zeros(N), key=torch.zeros(3)),
        "key must be (4,), got (3,)",
    ),
}


@pytest.mark.parametrize("call, message", REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)
