"""Where the parts of a stack of layers stand: what writes and reads the residual stream, heads, feed-forward units.

Two shapes are known, by their modules and not by a list of models: Llama's (a norm before each block, rotary positions,
a gated feed-forward block; also Mistral, Qwen and the Echo decoder) and BERT's (a norm after each block, learned
positions; also XLM-R).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ...modeling import EchoDecoder, EchoEncoder

LLAMA_NORMS = {"input_layernorm", "post_attention_layernorm", "cross_attention_layernorm"}


@dataclass
class Attention:
    """One attention block.

    Attributes:
        norm: of what keys and values read; None: they read the decoder's memory.
        groups: key and value heads; each serves `of_group` query heads.
        rotary: queries and keys turn pairs of values, so that a narrower head keeps pairs.
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    norm: nn.Module | None
    groups: int
    of_group: int
    head_dim: int
    rotary: bool


@dataclass
class Layer:
    """A layer; `norms` are those that write what a projection reads, with these projections."""

    attention: list[Attention]
    enter: list[nn.Linear]
    leave: nn.Linear
    norms: list[tuple[nn.Module, list[nn.Linear]]]


@dataclass
class Layout:
    """A stack: token (and position) vectors, layers, and the last norm with what reads it."""

    embeddings: list[nn.Module]
    layers: list[Layer]
    last: tuple[nn.Module, nn.Module]

    def sites(self, layers: list[int]) -> list[tuple[nn.Module, list[nn.Module]]]:
        """Every norm of these layers, and the last one, with the projections that read it."""
        return [*(site for i in layers for site in self.layers[i].norms), (self.last[0], [self.last[1]])]


def layer_list(stack: EchoEncoder | EchoDecoder) -> nn.ModuleList | None:
    """The layers of a stack; None where they do not stand in one list."""
    count = stack.config.num_hidden_layers
    found = [module for module in stack.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    return found[0] if len(found) == 1 else None


def layout_of(stack: EchoEncoder | EchoDecoder) -> Layout | None:
    """The layout of a stack; None where it has neither of the known shapes."""
    layers = layer_list(stack)
    if not layers:
        return None
    body = stack.model if isinstance(stack, EchoDecoder) else stack.backbone
    reader = stack.lm_head if isinstance(stack, EchoDecoder) else stack.projection
    names = {name for name, _ in layers[0].named_children()}
    if {"self_attn", "mlp"} <= names and {name for name in names if "norm" in name} <= LLAMA_NORMS:
        if not hasattr(layers[0].mlp, "gate_proj"):
            return None
        return Layout([body.embed_tokens], [_llama_layer(layer) for layer in layers], (body.norm, reader))
    if names == {"attention", "intermediate", "output"} and hasattr(body, "embeddings"):
        return _bert(body.embeddings, layers, reader)
    return None


def _llama_layer(layer: nn.Module) -> Layer:
    own, mlp = layer.self_attn, layer.mlp
    attention = [_llama_attention(own, layer.input_layernorm)]
    norms = [
        (layer.input_layernorm, [own.q_proj, own.k_proj, own.v_proj]),
        (layer.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]),
    ]
    if hasattr(layer, "cross_attn"):
        attention.append(_llama_attention(layer.cross_attn, None))
        norms.append((layer.cross_attention_layernorm, [layer.cross_attn.q_proj]))
    return Layer(attention, [mlp.gate_proj, mlp.up_proj], mlp.down_proj, norms)


def _llama_attention(block: nn.Module, norm: nn.Module | None) -> Attention:
    groups = block.k_proj.out_features // block.head_dim
    linears = (block.q_proj, block.k_proj, block.v_proj, block.o_proj)
    return Attention(*linears, norm, groups, block.num_key_value_groups, block.head_dim, rotary=True)


def _bert(embeddings: nn.Module, layers: nn.ModuleList, reader: nn.Module) -> Layout | None:
    norm, made = getattr(embeddings, "LayerNorm", None), []
    for layer in layers:
        own = layer.attention.self
        if norm is None or not hasattr(own, "attention_head_size"):
            return None
        linears = (own.query, own.key, own.value, layer.attention.output.dense)
        attention = Attention(*linears, norm, own.num_attention_heads, 1, own.attention_head_size, rotary=False)
        after = layer.attention.output.LayerNorm
        norms = [(norm, list(linears[:3])), (after, [layer.intermediate.dense])]
        made.append(Layer([attention], [layer.intermediate.dense], layer.output.dense, norms))
        norm = layer.output.LayerNorm
    vectors = [module for module in embeddings.children() if isinstance(module, nn.Embedding)]
    return Layout(vectors, made, (norm, reader))
