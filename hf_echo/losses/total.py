"""Total loss of a stage: the weighted sum of its named parts."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from .checks import check_finite_numbers


def weighted_total(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Weighted sum of scalar parts (Omnilingual SONAR Eq. 4 and 6: alpha 0.05 on contrastive, beta 1 on translation).

    Parts without a weight are for the log only.

    Raises:
        ValueError: no weights, a weight for an unknown part, or one that is NaN or infinite.

    Example:
        >>> import torch
        >>> parts = {"contrastive": torch.tensor(2.0), "translation": torch.tensor(3.0)}
        >>> weighted_total(parts, {"contrastive": 0.05, "translation": 1.0}).item()
        3.0999...
    """
    unknown = sorted(set(weights) - set(parts))
    if unknown or not weights:
        raise ValueError(f"weights name {unknown or 'nothing'}, the parts are {sorted(parts)}")
    terms = []
    for name, weight in weights.items():
        check_finite_numbers(**{f"weight of {name}": weight})
        terms.append(weight * parts[name])
    return sum(terms[1:], start=terms[0])
