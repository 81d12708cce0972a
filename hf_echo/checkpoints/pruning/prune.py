"""Structured pruning (OS 4.8): cut an Echo model to a smaller shape, as the start of distillation.

    layers        the first, the last, the rest sampled uniformly
    width         the same dimensions of the residual stream everywhere; `embedding_size` stays
    heads         query heads stay with a key and value head of theirs
    head_dim      queries and keys by nearest rotary frequency, values by importance
    feed-forward  units of the gated block

The kept parts keep their order and weights. Norms are rescaled if the width shrinks, queries if head_dim shrinks. A
shape equal to the source's gives the source, bit for bit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...modeling import EchoDecoder, EchoEncoder, EchoForTranslation
from . import importance as measure
from .shapes import layers_to_keep

State = dict[str, Tensor]


def prune(
    model: EchoEncoder | EchoForTranslation,
    shape: Mapping[str, int],
    *,
    carried: measure.Carried | None = None,
    decoder: str = "keep",
    first_dimensions: bool = False,
) -> EchoEncoder | EchoForTranslation:
    """Make a model of this shape; `model` does not change.

    Args:
        shape: a whole shape, as `resolve_shape` gives it.
        carried: what `carried_by_weights` or `carried_on_texts` found in all parts that are cut; None keeps the
            first units of each kind ("plain").
        decoder: "keep" takes the same object, "prune" cuts it to the same shape (a decoder with fewer layers keeps
            them all), "drop" leaves it out.
        first_dimensions: keep the first dimensions of the encoder's residual stream, whatever their importance: after
            `rotate_to_principal_axes` they are the important ones.

    Raises:
        ValueError: a decoder to keep that reads states whose width changes.
    """
    whole = isinstance(model, EchoForTranslation)
    cut = _Cut.of(model.encoder if whole else model, shape, carried, first=first_dimensions)
    if not whole or decoder == "drop":
        return cut.make()
    old, new = model.decoder, model.decoder
    reads_states = not old.config.bottleneck
    if decoder == "prune":
        layers = min(shape["num_hidden_layers"], old.config.num_hidden_layers)
        memory = cut.hidden if reads_states else None
        new = _Cut.of(old, {**shape, "num_hidden_layers": layers}, carried, memory).make()
    elif reads_states and shape["hidden_size"] != model.config.hidden_size:
        raise ValueError(
            "the decoder reads all encoder states (bottleneck=False), whose width changes: prune or drop it, too"
        )
    return EchoForTranslation.from_parts(cut.make(), new)


def rotary_pairs(source: int, count: int) -> Tensor:
    """(count // 2,): the pairs of a head of width `source` whose rotary frequencies are nearest to the new head's.

    Pair i of width d turns by theta^(-2i/d): the new pair i is the old pair i * source / count, halves downwards.
    """
    old = torch.arange(count // 2) * source
    return (2 * old + count - 1) // (2 * count)


@dataclass
class _Cut:
    """An encoder or decoder, and the indices to keep. Indices ascend, so a cut to the same shape changes nothing.

    Args:
        hidden: dimensions of the residual stream.
        memory: dimensions of what a decoder's cross-attention reads: the projected embedding, or encoder states.
        rescale: factor on the norms' weights, see `_norm`.
    """

    stack: EchoEncoder | EchoDecoder
    shape: dict[str, int]
    carried: measure.Carried | None
    layers: list[int]
    hidden: Tensor
    memory: Tensor | None
    rescale: float

    @classmethod
    def of(cls, stack, shape: Mapping[str, int], carried, memory: Tensor | None = None, first: bool = False) -> _Cut:
        layers = layers_to_keep(stack.config.num_hidden_layers, shape["num_hidden_layers"])
        width = shape["hidden_size"]
        hidden = (
            torch.arange(width)
            if carried is None or first
            else _best(measure.hidden_scores(stack, layers, carried), width)
        )
        if memory is None and isinstance(stack, EchoDecoder):
            memory = hidden if carried is None else _best(measure.memory_scores(stack, layers, carried), width)
        rescale = float(measure.stream_by_weights(stack)[hidden].mean().sqrt())
        return cls(stack, dict(shape), carried, layers, hidden, memory, rescale)

    def make(self) -> EchoEncoder | EchoDecoder:
        old = self.stack
        changes = self.shape | ({"decoder": None} if isinstance(old, EchoEncoder) else {})
        config = type(old.config).from_dict(old.config.to_dict() | changes)
        config._attn_implementation = old.config._attn_implementation
        with torch.no_grad():
            new = type(old).from_pretrained(None, config=config, state_dict=self._state(), dtype=old.dtype)
        if old.can_generate():
            new.generation_config = copy.deepcopy(old.generation_config)
        return new.to(old.device).train(old.training)

    def _state(self) -> State:
        stack, inner = self.stack, measure.body(self.stack)
        state = _cut("embed_tokens", inner.embed_tokens, columns=self.hidden) | self._norm("norm", inner.norm)
        for new, number in enumerate(self.layers):
            state |= {f"layers.{new}.{name}": value for name, value in self._layer(inner.layers[number]).items()}
        if isinstance(stack, EchoEncoder):
            state = {f"backbone.{name}": value for name, value in state.items()}
            return state | _cut("projection", stack.projection, columns=self.hidden)
        state |= _cut("embedding_projection", inner.embedding_projection, rows=self.memory)
        state = {f"model.{name}": value for name, value in state.items()}
        return state | _cut("lm_head", stack.lm_head, columns=self.hidden)

    def _layer(self, layer: nn.Module) -> State:
        state = self._norm("input_layernorm", layer.input_layernorm)
        state |= self._norm("post_attention_layernorm", layer.post_attention_layernorm)
        state |= self._attention("self_attn", layer.self_attn, self.hidden)
        if hasattr(layer, "cross_attn"):
            state |= self._norm("cross_attention_layernorm", layer.cross_attention_layernorm)
            state |= self._attention("cross_attn", layer.cross_attn, self.memory)
        units = torch.arange(self.shape["intermediate_size"])
        if self.carried is not None:
            units = _best(measure.unit_scores(layer, self.carried), len(units))
        for name in ("gate_proj", "up_proj"):
            state |= _cut(f"mlp.{name}", getattr(layer.mlp, name), units, self.hidden)
        return state | _cut("mlp.down_proj", layer.mlp.down_proj, self.hidden, units)

    def _attention(self, name: str, block: nn.Module, memory: Tensor) -> State:
        """Rows of values belong to a key and value head, columns of the output to a query head.

        In a narrower head each pair stands for several, so products of queries and keys grow by old / new width; half
        of that (as a power) is in the attention's own 1 / sqrt(width), the other goes to the queries.
        """
        kv, heads, values = self._heads(block)
        pairs = rotary_pairs(block.head_dim, self.shape["head_dim"])
        turned = torch.cat([pairs, pairs + block.head_dim // 2])
        queries = (heads[..., None] * block.head_dim + turned).flatten()
        keys = (kv[:, None] * block.head_dim + turned).flatten()
        written = (kv[:, None] * block.head_dim + values).flatten()
        read = (heads[..., None] * block.head_dim + values[:, None]).flatten()
        state = _cut(f"{name}.q_proj", block.q_proj, queries, self.hidden)
        if len(turned) < block.head_dim:
            for part in state:
                state[part] = state[part] * (block.head_dim / len(turned)) ** 0.5
        state |= _cut(f"{name}.k_proj", block.k_proj, keys, memory)
        state |= _cut(f"{name}.v_proj", block.v_proj, written, memory)
        return state | _cut(f"{name}.o_proj", block.o_proj, self.hidden, read)

    def _heads(self, block: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
        """(kv,) key and value heads, (kv, group) query heads of each, (kv, head_dim) value dimensions of each."""
        kv, width = self.shape["num_key_value_heads"], self.shape["head_dim"]
        group, old_group = self.shape["num_attention_heads"] // kv, block.num_key_value_groups
        if self.carried is None:
            scores = torch.zeros(block.config.num_key_value_heads, old_group, block.head_dim)
        else:
            scores = measure.head_scores(block, self.carried)
        of_heads = scores.sum(-1)
        members = torch.stack([_best(row, group) for row in of_heads])
        groups = _best(of_heads.gather(1, members).sum(1), kv)
        members = members[groups]
        dims = torch.stack([_best(scores[g, m].sum(0), width) for g, m in zip(groups, members, strict=True)])
        return groups, groups[:, None] * old_group + members, dims

    def _norm(self, name: str, norm: nn.Module) -> State:
        """Weights of a norm, rescaled so that the kept values are divided by the length of the whole vector.

        The mean square of the kept values is r times that of all values, so the outputs of the norm would shrink by
        sqrt(r). With r estimated from the weights the start is nearer to the teacher; with r measured on texts not.
        """
        if not hasattr(norm, "weight"):  # final_norm=False
            return {}
        weight = norm.weight.detach()[self.hidden.to(norm.weight.device)]
        return {f"{name}.weight": weight if len(weight) == len(norm.weight) else weight * self.rescale}


def _best(scores: Tensor, count: int) -> Tensor:
    """Ascending indices of the largest scores, of equals the first."""
    return scores.argsort(descending=True, stable=True)[:count].sort().values


def _cut(name: str, module: nn.Module, rows: Tensor | None = None, columns: Tensor | None = None) -> State:
    """{name.weight, name.bias} of a linear map or an embedding, copied."""
    state: State = {}
    for part, parameter in module.named_parameters(recurse=False):
        value = parameter.detach()
        if rows is not None:
            value = value.index_select(0, rows.to(value.device))
        if columns is not None and value.dim() == 2:
            value = value.index_select(1, columns.to(value.device))
        state[f"{name}.{part}"] = value
    return state
