"""Contrastive loss (InfoNCE) with an additive margin on the positive and a guide that filters false
negatives.

Cosines and softmax are computed in float32 (float64 for float64 inputs) even under autocast: at
logit scale 100, a bfloat16 cosine changes the logit by up to 0.4. `gather.py` collects the
embeddings of several processes.
"""

from __future__ import annotations

import math
import warnings
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .dtypes import widened

MarginSpace = Literal["cosine", "logit"]


def contrastive_loss(  # noqa: PLR0913 (the symbols of OS Eq. 2 and 3)
    source: Tensor,
    target: Tensor,
    *,
    logit_scale: float = 100.0,
    margin: float = 0.3,
    margin_space: MarginSpace = "cosine",
    guide_source: Tensor | None = None,
    guide_target: Tensor | None = None,
    radius: float = 0.5,
    exclude: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """Contrastive loss (InfoNCE) of one direction, source -> target (Omnilingual SONAR Eq. 2-3,
    ECHO Eq. 1-2).

    Mean over the sources of `-log( e^p / (e^p + sum_j e^(logit_scale * cos(x_i, y_j))) )` with
    `p = logit_scale * (cos(x_i, y_i) - margin)`; the sum runs over the negatives j that the filter
    keeps. ECHO's Eq. 1 omits the logarithm; InfoNCE has it.

    Args:
        source: (n, d), the rows of this process, of any length (the loss uses cosines).
        target: (N, d), all rows, possibly gathered over processes. The translation of `source[i]`
            is `target[offset + i]`; the other rows are its candidate negatives.
        logit_scale: the papers' tau, 100.
        margin: subtracted from the positive only.
        margin_space: "cosine" subtracts the margin from the cosine, as LaBSE
            (https://arxiv.org/abs/2007.01852); "logit" subtracts it from the scaled cosine, as Eq.
            2 is printed (there, 0.3 has little effect).
        guide_source, guide_target: (n, g) and (N, g), embeddings of the same sentences by a frozen
            encoder, both or neither. They switch on `guide_filter`.
        radius: r of Eq. 3, used only with a guide; `math.inf` keeps every negative.
        exclude: (n, N) bool, True = never a negative, such as a second copy of the translation.
            Entries of positives are ignored, so `ids[:, None] == all_ids` works.
        offset: index in `target` of the translation of `source[0]`.

    Returns:
        Scalar, the mean over the n local rows. Rows without negatives count with loss 0; no rows
        give 0.

    Example:
        >>> import torch
        >>> source = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> contrastive_loss(source, source, logit_scale=1.0, margin=0.0).item()  # log(1 + e^-1)
        0.31326...
        >>> contrastive_loss(source, source).item() < 1e-6
        True
    """
    dropped = _dropped(source, target, guide_source, guide_target, radius, exclude, offset)
    logits = logit_scale * cosine(source, target)  # (n, N)
    margin_logit = margin
    if margin_space == "cosine":
        margin_logit = logit_scale * margin
    return _softmax_loss(logits, dropped, margin_logit, offset)


def guide_filter(
    guide_source: Tensor, guide_target: Tensor, *, radius: float = 0.5, offset: int = 0
) -> Tensor:
    """Select the negatives of each source by the similarities of a guide encoder
    (Omnilingual SONAR Eq. 3).

    As in GISTEmbed (https://arxiv.org/abs/2402.16829), target j is a negative of source i if and
    only if `cos(gx_i, gy_j) < radius * cos(gx_i, gy_i)`.

    Eq. 3 assumes that the guide gives translations a positive cosine. If a cosine c is <= 0 (a
    wrong pair, or a language that the guide does not know), the formula is applied as printed, with
    a UserWarning. Then only targets with cosine < radius * c <= 0 remain, perhaps none. For radius
    < 1 some of them may be closer to the source than its translation is, and a larger radius keeps
    fewer of them, not more. A guide whose cosines are all high leaves no negatives unless the
    radius is near 1: where more than nine in ten sources have none, a UserWarning says so.

    Args:
        guide_source: (n, g), embeddings of the sources.
        guide_target: (N, g), embeddings of the targets; the translation of row i is at `offset +
            i`.
        radius: r >= 0. 1 is GISTEmbed's rule, smaller is stricter, `math.inf` disables the filter.

    Returns:
        (n, N) bool, True = j is a negative of i. Never True for i's own translation.

    Example:
        >>> import torch
        >>> guide = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> guide_filter(guide, guide, radius=0.7)  # 0 and 1 have cosine 0.8, 1 and 2 have 0.6
        tensor([[False, False,  True],
                [False, False,  True],
                [ True,  True, False]])
    """
    translations = _positions(guide_source, guide_target, offset)
    if radius == math.inf:
        return ~translations
    with torch.no_grad():
        similarity = cosine(guide_source, guide_target)  # (n, N)
        positive = similarity.diagonal(offset).unsqueeze(1)  # (n, 1)
        kept = (similarity < radius * positive) & ~translations
        # The warnings synchronise the device, so a compiled graph skips them.
        if not torch.compiler.is_compiling():
            _warn_of_unsuited_guide(positive, kept, radius)
        return kept


def _warn_of_unsuited_guide(positive: Tensor, kept: Tensor, radius: float) -> None:
    """Warn where the guide filters by negative cosines, or leaves hardly a negative."""
    if bool((positive <= 0).any()):
        warnings.warn(
            "the guide gives some translations a cosine <= 0: these rows keep only negatives of negative "
            "cosine; check the pairs, or whether the guide knows the language",
            stacklevel=3,
        )
    sources = len(kept)
    without = sources - int(kept.any(1).sum())
    # A batch of a row or none says nothing.
    if sources > 1 and without > 0.9 * sources:
        warnings.warn(
            f"the guide leaves {without} of {sources} sources without a negative, so they learn nothing: set"
            f" radius (now {radius:g}) nearer to 1, as a guide whose cosines are all high needs",
            stacklevel=3,
        )


def cosine(x: Tensor, y: Tensor) -> Tensor:
    """Cosines of all pairs of rows, (n, d) and (N, d) -> (n, N),
    in float32 or wider even under autocast."""
    with torch.autocast(x.device.type, enabled=False):
        x, y = widened(x, y)
        return F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T


def _positions(source: Tensor, target: Tensor, offset: int) -> Tensor:
    """(n, N) bool, True at each source's translation."""
    positions = torch.zeros(len(source), len(target), dtype=torch.bool, device=source.device)
    positions.diagonal(offset).fill_(True)
    return positions


def _dropped(
    source: Tensor,
    target: Tensor,
    guide_source: Tensor | None,
    guide_target: Tensor | None,
    radius: float,
    exclude: Tensor | None,
    offset: int,
) -> Tensor:
    """(n, N) bool, True = excluded from the softmax (never a positive)."""
    translations = _positions(source, target, offset)
    dropped = torch.zeros_like(translations)
    if guide_source is not None:
        dropped |= ~guide_filter(guide_source, guide_target, radius=radius, offset=offset)
    if exclude is not None:
        dropped |= exclude
    return dropped & ~translations


def _softmax_loss(logits: Tensor, dropped: Tensor, margin_logit: float, offset: int) -> Tensor:
    """Mean cross-entropy over the rows of (n, >= offset + n) logits,
    the positive of row i at offset + i."""
    positives = torch.arange(len(logits), device=logits.device) + offset
    if margin_logit:
        margins = torch.zeros_like(logits)
        margins.diagonal(offset).fill_(margin_logit)
        logits = logits - margins
    logits = logits.masked_fill(dropped, -math.inf)
    return F.cross_entropy(logits, positives, reduction="sum") / max(len(logits), 1)
