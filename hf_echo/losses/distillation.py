"""Teacher-student distillation: targets and losses of the omnilingual extension
(OS 4.5.2, Algorithm 2)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .contrastive import cosine
from .dtypes import widened


def teacher_target(source: Tensor, target: Tensor, *, source_weight: Tensor | float) -> Tensor:
    """The student's target: a mixture of the teacher's embeddings of both sides
    (Omnilingual SONAR Eq. 8, Table 3).

    Args:
        source, target: (n, d), the teacher's embeddings of both sides.
        source_weight: (n,) or a number, the weight of the source's embedding: 0.5 for a
            foundational language, 0 for a new language (unknown to the teacher), 1 for English,
            whose embeddings stay fixed.

    Returns:
        (n, d), `source_weight * source + (1 - source_weight) * target`, without gradient.
    """
    weight = torch.as_tensor(source_weight, dtype=source.dtype, device=source.device)
    if weight.ndim:
        weight = weight[:, None]
    return (weight * source + (1 - weight) * target).detach()


def distillation_parts(  # noqa: PLR0913 (the symbols of OS Eq. 8 to 11)
    student: Tensor,
    teacher: Tensor,
    *,
    student_teacher_weight: Tensor | float = 1.0,
    teacher_student_weight: Tensor | float = 0.5,
    mse_weight: Tensor | float = 0.5,
    logit_scale: Tensor | float = 10.0,
    all_student: Tensor | None = None,
    all_teacher: Tensor | None = None,
    offset: int = 0,
    exclude: Tensor | None = None,
) -> dict[str, Tensor]:
    """The three losses of Omnilingual SONAR Eq. 9-11, each weighted per example and averaged over
    the n rows.

    Section 4.5.2 says that a larger scale makes the softmax smoother; by Eq. 9 it makes it sharper.
    This function follows Eq. 9 and Algorithm 2: scale 10 for base languages, 60 for new ones.

    Args:
        student: (n, d), this process's student embeddings, of any length.
        teacher: (n, d), their targets by `teacher_target`.
        student_teacher_weight, teacher_student_weight, mse_weight: lambda of Eq. 11, a number or
            (n,).
        logit_scale: tau of Eq. 9, a number or (n,), used in both directions (Algorithm 2, line 26).
        all_student, all_teacher: (N, d), the rows of all processes (`gather_with_grad`); default:
            this process's rows. Row i of this process is row `offset + i` there.
        exclude: (n, N) bool, True = not a negative (a second copy of the same target). Ignored for
            positives.

    Returns:
        {"student_teacher", "teacher_student", "mse"}: scalars; their sum is the loss.
    """
    scale = _by_row(logit_scale, student)
    all_student = student if all_student is None else all_student
    all_teacher = teacher if all_teacher is None else all_teacher
    forward = cosine(student, all_teacher)  # (n, N)
    if all_student is student and all_teacher is teacher:
        backward = forward.T  # in one process, one product serves both directions
    else:
        backward = cosine(teacher, all_student)
    positives = torch.arange(len(student), device=student.device) + offset

    def info_nce(cosines: Tensor) -> Tensor:
        logits = scale[:, None] * cosines
        if exclude is not None:
            dropped = exclude.scatter(1, positives[:, None], False)
            logits = logits.masked_fill(dropped, -torch.inf)
        return F.cross_entropy(logits, positives, reduction="none")

    def weighted_mean(weight: Tensor | float, row_losses: Tensor) -> Tensor:
        return (_by_row(weight, student) * row_losses).sum() / max(len(student), 1)

    x, y = widened(student, teacher)
    squared_distances = (x - y).square().sum(1)
    return {
        "student_teacher": weighted_mean(student_teacher_weight, info_nce(forward)),
        "teacher_student": weighted_mean(teacher_student_weight, info_nce(backward)),
        "mse": weighted_mean(mse_weight, squared_distances),
    }


def distillation_loss(student: Tensor, teacher: Tensor, **options: Any) -> Tensor:
    """Distillation loss (Omnilingual SONAR Eq. 11): the sum of `distillation_parts`, a scalar.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> distillation_loss(x, x, teacher_student_weight=0.0, logit_scale=1.0).item()  # log(1 + e^-1)
        0.31326...
    """
    parts = distillation_parts(student, teacher, **options)
    return parts["student_teacher"] + parts["teacher_student"] + parts["mse"]


def _by_row(value: Tensor | float, like: Tensor) -> Tensor:
    """Expand a number or (n,) to (n,), float32 or wider."""
    wide = torch.promote_types(like.dtype, torch.float32)
    value = torch.as_tensor(value, dtype=wide, device=like.device)
    return value.expand(len(like)) if value.ndim == 0 else value
