"""Importance of each unit of an encoder: the mean square of its values, estimated from the weights that write it, times
the squared norm of the weights that read it. Tensors are float64 on the CPU. `prune` cuts the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .layout import Attention, Layer, Layout

Carried = dict[nn.Module, Tensor]
"""Module -> (width,) mean squares of its input values. For a norm they are 1 on average."""


def carried_by_weights(layout: Layout) -> Carried:
    """Estimate the values from weights: inputs have length 1, the residual stream is that of `stream_by_weights`."""
    stream = stream_by_weights(layout)
    carried: Carried = {norm: stream for norm, _ in layout.sites(range(len(layout.layers)))}
    for layer in layout.layers:
        attention = layer.attention
        values = _written(attention.value, layer.norms[0][0]).view(-1, 1, attention.head_dim)
        carried[attention.output] = values.expand(-1, attention.of_group, -1).flatten()
        units = [_written(linear, layer.norms[1][0]) for linear in layer.enter]
        carried[layer.leave] = torch.stack(units).prod(0)
    return carried


def hidden_scores(layout: Layout, layers: Sequence[int], carried: Carried) -> Tensor:
    """(hidden_size,): importance of the dimensions of the residual stream; all norms of kept layers count equally."""
    total = 0.0
    for norm, readers in layout.sites(layers):
        score = carried[norm] * _norm_weight(norm).square() * sum(_read(linear) for linear in readers)
        total = total + score / score.sum().clamp(min=1e-300)
    return total


def head_scores(attention: Attention, carried: Carried) -> Tensor:
    """(key and value heads, query heads of each, head_dim): the values that a head adds to the residual stream."""
    score = carried[attention.output] * _read(attention.output)
    return score.view(attention.groups, attention.of_group, attention.head_dim)


def unit_scores(layer: Layer, carried: Carried) -> Tensor:
    """(intermediate_size,): the units of the feed-forward block."""
    return carried[layer.leave] * _read(layer.leave)


def stream_by_weights(layout: Layout) -> Tensor:
    """(hidden_size,), 1 on average: how strongly the weights write each dimension of the residual stream."""
    writers = [linear for layer in layout.layers for linear in (layer.attention.output, layer.leave)]
    written = [_read(layout.embeddings[0]), *map(_written, writers)]
    stream = sum(share / share.sum().clamp(min=1e-300) for share in written)
    return stream / stream.mean().clamp(min=1e-300)


def _norm_weight(norm: nn.Module) -> Tensor:
    return norm.weight.detach().double().cpu()


def _read(module: nn.Module) -> Tensor:
    """(in,) squared norms of the columns; 1 for no projection."""
    if isinstance(module, nn.Identity):
        return torch.ones((), dtype=torch.float64)
    return torch.linalg.vector_norm(module.weight.detach(), dim=0, dtype=torch.float64).square().cpu()


def _written(linear: nn.Module, norm: nn.Module | None = None) -> Tensor:
    """(out,) squared norms of the rows, the inputs scaled by the norm before them."""
    weight = linear.weight.detach().double().cpu()
    return (weight if norm is None else weight * _norm_weight(norm)).square().sum(1)
