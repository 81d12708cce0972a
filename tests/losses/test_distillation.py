"""Distillation losses against Algorithm 2 as plain loops;
gradients, and rows of several processes."""

import math

import pytest
import torch

from hf_echo.losses import distillation_loss, distillation_parts, teacher_target

from .test_contrastive import cos

KINDS = ["base", "new", "english", "new", "base", "base", "new"]
N = len(KINDS)
SOURCE_WEIGHTS = {"base": 0.5, "new": 0.0, "english": 1.0}
# OS Table 3
BASE = dict(
    mse_weight=0.5, student_teacher_weight=1.0, teacher_student_weight=0.5, logit_scale=10.0
)
NEW = dict(mse_weight=0.1, student_teacher_weight=1.0, teacher_student_weight=0.0, logit_scale=60.0)
FIGURES = {"base": BASE, "new": NEW, "english": BASE}


def random(n, d, seed):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


STUDENT = random(N, 5, seed=0)
SOURCE = random(N, 5, seed=1)
TARGET = random(N, 5, seed=2)


def algorithm_2(student, source, target, kinds, figures) -> float:
    """Lines 5 to 32, with plain loops. kinds: "base", "new" or "english" of each row; figures:
    of each kind."""
    targets = {"base": (source + target) / 2, "new": target, "english": source}
    z = [targets[kind][i] for i, kind in enumerate(kinds)]
    total = 0.0
    for i, kind in enumerate(kinds):
        row = figures[kind]
        student_teacher = [math.exp(row["logit_scale"] * cos(student[i], other)) for other in z]
        teacher_student = [math.exp(row["logit_scale"] * cos(z[i], other)) for other in student]
        total -= row["student_teacher_weight"] * math.log(student_teacher[i] / sum(student_teacher))
        total -= row["teacher_student_weight"] * math.log(teacher_student[i] / sum(teacher_student))
        total += row["mse_weight"] * ((student[i] - z[i]) ** 2).sum()
    return total / len(student)


@pytest.fixture
def teacher() -> torch.Tensor:
    weights = torch.tensor([SOURCE_WEIGHTS[kind] for kind in KINDS])
    return teacher_target(SOURCE, TARGET, source_weight=weights)


@pytest.fixture
def options() -> dict[str, torch.Tensor]:
    """The columns of Table 3, one number a row."""
    columns = {}
    for name in BASE:
        columns[name] = torch.tensor([FIGURES[kind][name] for kind in KINDS], dtype=torch.float64)
    return columns


def test_is_algorithm_2(teacher, options):
    loss = distillation_loss(STUDENT, teacher, **options)

    expected = algorithm_2(STUDENT.numpy(), SOURCE.numpy(), TARGET.numpy(), KINDS, FIGURES)
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_the_teacher_gets_no_gradient():
    source = random(3, 4, 0).requires_grad_()

    target = teacher_target(source, source, source_weight=0.5)

    assert not target.requires_grad


def test_two_halves_with_all_rows_are_the_whole(teacher, options):
    """The average of the losses that two processes compute from their own rows and all rows."""
    key = torch.arange(N) % 3
    options["exclude"] = key[:, None] == key
    whole = distillation_loss(STUDENT, teacher, **options)

    halves = 0.0
    for rows in (slice(0, 3), slice(3, 7)):
        half = {name: column[rows] for name, column in options.items()}
        everything = dict(all_student=STUDENT, all_teacher=teacher, offset=rows.start)
        loss = distillation_loss(STUDENT[rows], teacher[rows], **everything, **half)
        halves += loss * (rows.stop - rows.start) / N

    torch.testing.assert_close(halves, whole)


def test_excluded_rows_are_no_negatives(teacher, options):
    """Rows 1 and 3 are copies: with `exclude`, each has the loss that it has without the other."""
    exclude = torch.eye(N, dtype=torch.bool)
    exclude[1, 3] = True
    exclude[3, 1] = True
    cosines = torch.nn.functional.cosine_similarity(STUDENT[:, None], teacher, dim=-1)
    logits = options["logit_scale"][:, None] * cosines
    logits[1, 3] = -math.inf
    logits[3, 1] = -math.inf
    expected = options["student_teacher_weight"] * (logits.logsumexp(1) - logits.diagonal())

    parts = distillation_parts(STUDENT, teacher, exclude=exclude, **options)

    torch.testing.assert_close(parts["student_teacher"], expected.mean())
