"""KoLeo: spread embeddings over the unit sphere by the distance to their nearest neighbour in the
batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .dtypes import widened

EPS = 1e-8


def koleo_loss(embeddings: Tensor) -> Tensor:
    """Differential entropy estimator of Kozachenko and Leonenko, as a loss (MEXMA section 3, "The
    KoLeo loss").

    `-1/n sum_i log(d_i + eps)` with `d_i = min over j != i of ||x_i - x_j + eps||`. The rows are
    scaled to length 1 first, as in DINOv2 (https://arxiv.org/abs/2304.07193) and Sablayrolles et
    al. (https://arxiv.org/abs/1806.03198); MEXMA's formula does not say so. eps is 1e-8. Computed
    in float32 (float64 for float64 inputs), also under autocast.

    The neighbour is searched among the rows that are given: in training, those of one device.

    Args:
        embeddings: (n, d), n >= 2, of any length.

    Returns:
        Scalar. About -log of the distance between neighbours: smaller means more spread.

    Raises:
        ValueError: fewer than two rows.

    Example:
        >>> import torch
        >>> round(koleo_loss(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).item(), 4)  # -log of the square root of 2
        -0.3466
    """
    if len(embeddings) < 2:
        raise ValueError(
            f"KoLeo needs at least two rows to find a nearest neighbour, got {len(embeddings)}"
        )
    with torch.autocast(embeddings.device.type, enabled=False):
        (embeddings,) = widened(embeddings)
        unit = F.normalize(embeddings, dim=-1, eps=EPS)
        with torch.no_grad():
            # Cosines of nearly equal rows are all 1 in float32; distances from the mean still tell
            # which are close.
            centred = unit - unit.mean(0)
            nearest = torch.cdist(centred, centred).fill_diagonal_(torch.inf).argmin(1)
        distance = F.pairwise_distance(unit, unit[nearest], eps=EPS)
        return -(distance + EPS).log().mean()
