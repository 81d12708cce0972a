"""Structured pruning (OS 4.8): cut an encoder to a smaller shape, as the start of distillation.

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
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...modeling import EchoEncoder, EchoForTranslation
from ...vocabulary.loading import load_tokenizer
from ..rewrite import check_other_folder, encoder_of, open_checkpoint, save_changed, stored_config
from ..swap_tokenizer import swap_to, tokenizer_like
from . import importance as measure
from .layout import Attention, Layout, layer_list, layout_of
from .shapes import fields_of, layers_to_keep, resolve_shape


def prune(
    model: EchoEncoder | EchoForTranslation, shape: Mapping[str, int], *, importance: str = "weight"
) -> EchoEncoder | EchoForTranslation:
    """Make a model whose encoder has this whole shape (`resolve_shape`); `model` stays as it is, a decoder too."""
    if isinstance(model, EchoEncoder):
        return _Cut.of(model, shape, importance).make()
    if not model.bottleneck and shape["hidden_size"] != model.config.hidden_size:
        raise ValueError("the decoder reads all encoder states, whose width changes: drop it, or train stage 2 before")
    return EchoForTranslation.from_parts(_Cut.of(model.encoder, shape, importance).make(), model.decoder)


def rotary_pairs(source: int, count: int) -> Tensor:
    """(count // 2,): pairs of a head of width `source` whose frequencies, theta^(-2i/d), are nearest to the new."""
    old = torch.arange(count // 2) * source
    return (2 * old + count - 1) // (2 * count)


@dataclass
class _Cut:
    """An encoder, and what to keep, in ascending order; `kept`: module -> (rows, columns, factor) that stay of it."""

    encoder: EchoEncoder
    shape: dict[str, int]
    layers: list[int]
    hidden: Tensor
    kept: dict[nn.Module, tuple[Tensor | None, Tensor | None, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, encoder: EchoEncoder, shape: Mapping[str, int], importance: str) -> _Cut:
        config = encoder.config
        layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
        cut = cls(encoder, dict(shape), layers, torch.arange(shape["hidden_size"]))
        if layout := layout_of(encoder):
            carried = measure.carried_by_weights(layout) if importance == "weight" else None
            if carried:
                cut.hidden = _best(measure.hidden_scores(layout, layers, carried), shape["hidden_size"])
            cut._plan(layout, carried)
        else:
            narrower = any(shape[name] != getattr(config, name) for name in fields_of(config) if "layers" not in name)
            if narrower or layer_list(encoder) is None:
                what = "it stays whole" if layer_list(encoder) is None else "its layers can be dropped, its width not"
                raise ValueError(f"a backbone of type {config.backbone.model_type!r} cannot be cut so: {what}")
        return cut

    def _plan(self, layout: Layout, carried: measure.Carried | None) -> None:
        scale = float(measure.stream_by_weights(layout)[self.hidden].mean().sqrt())
        for module in layout.embeddings:
            self.kept[module] = (None, self.hidden, 1.0)
        for norm, _ in layout.sites(range(len(layout.layers))):
            # The mean square of the kept values is scale^2 times that of all, so the norm's outputs would grow by
            # 1 / scale.
            size = len(getattr(norm, "weight", self.hidden))
            self.kept[norm] = (self.hidden, None, 1.0 if size == len(self.hidden) else scale)
        self.kept[layout.last[1]] = (None, self.hidden, 1.0)
        for layer in (layout.layers[i] for i in self.layers):
            self._plan_attention(layer.attention, carried)
            units = torch.arange(self.shape["intermediate_size"])
            if carried:
                units = _best(measure.unit_scores(layer, carried), len(units))
            for linear in layer.enter:
                self.kept[linear] = (units, self.hidden, 1.0)
            self.kept[layer.leave] = (self.hidden, units, 1.0)

    def _plan_attention(self, block: Attention, carried: measure.Carried | None) -> None:
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
        self.kept[block.key] = (keys, self.hidden, 1.0)
        self.kept[block.value] = (written, self.hidden, 1.0)
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

    def make(self) -> EchoEncoder:
        old, changes, state = self.encoder, {**self.shape, "decoder": None}, self._state()
        if types := getattr(old.config, "layer_types", None):
            changes["layer_types"] = [types[i] for i in self.layers]
        if isinstance(old.projection, nn.Identity) and len(self.hidden) < old.config.hidden_size:
            # Embeddings keep their size: what is left of the states writes the same dimensions.
            state["projection.weight"] = torch.eye(old.config.hidden_size, dtype=old.dtype)[:, self.hidden]
            changes |= {"projection": "linear", "embedding_size": old.config.hidden_size}
        config = copy.deepcopy(old.config)
        for name, value in changes.items():
            setattr(config, name, value)
        with torch.no_grad():
            new = EchoEncoder.from_pretrained(None, config=config, state_dict=state, dtype=old.dtype)
        return new.to(old.device).train(old.training)

    def _state(self) -> dict[str, Tensor]:
        names = {name: module for name, module in self.encoder.named_modules()}
        layers = next(name for name, module in names.items() if module is layer_list(self.encoder))
        number = {f"{layers}.{old}.": f"{layers}.{new}." for new, old in enumerate(self.layers)}
        state = {}
        for name, parameter in self.encoder.state_dict().items():
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


def prune_checkpoint(
    model: str | Path,
    out: str | Path,
    *,
    size: str | None = None,
    shape: Mapping[str, int] | None = None,
    importance: Literal["weight", "plain"] = "weight",
    decoder: Literal["keep", "drop"] = "keep",
    tokenizer: str | Path | None = None,
) -> dict[str, Any]:
    """Prune the encoder of a checkpoint (OS 4.8), whose layout (training checkpoint, release, encoder) and dtype stay.

    The configuration names the source under `pruned_from`. Optimizer and trainer state are not copied. Arguments as in
    `hf-echo prune --help`; `shape` has fields of `shapes.FIELDS`.

    Returns:
        {"parameters_before", "parameters"} of the encoder, {"shape", "layers", "importance", "decoder"}, and of the
        new tokenizer {"tokens", ...}.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: an impossible shape, or `out` is the checkpoint itself.
    """
    check_other_folder(out, model)
    config, asked = stored_config(model), dict(shape or {})
    shape, old = resolve_shape(config, size, shape), load_tokenizer(model)
    new = old if tokenizer is None else tokenizer_like(old, tokenizer)
    source = open_checkpoint(model)
    pruned = prune(encoder_of(source) if decoder == "drop" else source, shape, importance=importance)
    smaller = encoder_of(pruned)
    before = {name: getattr(config, name) for name in fields_of(config)}
    layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
    note = {"model": str(model), "shape": before, "layers": layers, "importance": importance}
    pruned.config.pruned_from = smaller.config.pruned_from = note
    counts = {} if tokenizer is None else swap_to(new, pruned, old)
    pruned.to(config.dtype or torch.float32)  # cut in fp32, saved in the dtype of the source on any machine
    report = {
        "parameters_before": encoder_of(source).num_parameters(),
        "parameters": smaller.num_parameters(),
        "shape": shape,
        "layers": layers,
        "importance": importance,
        "decoder": None if isinstance(source, EchoEncoder) else decoder,
    } | counts
    settings = {"size": size, "shape": asked, "importance": importance, "decoder": decoder}
    parents = {"model": model} | ({"tokenizer": tokenizer} if tokenizer is not None else {})
    save_changed(pruned, out, "prune", settings, parents=parents, results=report, tokenizer=new)
    return report
