"""The poolings of an encoder: how the states of a text's tokens become one vector.

`POOLINGS` is the only list of them. The configuration, the encoder, the packed path of a CPU, the
export to sentence-transformers, the converters and the checks of recipes read it: a new pooling is
a new entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


def first_token(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state of each text's first token: the papers' CLS token (OS 4.2)."""
    first_place = mask.long().argmax(-1)
    rows = torch.arange(states.shape[0], device=states.device)
    return states[rows, first_place]


def last_token(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The state of each text's last token, with padding on either side."""
    tokens = mask.shape[1]
    last_place = tokens - 1 - mask.long().flip(-1).argmax(-1)
    rows = torch.arange(states.shape[0], device=states.device)
    return states[rows, last_place]


def mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over each text's tokens, summed in float32 or wider;
    zeros for a text without tokens."""
    weights = mask.to(states.dtype)[..., None]  # (texts, tokens, 1)
    sum_dtype = torch.promote_types(states.dtype, torch.float32)
    total = (states * weights).sum(1, dtype=sum_dtype)
    count = weights.sum(1, dtype=sum_dtype)
    return total / count.clamp(min=1)


def weighted_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over each text's tokens, the n-th with weight n (SGPT);
    zeros for a text without tokens."""
    # 1 for the first token of a text, with padding on either side.
    places = mask.long().cumsum(1) * mask
    sum_dtype = torch.promote_types(states.dtype, torch.float32)
    weights = places.to(sum_dtype)[..., None]  # (texts, tokens, 1)
    total = (states * weights).sum(1, dtype=sum_dtype)
    return total / weights.sum(1).clamp(min=1)


class Pooling(NamedTuple):
    """One way to pool.

    Attributes:
        pool: (texts, tokens, width) states and (texts, tokens) attention mask -> (texts, width).
        module_name: `pooling_mode` of sentence-transformers since 5.4.
        module_flag: the field of 1_Pooling/config.json that older versions and servers read.
        reads_only_first: no other state of the last layer is needed, so a packed encoder does not
            compute them.
    """

    pool: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    module_name: str
    module_flag: str
    reads_only_first: bool = False


POOLINGS: dict[str, Pooling] = {
    "cls": Pooling(first_token, "cls", "pooling_mode_cls_token", reads_only_first=True),
    "mean": Pooling(mean, "mean", "pooling_mode_mean_tokens"),
    "last": Pooling(last_token, "lasttoken", "pooling_mode_lasttoken"),
    "weighted_mean": Pooling(weighted_mean, "weightedmean", "pooling_mode_weightedmean_tokens"),
}


def check_pooling(name: str, field: str = "pooling") -> None:
    """Raises ValueError, with the name of the field, for a pooling that is not in `POOLINGS`."""
    if name not in POOLINGS:
        raise ValueError(f"{field} must be one of {', '.join(map(repr, POOLINGS))}, not {name!r}")


def pooling_of_module(module_name: str | tuple[str, ...]) -> str | None:
    """Our name of a pooling of sentence-transformers;
    None for one that an EchoEncoder does not have."""
    for name, pooling in POOLINGS.items():
        if pooling.module_name == module_name:
            return name
    return None
