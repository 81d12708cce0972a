"""Distillation losses against Algorithm 2 as plain loops; gradients, and rows of several processes."""

import numpy as np
import pytest
import torch

from hf_echo.losses import distillation_loss, distillation_parts, teacher_target

from .test_contrastive import cos


def random(n, d, seed):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def algorithm_2(student, source, target, kinds, figures):
    """Lines 5 to 32, with plain loops. kinds: "base", "new" or "english"; figures: kind -> (mse, st, ts, tau)."""

    n, total = len(student), 0.0
    targets = {"base": (source + target) / 2, "new": target, "english": source}
    z = [targets[kind][i] for i, kind in enumerate(kinds)]
    for i in range(n):
        l_mse, l_st, l_ts, tau = figures["new" if kinds[i] == "new" else "base"]
        mse = ((student[i] - z[i]) ** 2).sum()
        found = [np.exp(cos(student[i], z[k]) * tau) for k in range(n)]
        back = [np.exp(cos(z[i], student[k]) * tau) for k in range(n)]
        forward, backward = -np.log(found[i] / sum(found)), -np.log(back[i] / sum(back))
        total += l_st * forward + l_ts * backward + l_mse * mse
    return total / n


FIGURES = {"base": (0.5, 1.0, 0.5, 10.0), "new": (0.1, 1.0, 0.0, 60.0)}  # OS Table 3
KINDS = ["base", "new", "english", "new", "base", "base", "new"]


@pytest.fixture
def batch():
    student, source, target = (random(7, 5, seed) for seed in range(3))
    share = torch.tensor([{"base": 0.5, "new": 0.0, "english": 1.0}[kind] for kind in KINDS])
    z = teacher_target(source, target, source_weight=share)
    columns = [[FIGURES["new" if kind == "new" else "base"][c] for kind in KINDS] for c in range(4)]
    names = ("mse_weight", "student_teacher_weight", "teacher_student_weight", "logit_scale")
    options = {name: torch.tensor(column, dtype=torch.float64) for name, column in zip(names, columns)}
    return student, source, target, z, options


def test_is_algorithm_2(batch):
    student, source, target, z, options = batch
    want = algorithm_2(student.numpy(), source.numpy(), target.numpy(), KINDS, FIGURES)
    assert distillation_loss(student, z, **options).item() == pytest.approx(want, rel=1e-12)


def test_the_teacher_gets_no_gradient():
    source, target = random(3, 4, 0).requires_grad_(), random(3, 4, 1).requires_grad_()
    assert not teacher_target(source, target, source_weight=0.5).requires_grad


def test_two_halves_with_all_rows_are_the_whole(batch):
    """The average of the losses that two processes compute from their own rows and all rows."""
    student, _, _, z, options = batch
    options |= {"exclude": (torch.arange(7) % 3)[:, None] == torch.arange(7) % 3}
    whole = distillation_loss(student, z, **options)
    halves = 0.0
    for rows in (slice(0, 3), slice(3, 7)):
        own = {name: column[rows] for name, column in options.items()}
        loss = distillation_loss(student[rows], z[rows], all_student=student, all_teacher=z, offset=rows.start, **own)
        halves += loss * (rows.stop - rows.start) / 7
    assert torch.allclose(whole, halves)


def test_excluded_rows_are_no_negatives(batch):
    """Rows 1 and 3 are copies: with `exclude`, each has the loss that it has without the other."""
    student, _, _, z, options = batch
    exclude = torch.eye(7, dtype=torch.bool)
    exclude[1, 3] = exclude[3, 1] = True
    have = distillation_parts(student, z, exclude=exclude, **options)["student_teacher"]
    cosine = torch.nn.functional.cosine_similarity(student[:, None], z[None], dim=-1)
    want = 0.0
    for i in range(7):
        others = [j for j in range(7) if j == i or {i, j} != {1, 3}]
        logits = options["logit_scale"][i] * cosine[i, others]
        want += options["student_teacher_weight"][i] * (logits.logsumexp(0) - logits[others.index(i)]) / 7
    assert have.item() == pytest.approx(want.item())
