"""Structured pruning (OS 4.8): cut an Echo model to a smaller shape, as the start of distillation.

    layers        the first, the last, the rest sampled uniformly
    width         the same dimensions of the residual stream everywhere; the size of the embedding stays
    heads         query heads stay with a key and value head of theirs
    head_dim      queries and keys by nearest rotary frequency, values by importance
    feed-forward  units of the block

The kept parts keep their order and weights. Norms are rescaled if the width shrinks, queries if head_dim shrinks. A
shape equal to the source's gives the source, bit for bit. `layout` says which backbones can be cut in width; of the
others, layers can be dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ...modeling import EchoDecoder, EchoEncoder, EchoForTranslation
from . import importance as measure
from .layout import Attention, Layer, Layout, layer_list, layout_of
from .shapes import fields_of, layers_to_keep


def prune(
    model: EchoEncoder | EchoForTranslation,
    shape: Mapping[str, int],
    *,
    carried: measure.Carried | None = None,
    decoder: str = "keep",
) -> EchoEncoder | EchoForTranslation:
    """Make a model of this shape; `model` does not change.

    Args:
        shape: a whole shape, as `resolve_shape` gives it.
        carried: what `carried_by_weights` or `carried_on_texts` found in all parts that are cut; None keeps the
            first units of each kind ("plain").
        decoder: "keep" takes the same object, "prune" cuts it to the same shape (a decoder with fewer layers keeps
            them all), "drop" leaves it out.

    Raises:
        ValueError: a backbone that cannot be cut so; a decoder to keep that reads states whose width changes.
    """
    whole = isinstance(model, EchoForTranslation)
    cut = _Cut.of(model.encoder if whole else model, shape, carried)
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

    Attributes:
        hidden: dimensions of the residual stream.
        memory: dimensions of what a decoder's cross-attention reads: the projected embedding, or encoder states.
        kept: module -> (rows, columns, factor) that stay of it.
    """

    stack: EchoEncoder | EchoDecoder
    shape: dict[str, int]
    layers: list[int]
    hidden: Tensor
    kept: dict[nn.Module, tuple[Tensor | None, Tensor | None, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, stack, shape: Mapping[str, int], carried, memory: Tensor | None = None) -> _Cut:
        config = stack.config
        layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
        narrower = any(shape[name] != getattr(config, name) for name in fields_of(config) if "layers" not in name)
        layout, width = layout_of(stack), shape["hidden_size"]
        if layout is None:
            kind = getattr(config, "backbone", config).model_type
            if narrower or layer_list(stack) is None:
                what = "its layers can be dropped, its width not" if layer_list(stack) is not None else "it stays whole"
                raise ValueError(f"a backbone of type {kind!r} cannot be cut to this shape: {what}")
            return cls(stack, dict(shape), layers, torch.arange(width))
        hidden = _best(measure.hidden_scores(layout, layers, carried), width) if carried else torch.arange(width)
        cut = cls(stack, dict(shape), layers, hidden)
        if memory is None and isinstance(stack, EchoDecoder):
            memory = hidden
            if carried:
                memory = _best(measure.memory_scores(stack, layout, layers, carried), width)
        cut._plan(layout, carried, memory)
        return cut

    def _plan(self, layout: Layout, carried: measure.Carried | None, memory: Tensor | None) -> None:
        scale = float(measure.stream_by_weights(layout)[self.hidden].mean().sqrt())
        for module in layout.embeddings:
            self.kept[module] = (None, self.hidden, 1.0)
        for norm, _ in layout.sites(list(range(len(layout.layers)))):
            # The mean square of the kept values is scale^2 times that of all, so the norm's outputs would grow by
            # 1 / scale.
            size = len(getattr(norm, "weight", self.hidden))
            self.kept[norm] = (self.hidden, None, 1.0 if size == len(self.hidden) else scale)
        self.kept[layout.last[1]] = (None, self.hidden, 1.0)
        if isinstance(self.stack, EchoDecoder):
            self.kept[self.stack.model.embedding_projection] = (memory, None, 1.0)
        for i in self.layers:
            self._plan_layer(layout.layers[i], carried, memory)

    def _plan_layer(self, layer: Layer, carried: measure.Carried | None, memory: Tensor | None) -> None:
        for attention in layer.attention:
            self._plan_attention(attention, carried, self.hidden if attention.norm is not None else memory)
        units = torch.arange(self.shape["intermediate_size"])
        if carried:
            units = _best(measure.unit_scores(layer, carried), len(units))
        for linear in layer.enter:
            self.kept[linear] = (units, self.hidden, 1.0)
        self.kept[layer.leave] = (self.hidden, units, 1.0)

    def _plan_attention(self, block: Attention, carried: measure.Carried | None, memory: Tensor | None) -> None:
        """Rows of values belong to a key and value head, columns of the output to a query head.

        In a narrower head each pair stands for several, so products of queries and keys grow by old / new width; half
        of that (as a power) is in the attention's own 1 / sqrt(width), the other goes to the queries.
        """
        kv, heads, values = self._heads(block, carried)
        turned = torch.arange(block.head_dim)
        if block.rotary:
            pairs = rotary_pairs(block.head_dim, self.shape["head_dim"])
            turned = torch.cat([pairs, pairs + block.head_dim // 2])
        queries = (heads[..., None] * block.head_dim + turned).flatten()
        keys = (kv[:, None] * block.head_dim + turned).flatten()
        written = (kv[:, None] * block.head_dim + values).flatten()
        read = (heads[..., None] * block.head_dim + values[:, None]).flatten()
        self.kept[block.query] = (queries, self.hidden, (block.head_dim / len(turned)) ** 0.5)
        self.kept[block.key] = (keys, memory, 1.0)
        self.kept[block.value] = (written, memory, 1.0)
        self.kept[block.output] = (self.hidden, read, 1.0)

    def _heads(self, block: Attention, carried: measure.Carried | None) -> tuple[Tensor, Tensor, Tensor]:
        """(kv,) key and value heads, (kv, group) query heads of each, (kv, head_dim) value dimensions of each."""
        heads = self.shape["num_attention_heads"]
        kv, width = self.shape.get("num_key_value_heads", heads), self.shape.get("head_dim", block.head_dim)
        scores = torch.zeros(block.groups, block.of_group, block.head_dim)
        if carried:
            scores = measure.head_scores(block, carried)
        of_heads = scores.sum(-1)
        members = torch.stack([_best(row, heads // kv) for row in of_heads])
        groups = _best(of_heads.gather(1, members).sum(1), kv)
        members = members[groups]
        dims = torch.stack([_best(scores[g, m].sum(0), width) for g, m in zip(groups, members, strict=True)])
        return groups, groups[:, None] * block.of_group + members, dims

    def make(self) -> EchoEncoder | EchoDecoder:
        old, changes = self.stack, dict(self.shape)
        if types := getattr(old.config, "layer_types", None):
            changes["layer_types"] = [types[i] for i in self.layers]
        state = self._state()
        if isinstance(old, EchoEncoder):
            changes["decoder"] = None
            if isinstance(old.projection, nn.Identity) and len(self.hidden) < old.config.hidden_size:
                # Embeddings keep their size: what is left of the states writes the same dimensions.
                state["projection.weight"] = torch.eye(old.config.hidden_size, dtype=old.dtype)[:, self.hidden]
                changes |= {"projection": "linear", "embedding_size": old.config.hidden_size}
        config = copy.deepcopy(old.config)
        for name, value in changes.items():
            setattr(config, name, value)
        with torch.no_grad():
            new = type(old).from_pretrained(None, config=config, state_dict=state, dtype=old.dtype)
        if old.can_generate():
            new.generation_config = copy.deepcopy(old.generation_config)
        return new.to(old.device).train(old.training)

    def _state(self) -> dict[str, Tensor]:
        names = {name: module for name, module in self.stack.named_modules()}
        layers = next(name for name, module in names.items() if module is layer_list(self.stack))
        number = {f"{layers}.{old}.": f"{layers}.{new}." for new, old in enumerate(self.layers)}
        state = {}
        for name, parameter in self.stack.state_dict().items():
            module = names[name.rpartition(".")[0]]
            if name.startswith(f"{layers}."):
                start = ".".join(name.split(".")[: layers.count(".") + 2]) + "."
                if start not in number:
                    continue
                name = number[start] + name.removeprefix(start)
            rows, columns, factor = self.kept.get(module, (None, None, 1.0))
            if rows is not None:
                parameter = parameter.index_select(0, rows.to(parameter.device))
            if columns is not None and parameter.dim() == 2:
                parameter = parameter.index_select(1, columns.to(parameter.device))
            is_bias_of_norm = name.endswith("bias") and parameter.dim() == 1 and not isinstance(module, nn.Linear)
            state[name] = parameter if factor == 1.0 or is_bias_of_norm else parameter * factor
        return state


def _best(scores: Tensor, count: int) -> Tensor:
    """Ascending indices of the largest scores, of equals the first."""
    return scores.argsort(descending=True, stable=True)[:count].sort().values
