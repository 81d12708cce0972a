"""Contrastive loss and guide filter against loops written from the equations and sentence-transformers."""

import math
import warnings

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss, MultipleNegativesRankingLoss

from hf_echo.losses import contrastive_loss, guide_filter


def cos(a, b) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def eq2(x, y, *, scale, margin, space, guide=None, radius=0.5, exclude=None, offset=0) -> float:
    """Omnilingual SONAR Eq. 2 and 3, a loop in float64."""
    total = 0.0
    for i in range(len(x)):
        own = i + offset
        phi = scale * cos(x[i], y[own])
        positive = math.exp(scale * (cos(x[i], y[own]) - margin)) if space == "cosine" else math.exp(phi - margin)
        negatives = 0.0
        for j in range(len(y)):
            if j == own or (exclude is not None and exclude[i, j]):
                continue
            if guide is not None:
                gx, gy = guide
                if not cos(gx[i], gy[j]) < radius * cos(gx[i], gy[own]):
                    continue
            negatives += math.exp(scale * cos(x[i], y[j]))
        total -= math.log(positive / (positive + negatives))
    return total / len(x)


def embeddings(n=5, total=8, d=6, offset=2, seed=0):
    """Sources near their translations and guides near each other, float64."""
    rng = np.random.default_rng(seed)
    y, guide_y = rng.normal(size=(total, d)), rng.normal(size=(total, 6))
    own = slice(offset, offset + n)
    x = y[own] + 0.7 * rng.normal(size=(n, d))
    guide_x = guide_y[own] + 0.4 * rng.normal(size=(n, 6))
    return x, y, guide_x, guide_y


def tensors(*arrays, dtype=torch.float64):
    return [torch.tensor(array, dtype=dtype) for array in arrays]


@pytest.mark.filterwarnings("ignore:the guide gives some")
@pytest.mark.parametrize("space", ["cosine", "logit"])
@pytest.mark.parametrize(("scale", "margin", "radius"), [(100, 0.3, 0.5), (20, 0.0, 1.0), (1, -0.2, 0.0), (9, 0, 2.0)])
def test_equals_the_equations(space, scale, margin, radius):
    """Without a guide, with one, and with one that knows nothing; the defaults are the paper's."""
    x, y, near, guide_y = embeddings()
    exclude = np.random.default_rng(1).random((5, 8)) < 0.2
    options = dict(logit_scale=scale, margin=margin, margin_space=space, radius=radius)
    options = dict(offset=2) | ({} if (space, scale, margin, radius) == ("cosine", 100, 0.3, 0.5) else options)
    expected = dict(scale=scale, margin=margin, space=space, offset=2)
    tx, ty, gy = tensors(x, y, guide_y)
    assert contrastive_loss(tx, ty, **options).item() == pytest.approx(eq2(x, y, **expected), rel=1e-10)
    options |= dict(guide_target=gy, exclude=torch.tensor(exclude))
    for guide_x in (near, np.random.default_rng(7).normal(size=(5, 6))):
        filtered = contrastive_loss(tx, ty, guide_source=torch.tensor(guide_x), **options)
        want = eq2(x, y, guide=(guide_x, guide_y), radius=radius, exclude=exclude, **expected)
        assert filtered.item() == pytest.approx(want, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("exclude", [None, torch.eye(4, dtype=torch.bool)])
def test_equals_multiple_negatives_ranking_without_margin_and_filter(exclude):
    x, y = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True)
    theirs = MultipleNegativesRankingLoss(model=None, scale=20.0).compute_loss_from_embeddings([x, y], None)
    guide = torch.randn(4, 3)  # with radius inf even opposed guides remove nothing
    ours = contrastive_loss(
        x, y, logit_scale=20, margin=0, guide_source=guide, guide_target=-guide, radius=math.inf, exclude=exclude
    )
    assert torch.allclose(ours, theirs, atol=1e-6)
    for mine, other in zip(torch.autograd.grad(ours, (x, y)), torch.autograd.grad(theirs, (x, y)), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def gist_loss(x, y, guide_x, guide_y, **options):
    """sentence-transformers' GISTEmbedLoss on given embeddings."""

    class Stub(torch.nn.Module):
        def __init__(self, columns):
            super().__init__()
            self.columns = columns

        def forward(self, features):
            return {"sentence_embedding": self.columns[features["column"]]}

    loss = GISTEmbedLoss.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(loss)
    loss.model, loss.guide = Stub([x, y]), Stub([guide_x, guide_y])
    settings = dict(temperature=0.05, margin_strategy="relative", margin=0.0, gather_across_devices=False)
    # Eq. 3 compares sources with targets only; GIST can also contrast sources with sources, and targets.
    settings |= dict(contrast_anchors=False, contrast_positives=False, must_retokenize=False)
    loss.__dict__.update(settings | options)
    loss.similarity_fct, loss.cross_entropy_loss = (torch.nn.CosineSimilarity(dim=-1), torch.nn.CrossEntropyLoss())
    return loss([{"column": 0}, {"column": 1}], None)


@pytest.mark.parametrize("radius", [1.0, 0.5])
def test_equals_gist_filter(radius):
    x, y, guide_x, guide_y = tensors(*embeddings(n=12, total=12, offset=0, seed=5))
    # A guide to which all sentences look somewhat alike removes some negatives even at radius 1.
    noise = torch.tensor(np.random.default_rng(6).normal(size=(12, 6)))
    guide_x, guide_y = guide_y + noise + 2, guide_y + 2
    assert (~guide_filter(guide_x, guide_y, radius=radius)).sum() > 12 + 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the two agree where translations have a positive guide cosine
        ours = contrastive_loss(
            x, y, logit_scale=20, margin=0, guide_source=guide_x, guide_target=guide_y, radius=radius
        )
    assert torch.allclose(ours, gist_loss(x, y, guide_x, guide_y, margin=1 - radius))
    assert not torch.allclose(ours, contrastive_loss(x, y, logit_scale=20, margin=0))


def test_guide_that_finds_a_translation_opposed_warns_and_follows_the_formula():
    guide_x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    # row 0: its translation at -0.6, the other target at -0.8; row 1: at 0.6 and 0.8
    guide_y = torch.tensor([[-0.6, 0.8], [-0.8, 0.6]])
    with pytest.warns(UserWarning, match="cosine <= 0"):
        kept = guide_filter(guide_x, guide_y, radius=0.5)
    assert kept.tolist() == [[False, True], [False, False]]
    guide_y[1] = torch.tensor([0.0, 1.0])  # now unrelated to source 0: not opposed, hence no negative
    with pytest.warns(UserWarning, match="cosine <= 0"):
        assert not guide_filter(guide_x, guide_y, radius=0.5)[0].any()


def test_a_false_negative_is_removed_and_an_equal_guide_cosine_too():
    guide = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # 0 and 1 say the same
    assert guide_filter(guide, guide, radius=1.0).tolist() == [[False, False, True]] * 2 + [[True, True, False]]


def test_a_guide_whose_cosines_are_all_high_leaves_no_negative_and_says_so(recwarn):
    """Strangers have 0.88 of a translation's cosine, as for multilingual-e5."""
    common, own = torch.full((8,), 0.9**0.5), torch.eye(8)
    guide = torch.cat([common.expand(8, 8), own], dim=1)
    with pytest.warns(UserWarning, match=r"leaves 8 of 8 sources without a negative.*radius \(now 0.5\) nearer to 1"):
        assert not guide_filter(guide, guide, radius=0.5).any()
    recwarn.clear()
    assert guide_filter(guide, guide, radius=0.95).sum() == 56 and not recwarn
