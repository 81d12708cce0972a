"""Total loss of a stage: the weighted sum of its named parts."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def weighted_total(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Weighted sum of scalar parts (Omnilingual SONAR Eq. 4 and 6: alpha 0.05 on contrastive, beta
    1 on translation).

    Parts without a weight are for the log only.

    Example:
        >>> import torch
        >>> parts = {"contrastive": torch.tensor(2.0), "translation": torch.tensor(3.0)}
        >>> weighted_total(parts, {"contrastive": 0.05, "translation": 1.0}).item()
        3.0999...
    """
    terms = [weight * parts[name] for name, weight in weights.items()]
    return sum(terms[1:], start=terms[0])
