"""Where the parts of an encoder stand: what writes and reads the residual stream, heads,
feed-forward units.

Two shapes are known, by their modules and not by a list of models: Llama's (a norm before each
block, rotary positions, a gated feed-forward block; also Mistral and Qwen) and BERT's
(a norm after each block, learned positions; also XLM-R).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from ...modeling import EchoEncoder


@dataclass
class Attention:
    """Self-attention: `groups` key and value heads, each for `of_group` query heads; `rotary`:
    pairs of values turn."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    groups: int
    of_group: int
    head_dim: int
    rotary: bool


@dataclass
class Layer:
    """A layer; `norms`: the one before attention and the one before the feed-forward block,
    with what reads them."""

    attention: Attention
    enter: list[nn.Linear]
    leave: nn.Linear
    norms: list[tuple[nn.Module, list[nn.Module]]]


@dataclass
class Layout:
    """Token (and position) vectors, layers, and the last norm with what reads it."""

    embeddings: list[nn.Module]
    layers: list[Layer]
    last: tuple[nn.Module, nn.Module]

    def sites(self, layers: Iterable[int]) -> list[tuple[nn.Module, list[nn.Module]]]:
        """Every norm of these layers, and the last one, with the projections that read it."""
        sites: list[tuple[nn.Module, list[nn.Module]]] = []
        for number in layers:
            sites += self.layers[number].norms
        norm, reader = self.last
        sites.append((norm, [reader]))
        return sites


def layer_list(encoder: EchoEncoder) -> nn.ModuleList | None:
    """The layers of an encoder; None where they do not stand in one list."""
    lists = []
    for module in encoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == encoder.config.num_hidden_layers:
            lists.append(module)
    return lists[0] if len(lists) == 1 else None


def layout_of(encoder: EchoEncoder) -> Layout | None:
    """The layout of an encoder; None where it has neither of the known shapes."""
    layers = layer_list(encoder)
    if not layers:
        return None
    backbone: Any = encoder.backbone  # its modules depend on the model's kind
    parts = {name for name, _ in layers[0].named_children()}
    # Llama's shape, if its feed-forward block has a gate.
    if parts == {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}:
        if not hasattr(layers[0].mlp, "gate_proj"):
            return None
        llama_layers = [_llama_layer(layer) for layer in layers]
        return Layout([backbone.embed_tokens], llama_layers, (backbone.norm, encoder.projection))
    # BERT's shape.
    if parts == {"attention", "intermediate", "output"} and hasattr(backbone, "embeddings"):
        return _bert(backbone.embeddings, layers, encoder.projection)
    return None


def _llama_layer(layer: Any) -> Layer:
    """The linear maps of a Llama's layer, and the norms in front of them."""
    block = layer.self_attn
    attention = Attention(
        query=block.q_proj,
        key=block.k_proj,
        value=block.v_proj,
        output=block.o_proj,
        groups=block.k_proj.out_features // block.head_dim,
        of_group=block.num_key_value_groups,
        head_dim=block.head_dim,
        rotary=True,
    )
    enter = [layer.mlp.gate_proj, layer.mlp.up_proj]
    attention_site = (layer.input_layernorm, [block.q_proj, block.k_proj, block.v_proj])
    feed_forward_site = (layer.post_attention_layernorm, enter)
    return Layer(attention, enter, layer.mlp.down_proj, [attention_site, feed_forward_site])


def _bert(embeddings: nn.Module, layers: Iterable[Any], reader: nn.Module) -> Layout | None:
    """The layout of layers like BERT's, where a norm follows each part; None for other layers."""
    norm = getattr(embeddings, "LayerNorm", None)  # in front of attention: that of the layer below
    bert_layers = []
    for layer in layers:
        block = layer.attention.self
        if norm is None or not hasattr(block, "attention_head_size"):
            return None
        attention = Attention(
            query=block.query,
            key=block.key,
            value=block.value,
            output=layer.attention.output.dense,
            groups=block.num_attention_heads,
            of_group=1,
            head_dim=block.attention_head_size,
            rotary=False,
        )
        enter = [layer.intermediate.dense]
        attention_site = (norm, [block.query, block.key, block.value])
        feed_forward_site = (layer.attention.output.LayerNorm, enter)
        bert_layers.append(
            Layer(attention, enter, layer.output.dense, [attention_site, feed_forward_site])
        )
        norm = layer.output.LayerNorm
    vectors = [module for module in embeddings.children() if isinstance(module, nn.Embedding)]
    return Layout(vectors, bert_layers, (norm, reader))
