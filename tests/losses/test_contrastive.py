"""Contrastive loss and guide filter against loops written from the equations and
sentence-transformers."""

import math
import warnings

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import (
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)

from hf_echo.losses import contrastive_loss, guide_filter


def cos(a, b) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def eq2(x, y, *, scale, margin, space, guide=None, radius=0.5, exclude=None, offset=0) -> float:
    """Omnilingual SONAR Eq. 2 and 3, a loop in float64."""
    total = 0.0
    for i, source in enumerate(x):
        translation = i + offset
        positive_cosine = cos(source, y[translation])
        # The margin is taken off the cosine, or off the logit as printed.
        if space == "cosine":
            positive = math.exp(scale * (positive_cosine - margin))
        else:
            positive = math.exp(scale * positive_cosine - margin)
        negatives = 0.0
        for j, target in enumerate(y):
            # No negatives: the translation itself, equal texts, and what the guide takes for one.
            if j == translation or (exclude is not None and exclude[i, j]):
                continue
            if guide is not None:
                gx, gy = guide
                if cos(gx[i], gy[j]) >= radius * cos(gx[i], gy[translation]):
                    continue
            negatives += math.exp(scale * cos(source, target))
        total -= math.log(positive / (positive + negatives))
    return total / len(x)


OFFSET = 2  # source i is translated by target i + 2


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """Five sources near their translations among eight targets,
    and guide embeddings near each other."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(8, 6))
    guide_y = rng.normal(size=(8, 6))
    translations = slice(OFFSET, OFFSET + 5)
    return {
        "x": y[translations] + 0.7 * rng.normal(size=(5, 6)),
        "y": y,
        "guide_x": guide_y[translations] + 0.4 * rng.normal(size=(5, 6)),
        "guide_y": guide_y,
        "unknowing_guide_x": rng.normal(size=(5, 6)),
        "exclude": rng.random((5, 8)) < 0.2,
    }


SETTINGS = pytest.mark.parametrize(
    ("scale", "margin", "radius"), [(100, 0.3, 0.5), (20, 0.0, 1.0), (1, -0.2, 0.0), (9, 0, 2.0)]
)


@SETTINGS
@pytest.mark.parametrize("space", ["cosine", "logit"])
def test_equals_eq_2(arrays, space, scale, margin, radius):
    x = arrays["x"]
    y = arrays["y"]
    options = dict(logit_scale=scale, margin=margin, margin_space=space)

    loss = contrastive_loss(torch.tensor(x), torch.tensor(y), offset=OFFSET, **options)

    # Equation 2 as a loop over the pairs, in float64.
    expected = eq2(x, y, scale=scale, margin=margin, space=space, offset=OFFSET)
    assert loss.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.filterwarnings("ignore:the guide gives some")
@SETTINGS
@pytest.mark.parametrize("guide", ["guide_x", "unknowing_guide_x"])
def test_equals_eq_3(arrays, guide, scale, margin, radius):
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}

    loss = contrastive_loss(
        tensors["x"],
        tensors["y"],
        logit_scale=scale,
        margin=margin,
        guide_source=tensors[guide],
        guide_target=tensors["guide_y"],
        radius=radius,
        exclude=tensors["exclude"],
        offset=OFFSET,
    )

    # Equation 3: the loop, with the filter of the guide.
    expected = eq2(
        arrays["x"],
        arrays["y"],
        scale=scale,
        margin=margin,
        space="cosine",
        guide=(arrays[guide], arrays["guide_y"]),
        radius=radius,
        exclude=arrays["exclude"],
        offset=OFFSET,
    )
    assert loss.item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.fixture
def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 8, generator=generator, requires_grad=True)
    y = torch.randn(4, 8, generator=generator, requires_grad=True)
    return x, y


def test_without_margin_it_is_multiple_negatives_ranking(pairs):
    theirs = MultipleNegativesRankingLoss(model=None, scale=20.0).compute_loss_from_embeddings(
        pairs, None
    )

    ours = contrastive_loss(*pairs, logit_scale=20, margin=0)

    # The loss of sentence-transformers, with its gradients.
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.autograd.grad(ours, pairs), torch.autograd.grad(theirs, pairs))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(dict(exclude=torch.eye(4, dtype=torch.bool)), id="only positives excluded"),
        pytest.param(
            dict(guide_source=torch.eye(4), guide_target=-torch.eye(4), radius=math.inf),
            id="radius inf",
        ),
    ],
)
def test_options_that_remove_no_negative(pairs, options):
    expected = contrastive_loss(*pairs)

    loss = contrastive_loss(*pairs, **options)

    torch.testing.assert_close(loss, expected)


class FixedEmbeddings(torch.nn.Module):
    """Stands where GISTEmbedLoss asks a model or a guide for the embeddings of a column."""

    def __init__(self, columns):
        super().__init__()
        self.columns = columns
        self.tokenizer = None

    def forward(self, features):
        return {"sentence_embedding": self.columns[features["column"]]}


def gist_loss(x, y, guide_x, guide_y, margin):
    """sentence-transformers' GISTEmbedLoss on given embeddings."""
    loss = GISTEmbedLoss.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(loss)
    loss.model = FixedEmbeddings([x, y])
    loss.guide = FixedEmbeddings([guide_x, guide_y])
    loss.temperature = 0.05
    loss.margin_strategy = "relative"
    loss.margin = margin
    loss.gather_across_devices = False
    # Eq. 3 compares sources with targets only; GIST can also contrast sources with sources, and
    # targets.
    loss.contrast_anchors = False
    loss.contrast_positives = False
    loss.must_retokenize = False
    loss.similarity_fct = torch.nn.CosineSimilarity(dim=-1)
    loss.cross_entropy_loss = torch.nn.CrossEntropyLoss()
    return loss([{"column": 0}, {"column": 1}], None)


@pytest.mark.parametrize("radius", [1.0, 0.5])
def test_equals_gist_filter(radius):
    generator = torch.Generator().manual_seed(5)
    y = torch.randn(12, 6, generator=generator)
    x = y + 0.7 * torch.randn(12, 6, generator=generator)
    # A guide to which all sentences look somewhat alike removes some negatives even at radius 1.
    guide_y = torch.randn(12, 6, generator=generator) + 2
    guide_x = guide_y + torch.randn(12, 6, generator=generator)

    with warnings.catch_warnings():
        # the two agree where translations have a positive guide cosine
        warnings.simplefilter("error")
        ours = contrastive_loss(
            x,
            y,
            logit_scale=20,
            margin=0,
            guide_source=guide_x,
            guide_target=guide_y,
            radius=radius,
        )

    torch.testing.assert_close(ours, gist_loss(x, y, guide_x, guide_y, margin=1 - radius))
    assert not torch.allclose(ours, contrastive_loss(x, y, logit_scale=20, margin=0))


def test_an_opposed_translation_follows_the_formula():
    """Row 0: its translation at -0.6, the other target at -0.8. Row 1: at 0.6 and 0.8."""
    guide_x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    guide_y = torch.tensor([[-0.6, 0.8], [-0.8, 0.6]])

    with pytest.warns(UserWarning, match="cosine <= 0"):
        kept = guide_filter(guide_x, guide_y, radius=0.5)

    assert kept.tolist() == [[False, True], [False, False]]


def test_beside_an_opposed_translation_a_stranger_is_no_negative():
    guide_x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    guide_y = torch.tensor([[-0.6, 0.8], [0.0, 1.0]])

    with pytest.warns(UserWarning, match="cosine <= 0"):
        kept = guide_filter(guide_x, guide_y, radius=0.5)

    assert not kept[0].any()


def test_a_target_as_near_as_the_translation_is_no_negative():
    """Rows 0 and 1 say the same."""
    guide = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

    kept = guide_filter(guide, guide, radius=1.0)

    assert kept.tolist() == [[False, False, True], [False, False, True], [True, True, False]]


@pytest.fixture
def guide_with_high_cosines() -> torch.Tensor:
    """Strangers have 0.9 of a translation's cosine, as for multilingual-e5."""
    common = torch.full((8, 8), 0.9**0.5)
    return torch.cat([common * 8**-0.5, torch.eye(8) * 0.1**0.5], dim=1)


def test_a_guide_that_leaves_no_negative_is_told(guide_with_high_cosines):
    guide = guide_with_high_cosines

    with pytest.warns(
        UserWarning,
        match=r"leaves 8 of 8 sources without a negative.*radius \(now 0.5\) nearer to 1",
    ):
        kept = guide_filter(guide, guide, radius=0.5)

    assert not kept.any()


def test_two_sources_without_a_negative_are_told():
    guide = torch.tensor([[1.0, 0.0], [1.0, 0.0]])

    with pytest.warns(UserWarning, match="leaves 2 of 2 sources without a negative"):
        guide_filter(guide, guide)


def test_a_batch_of_one_has_no_negative_to_tell_of(recwarn):
    guide = torch.tensor([[1.0, 0.0]])

    guide_filter(guide, guide)

    assert not recwarn


def test_some_sources_without_a_negative_are_usual(recwarn):
    """The first two of eight are near all others."""
    guide = torch.eye(8)
    guide[0] += guide[2:].sum(0)
    guide[1] += guide[2:].sum(0)

    kept = guide_filter(guide, guide, radius=0.1)

    assert kept.any(1).tolist() == [False] * 2 + [True] * 6
    assert not recwarn


def test_a_radius_near_1_suits_high_cosines(guide_with_high_cosines, recwarn):
    guide = guide_with_high_cosines

    kept = guide_filter(guide, guide, radius=0.95)

    assert kept.sum() == 8 * 7
    assert not recwarn
