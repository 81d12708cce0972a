"""Where the parts of an encoder stand: what writes and reads the residual stream, heads, feed-forward units.

Two shapes are known, by their modules and not by a list of models: Llama's (a norm before each block, rotary positions,
a gated feed-forward block; also Mistral and Qwen) and BERT's (a norm after each block, learned positions; also XLM-R).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from ...modeling import EchoEncoder


@dataclass
class Attention:
    """Self-attention: `groups` key and value heads, each for `of_group` query heads; `rotary`: pairs of values turn."""

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
    """A layer; `norms`: the one before attention and the one before the feed-forward block, with what reads them."""

    attention: Attention
    enter: list[nn.Linear]
    leave: nn.Linear
    norms: list[tuple[nn.Module, list[nn.Linear]]]


@dataclass
class Layout:
    """Token (and position) vectors, layers, and the last norm with what reads it."""

    embeddings: list[nn.Module]
    layers: list[Layer]
    last: tuple[nn.Module, nn.Module]

    def sites(self, layers: Iterable[int]) -> list[tuple[nn.Module, list[nn.Module]]]:
        """Every norm of these layers, and the last one, with the projections that read it."""
        return [*(site for i in layers for site in self.layers[i].norms), (self.last[0], [self.last[1]])]


def layer_list(encoder: EchoEncoder) -> nn.ModuleList | None:
    """The layers of an encoder; None where they do not stand in one list."""
    count = encoder.config.num_hidden_layers
    found = [module for module in encoder.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    return found[0] if len(found) == 1 else None


def layout_of(encoder: EchoEncoder) -> Layout | None:
    """The layout of an encoder; None where it has neither of the known shapes."""
    layers, body = layer_list(encoder), encoder.backbone
    if not layers:
        return None
    names = {name for name, _ in layers[0].named_children()}
    if names == {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}:
        if not hasattr(layers[0].mlp, "gate_proj"):
            return None
        return Layout([body.embed_tokens], [_llama_layer(layer) for layer in layers], (body.norm, encoder.projection))
    if names == {"attention", "intermediate", "output"} and hasattr(body, "embeddings"):
        return _bert(body.embeddings, layers, encoder.projection)
    return None


def _llama_layer(layer: nn.Module) -> Layer:
    own, mlp = layer.self_attn, layer.mlp
    linears = (own.q_proj, own.k_proj, own.v_proj, own.o_proj)
    groups = own.k_proj.out_features // own.head_dim
    attention = Attention(*linears, groups, own.num_key_value_groups, own.head_dim, rotary=True)
    enter = [mlp.gate_proj, mlp.up_proj]
    norms = [(layer.input_layernorm, list(linears[:3])), (layer.post_attention_layernorm, list(enter))]
    return Layer(attention, enter, mlp.down_proj, norms)


def _bert(embeddings: nn.Module, layers: nn.ModuleList, reader: nn.Module) -> Layout | None:
    norm, made = getattr(embeddings, "LayerNorm", None), []
    for layer in layers:
        own = layer.attention.self
        if norm is None or not hasattr(own, "attention_head_size"):
            return None
        linears = (own.query, own.key, own.value, layer.attention.output.dense)
        attention = Attention(*linears, own.num_attention_heads, 1, own.attention_head_size, rotary=False)
        enter = [layer.intermediate.dense]
        norms = [(norm, list(linears[:3])), (layer.attention.output.LayerNorm, list(enter))]
        made.append(Layer(attention, enter, layer.output.dense, norms))
        norm = layer.output.LayerNorm
    vectors = [module for module in embeddings.children() if isinstance(module, nn.Embedding)]
    return Layout(vectors, made, (norm, reader))
