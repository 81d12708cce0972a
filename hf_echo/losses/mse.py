"""Squared distance to a teacher's embedding. The caller detaches the teacher."""

from __future__ import annotations

from torch import Tensor

from .dtypes import widened


def mse_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over the batch of `||student_i - teacher_i||^2` (Omnilingual SONAR Eq. 7, 10, 12).

    The squared norm is a SUM over dimensions, as in the equations. `torch.nn.MSELoss` takes the
    mean over dimensions, which is a thousand times smaller for 1,024 dimensions. Computed in
    float32 or wider.

    Args:
        student, teacher: (n, d).

    Returns:
        Scalar; 0 without rows.

    Raises:
        ValueError: the shapes differ or are not (n, d).

    Example:
        >>> import torch
        >>> mse_loss(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.zeros(2, 2)).item()
        12.5
    """
    if student.shape != teacher.shape or student.ndim != 2:
        raise ValueError(
            f"student and teacher must both be (n, d), got "
            f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        )
    x, y = widened(student, teacher)
    return (x - y).square().sum() / max(len(student), 1)
