"""Importance of each unit of an encoder: the mean square of its values, estimated from the weights
that write it, times the squared norm of the weights that read it. Tensors are float64 on the CPU.
`prune` cuts the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .layout import Attention, Layer, Layout

Carried = dict[nn.Module, Tensor]
"""Module -> (width,) mean squares of its input values. For a norm they are 1 on average."""


def carried_by_weights(layout: Layout) -> Carried:
    """Estimate the values from weights: inputs have length 1,
    the residual stream is that of `stream_by_weights`."""
    stream = stream_by_weights(layout)
    carried: Carried = {}
    for norm, _ in layout.sites(range(len(layout.layers))):
        carried[norm] = stream
    for layer in layout.layers:
        attention = layer.attention
        attention_norm, _ = layer.norms[0]
        feed_forward_norm, _ = layer.norms[1]
        # A query head mixes the values of its key and value head: (groups, of_group, head_dim).
        values = _written(attention.value, attention_norm).view(-1, 1, attention.head_dim)
        carried[attention.output] = values.expand(-1, attention.of_group, -1).flatten()
        units = torch.stack([_written(linear, feed_forward_norm) for linear in layer.enter])
        carried[layer.leave] = units.prod(0)  # of a gated block, the product of gate and value
    return carried


def hidden_scores(layout: Layout, layers: Sequence[int], carried: Carried) -> Tensor:
    """(hidden_size,): importance of the dimensions of the residual stream;
    all norms of kept layers count equally."""
    total = torch.zeros(())
    for norm, readers in layout.sites(layers):
        read = sum(_read(linear) for linear in readers)
        score = carried[norm] * _norm_weight(norm).square() * read
        total = total + _shares(score)
    return total


def head_scores(attention: Attention, carried: Carried) -> Tensor:
    """(key and value heads, query heads of each, head_dim):
    the values that a head adds to the residual stream."""
    score = carried[attention.output] * _read(attention.output)
    return score.view(attention.groups, attention.of_group, attention.head_dim)


def unit_scores(layer: Layer, carried: Carried) -> Tensor:
    """(intermediate_size,): the units of the feed-forward block."""
    return carried[layer.leave] * _read(layer.leave)


def stream_by_weights(layout: Layout) -> Tensor:
    """(hidden_size,), 1 on average: how strongly the weights write each dimension of the residual
    stream."""
    stream = _shares(_read(layout.embeddings[0]))
    for layer in layout.layers:
        stream = stream + _shares(_written(layer.attention.output))
        stream = stream + _shares(_written(layer.leave))
    return stream / stream.mean().clamp(min=1e-300)


def _shares(score: Tensor) -> Tensor:
    return score / score.sum().clamp(min=1e-300)


def _norm_weight(norm: nn.Module) -> Tensor:
    return norm.get_parameter("weight").detach().double().cpu()


def _read(module: nn.Module) -> Tensor:
    """(in,) squared norms of the columns; 1 for no projection."""
    if isinstance(module, nn.Identity):
        return torch.ones((), dtype=torch.float64)
    weight = module.get_parameter("weight").detach()
    norms = torch.linalg.vector_norm(weight, dim=0, dtype=torch.float64)
    return norms.square().cpu()


def _written(linear: nn.Module, norm: nn.Module | None = None) -> Tensor:
    """(out,) squared norms of the rows, the inputs scaled by the norm before them."""
    weight = linear.get_parameter("weight").detach().double().cpu()
    if norm is not None:
        weight = weight * _norm_weight(norm)
    return weight.square().sum(1)
