"""Structured pruning (OS 4.8): cut an encoder to a smaller shape, as the start of distillation.

    layers        the first, the last, the rest sampled uniformly
    width         the same dimensions of the residual stream everywhere; the size of the embedding stays
    heads         query heads stay with a key and value head of theirs
    head_dim      queries and keys by nearest rotary frequency, values by importance
    feed-forward  units of the block

The kept parts keep their order and weights. Norms are rescaled if the width shrinks, queries if
head_dim shrinks. A shape equal to the source's gives the source, bit for bit. `layout` says which
backbones can be cut in width; of the others, layers can be dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ...modeling import EchoEncoder, EchoForTranslation
from ...vocabulary.loading import load_tokenizer
from ..open_text import encoder_of, open_checkpoint, stored_config
from ..rewrite import check_other_folder, save_changed
from ..swap_tokenizer import swap_to, tokenizer_like
from . import importance as measure
from .layout import Attention, Layout, layer_list, layout_of
from .shapes import fields_of, layers_to_keep, resolve_shape


def prune(
    model: EchoEncoder | EchoForTranslation, shape: Mapping[str, int], *, importance: str = "weight"
) -> EchoEncoder | EchoForTranslation:
    """Make a model whose encoder has this whole shape (`resolve_shape`);
    `model` stays as it is, a decoder too."""
    if isinstance(model, EchoEncoder):
        return _Cut.of(model, shape, importance).make()
    if not model.bottleneck and shape["hidden_size"] != model.config.hidden_size:
        raise ValueError(
            "the decoder reads all encoder states, whose width changes: drop it, or train stage 2 before"
        )
    encoder = _Cut.of(model.encoder, shape, importance).make()
    return EchoForTranslation.from_parts(encoder, model.decoder)


def rotary_pairs(source: int, count: int) -> Tensor:
    """(count // 2,): pairs of a head of width `source` whose frequencies, theta^(-2i/d),
    are nearest to the new."""
    old = torch.arange(count // 2) * source
    return (2 * old + count - 1) // (2 * count)


class Selection(NamedTuple):
    """What stays of a module: rows and columns of its weight (None: all),
    and the factor of the rest."""

    rows: Tensor | None = None
    columns: Tensor | None = None
    factor: float = 1.0


@dataclass
class _Cut:
    """An encoder, and what to keep of it, in ascending order."""

    encoder: EchoEncoder
    shape: dict[str, int]
    layers: list[int]
    hidden: Tensor
    selections: dict[nn.Module, Selection] = field(default_factory=dict)

    @classmethod
    def of(cls, encoder: EchoEncoder, shape: Mapping[str, int], importance: str) -> _Cut:
        """What stays of an encoder of this shape:
        the best dimensions by `importance`, or the first ones."""
        layers = layers_to_keep(encoder.config.num_hidden_layers, shape["num_hidden_layers"])
        cut = cls(encoder, dict(shape), layers, torch.arange(shape["hidden_size"]))
        layout = layout_of(encoder)
        if layout is None:
            _check_layers_alone(encoder, shape)
            return cut
        carried = None
        if importance == "weight":
            carried = measure.carried_by_weights(layout)
            scores = measure.hidden_scores(layout, layers, carried)
            cut.hidden = _best(scores, shape["hidden_size"])
        cut._plan(layout, carried)
        return cut

    def _plan(self, layout: Layout, carried: measure.Carried | None) -> None:
        """Choose rows and columns of every module that reads or writes the residual stream."""
        # What writes or reads the residual stream keeps the same dimensions everywhere.
        reads_stream = Selection(columns=self.hidden)
        for module in (*layout.embeddings, layout.last[1]):
            self.selections[module] = reads_stream
        # The mean square of the kept values is scale^2 times that of all, so a norm's outputs would
        # grow by 1 / scale.
        scale = float(measure.stream_by_weights(layout)[self.hidden].mean().sqrt())
        for norm, _ in layout.sites(range(len(layout.layers))):
            width = len(getattr(norm, "weight", self.hidden))
            factor = 1.0 if width == len(self.hidden) else scale
            self.selections[norm] = Selection(rows=self.hidden, factor=factor)
        # The heads and the units of each layer are chosen by themselves.
        for number in self.layers:
            layer = layout.layers[number]
            self._plan_attention(layer.attention, carried)
            units = torch.arange(self.shape["intermediate_size"])
            if carried:
                units = _best(measure.unit_scores(layer, carried), len(units))
            for linear in layer.enter:
                self.selections[linear] = Selection(units, self.hidden)
            self.selections[layer.leave] = Selection(self.hidden, units)

    def _plan_attention(self, block: Attention, carried: measure.Carried | None) -> None:
        """Rows of values belong to a key and value head, columns of the output to a query head.

        In a narrower head each pair stands for several, so products of queries and keys grow by old
        / new width; half of that (as a power) is in the attention's own 1 / sqrt(width), the other
        goes to the queries.
        """
        kv, heads, values = self._heads(block, carried)
        turned = torch.arange(block.head_dim)
        if block.rotary:
            pairs = rotary_pairs(block.head_dim, self.shape["head_dim"])
            turned = torch.cat([pairs, pairs + block.head_dim // 2])
        # First rows of the heads: (kv, 1) and (kv, group, 1).
        kv_start = kv[:, None] * block.head_dim
        head_start = heads[..., None] * block.head_dim
        query_factor = (block.head_dim / len(turned)) ** 0.5
        self.selections[block.query] = Selection(
            (head_start + turned).flatten(), self.hidden, query_factor
        )
        self.selections[block.key] = Selection((kv_start + turned).flatten(), self.hidden)
        self.selections[block.value] = Selection((kv_start + values).flatten(), self.hidden)
        self.selections[block.output] = Selection(
            self.hidden, (head_start + values[:, None]).flatten()
        )

    def _heads(
        self, block: Attention, carried: measure.Carried | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(kv,) key and value heads, (kv, group) query heads of each,
        (kv, head_dim) value dimensions of each."""
        heads = self.shape["num_attention_heads"]
        kv = self.shape.get("num_key_value_heads", heads)
        head_dim = self.shape.get("head_dim", block.head_dim)
        scores = torch.zeros(block.groups, block.of_group, block.head_dim)
        if carried:
            scores = measure.head_scores(block, carried)
        head_scores = scores.sum(-1)  # (groups, of_group)
        # The best query heads of each group, then the best groups by these.
        members = torch.stack([_best(row, heads // kv) for row in head_scores])
        groups = _best(head_scores.gather(1, members).sum(1), kv)
        members = members[groups]
        value_dims = []
        for group, query_heads in zip(groups, members, strict=True):
            value_scores = scores[group, query_heads].sum(0)
            value_dims.append(_best(value_scores, head_dim))
        return groups, groups[:, None] * block.of_group + members, torch.stack(value_dims)

    def make(self) -> EchoEncoder:
        """The pruned encoder, with the kept weights in the mode and on the device of the old
        one."""
        old = self.encoder
        state = self._state()
        changes: dict[str, Any] = {**self.shape, "decoder": None}
        layer_types = getattr(old.config, "layer_types", None)
        if layer_types:
            changes["layer_types"] = [layer_types[number] for number in self.layers]
        if isinstance(old.projection, nn.Identity) and len(self.hidden) < old.config.hidden_size:
            # Embeddings keep their size: what is left of the states writes the same dimensions.
            state["projection.weight"] = torch.eye(old.config.hidden_size, dtype=old.dtype)[
                :, self.hidden
            ]
            changes |= {"projection": "linear", "embedding_size": old.config.hidden_size}
        config = copy.deepcopy(old.config)
        for name, value in changes.items():
            setattr(config, name, value)
        with torch.no_grad():
            new = EchoEncoder.from_pretrained(
                None, config=config, state_dict=state, dtype=old.dtype
            )
        return new.to(old.device).train(old.training)

    def _state(self) -> dict[str, Tensor]:
        """The kept weights by their new names."""
        modules = dict(self.encoder.named_modules())
        names = self._new_names(modules)
        state = {}
        for name, weight in self.encoder.state_dict().items():
            if name not in names:
                continue
            module = modules[name.rpartition(".")[0]]
            rows, columns, factor = self.selections.get(module, Selection())
            if rows is not None:
                weight = weight.index_select(0, rows.to(weight.device))
            if columns is not None and weight.dim() == 2:
                weight = weight.index_select(1, columns.to(weight.device))
            # a norm gives weight * x + bias: what grows with the kept values is x
            is_bias_of_norm = name.endswith("bias") and not isinstance(module, nn.Linear)
            if factor != 1.0 and not is_bias_of_norm:
                weight = weight * factor
            state[names[name]] = weight
        return state

    def _new_names(self, modules: Mapping[str, nn.Module]) -> dict[str, str]:
        """{old name: new name} of the weights that stay;
        the remaining layers are counted from 0."""
        layers = layer_list(self.encoder)
        prefix = next(name for name, module in modules.items() if module is layers)
        new_numbers = {str(old): new for new, old in enumerate(self.layers)}
        names = {}
        for name in self.encoder.state_dict():
            if not name.startswith(f"{prefix}."):
                names[name] = name
                continue
            number, _, inner = name.removeprefix(f"{prefix}.").partition(".")
            if number in new_numbers:
                names[name] = f"{prefix}.{new_numbers[number]}.{inner}"
        return names


def _check_layers_alone(encoder: EchoEncoder, shape: Mapping[str, int]) -> None:
    """A backbone of unknown layout loses layers only, and these must stand in one list."""
    config = encoder.config
    kind = config.backbone.model_type
    if layer_list(encoder) is None:
        raise ValueError(f"a backbone of type {kind!r} cannot be cut so: it stays whole")
    for name in fields_of(config):
        if name != "num_hidden_layers" and shape[name] != getattr(config, name):
            raise ValueError(
                f"a backbone of type {kind!r} cannot be cut so: its layers can be dropped, its width not"
            )


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
    """Prune the encoder of a checkpoint (OS 4.8), whose layout
    (training checkpoint, release, encoder) and dtype stay.

    The configuration names the source under `pruned_from`. Optimizer and trainer state are not
    copied. Arguments as in `hf-echo prune --help`; `shape` has fields of `shapes.FIELDS`.

    Returns:
        {"parameters_before", "parameters"} of the encoder, {"shape", "layers", "importance",
        "decoder"}, and of the new tokenizer {"tokens", ...}.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: an impossible shape, or `out` is the checkpoint itself.
    """
    check_other_folder(out, model)
    config = stored_config(model)
    new_shape = resolve_shape(config, size, shape)
    layers = layers_to_keep(config.num_hidden_layers, new_shape["num_hidden_layers"])
    old_tokenizer = load_tokenizer(model)
    new_tokenizer = old_tokenizer
    parents = {"model": model}
    if tokenizer is not None:
        new_tokenizer = tokenizer_like(old_tokenizer, tokenizer)
        parents["tokenizer"] = tokenizer

    source = open_checkpoint(model)
    encoder = encoder_of(source)
    pruned = prune(encoder if decoder == "drop" else source, new_shape, importance=importance)
    smaller = encoder_of(pruned)
    old_shape = {name: getattr(config, name) for name in fields_of(config)}
    note = {"model": str(model), "shape": old_shape, "layers": layers, "importance": importance}
    pruned.config.pruned_from = note
    smaller.config.pruned_from = note
    counts = {}
    if tokenizer is not None:
        counts = swap_to(new_tokenizer, pruned, old_tokenizer)
    # cut in fp32, saved in the dtype of the source on any machine
    pruned.to(config.dtype or torch.float32)

    report = {
        "parameters_before": encoder.num_parameters(),
        "parameters": smaller.num_parameters(),
        "shape": new_shape,
        "layers": layers,
        "importance": importance,
        "decoder": None if isinstance(source, EchoEncoder) else decoder,
    }
    report |= counts
    values = {
        "size": size,
        "shape": dict(shape or {}),
        "importance": importance,
        "decoder": decoder,
    }
    save_changed(
        pruned, out, "prune", values, parents=parents, results=report, tokenizer=new_tokenizer
    )
    return report
