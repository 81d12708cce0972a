"""What all losses have in common: dtypes, gradients, and one line for what they refuse."""

from inspect import signature

import pytest
import torch

from hf_echo.losses import (
    contrastive_loss,
    cosine_loss,
    distillation_loss,
    distillation_parts,
    gmm_loss,
    hard_negatives_loss,
    koleo_loss,
    mse_loss,
    next_embedding_loss,
    one_softmax_loss,
    ranking_contrastive_loss,
    sampled_translation_loss,
    self_objective_loss,
    split_softmax_loss,
    translation_loss,
    unmasking_loss,
)

N, D = 4, 6
MASK = torch.tensor([[True, True], [True, False], [False, False], [True, True]])
RANKS = torch.tensor([[1, 2, 3, 4]] * N)
LABELS = torch.tensor([0, 2, -100, 1], dtype=torch.int32)
TEMPERATURES = [0.1, 0.2, 0.3]
X = torch.ones(N, D)
WIDE = torch.ones(N, D + 1)


def random(*shape, seed=2, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


GUIDE = dict(
    guide_source=random(N, 3, seed=3) + 1,
    guide_target=random(N, 3, seed=3) + 1,
    radius=0.9,
    logit_scale=5.0,
)
PAIRS = {
    "contrastive": contrastive_loss,
    "contrastive with a guide": lambda x, y: contrastive_loss(
        x, y, exclude=MASK[:, [0, 1, 1, 1]], **GUIDE
    ),
    "cosine": cosine_loss,
    "distillation": distillation_loss,
    "hard negatives": lambda x, y: hard_negatives_loss(x, y, random(N, 2, D), MASK),
    "mse": mse_loss,
    "next embedding": lambda x, y: next_embedding_loss(x, y, document=torch.tensor([0, 0, 1, 1])),
    "one softmax": lambda x, y: one_softmax_loss(x, y, random(N, 2, D), MASK, **GUIDE),
    "ranking": lambda x, y: sum(
        ranking_contrastive_loss(x, y, RANKS, temperatures=TEMPERATURES).values()
    ),
    "sampled translation": lambda x, y: sampled_translation_loss(x, y, LABELS, samples=1),
    "self objective": lambda x, y: self_objective_loss(
        x[None], y[None], MASK.flatten()[None, :4], scale=3.0
    ),
    "split softmax": lambda x, y: split_softmax_loss(
        x, y, random(N, 2, D, dtype=torch.float64), MASK, **GUIDE
    ),
    "translation": lambda x, y: translation_loss(x, y, LABELS, chunk_size=3),
    "unmasking": lambda x, y: unmasking_loss(x, y, torch.zeros(N), LABELS),
}


def test_defaults_are_the_printed_values():
    """OS 4.4 and Table 12 (contrastive), Algorithm 2 and Eq. 11 (distillation), Eq. 14, Eq. 15;
    EMMA-X's code."""
    printed = {
        contrastive_loss: dict(logit_scale=100, margin=0.3, margin_space="cosine", radius=0.5),
        split_softmax_loss: dict(gamma=0.8),
        distillation_parts: dict(
            student_teacher_weight=1, teacher_student_weight=0.5, mse_weight=0.5, logit_scale=10
        ),
        self_objective_loss: dict(scale=500),
        next_embedding_loss: dict(logit_scale=20),
        gmm_loss: dict(smoothing=0.3),
    }

    for loss, values in printed.items():
        for name, value in values.items():
            assert signature(loss).parameters[name].default == value, (loss.__name__, name)


@pytest.mark.parametrize("loss", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("other", [torch.float64, torch.bfloat16])
def test_two_dtypes(loss, other):
    """Float32 beside another dtype gives the loss of the values in float64,
    with a gradient for both."""
    x = random(N, D, seed=1).requires_grad_()
    y = random(N, D, seed=4, dtype=other).requires_grad_()
    torch.manual_seed(0)
    expected = loss(x.detach().double(), y.detach().double())

    torch.manual_seed(0)
    mixed = loss(x, y)

    assert mixed.item() == pytest.approx(expected.item(), rel=1e-4)
    mixed.backward()
    assert x.grad.isfinite().all()
    assert y.grad.isfinite().all()


@pytest.mark.parametrize(
    "name", [name for name in PAIRS if "translation" not in name and name != "unmasking"]
)
def test_under_autocast_bfloat16_is_computed_in_float32(name):
    """Products with a vocabulary are not (`test_translation.py`)."""
    x = random(N, D, seed=1, dtype=torch.bfloat16)
    y = random(N, D, seed=4, dtype=torch.bfloat16)
    expected = PAIRS[name](x.double(), y.double())

    with torch.autocast("cpu", torch.bfloat16):
        loss = PAIRS[name](x, y)

    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("loss", PAIRS.values(), ids=PAIRS)
def test_gradients(loss):
    x = random(N, D, seed=1, dtype=torch.float64).requires_grad_()
    y = random(N, D, seed=4, dtype=torch.float64).requires_grad_()

    def seeded_loss(x, y):
        torch.manual_seed(1)
        return loss(x, y)

    assert torch.autograd.gradcheck(seeded_loss, [x, y])


NONE = torch.ones(0, D)
NO_LABELS = torch.full((N,), -100)
ALL = torch.ones(N, N, dtype=torch.bool)
NOTHING = {  # nothing to learn from
    "contrastive, no rows": lambda x: contrastive_loss(x[:0], x),
    "contrastive, no negatives": lambda x: contrastive_loss(x, x + 1, exclude=ALL),
    "cosine": lambda x: cosine_loss(x[:0], NONE),
    "next embedding": lambda x: next_embedding_loss(x[:0], NONE, document=torch.zeros(0)),
    "ranking": lambda x: sum(
        ranking_contrastive_loss(x, X, 0 * RANKS + 4, temperatures=TEMPERATURES).values()
    ),
    "self objective, no rows": lambda x: self_objective_loss(x[None][:0], X[None][:0]),
    "self objective, no source": lambda x: self_objective_loss(x[None, :0], X[None]),
    "self objective, no target": lambda x: self_objective_loss(x[None], X[None, :0]),
    "translation": lambda x: translation_loss(x, x, NO_LABELS),
    "unmasking": lambda x: unmasking_loss(x, X, torch.zeros(N), NO_LABELS),
}


@pytest.mark.parametrize("loss", NOTHING.values(), ids=NOTHING)
def test_nothing_is_a_loss_of_0_with_gradients_of_0(loss):
    x = random(N, D).requires_grad_()

    value = loss(x)
    value.backward()

    assert value.item() == 0
    assert not x.grad.any()


REFUSED = {  # what torch would broadcast, or what has no neighbour
    "mse of other widths": (lambda: mse_loss(X, WIDE), "must both be (n, d)"),
    "mse of vectors": (lambda: mse_loss(X[0], X[0]), "must both be (n, d)"),
    "koleo of one row": (lambda: koleo_loss(X[:1]), "at least two rows"),
}


@pytest.mark.parametrize(("loss", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line(loss, message):
    with pytest.raises(ValueError) as error:
        loss()

    assert message in str(error.value)
