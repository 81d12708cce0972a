"""The forward pass of an EchoEncoder for inference on a CPU: no padding, no fresh memory for every product.

It computes what the Llama blocks compute, from the same weights (references, not copies):
  - the rows' tokens lie behind each other, and attention runs once for each stretch of rows of equal length;
  - intermediate results go to buffers that are used again: a fresh large tensor costs page faults, which on a CPU
    take as long as filling it;
  - where only embeddings are asked for, the last layer leaves out what pooling throws away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention, silu
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

LANES, FEW = 16, 4  # float32 values in a register of AVX-512; so many may be left over


def can_pack(encoder) -> bool:
    """Whether `PackedEncoder` may stand in for the encoder's own forward pass here and now.

    Training, gradients, compilation, autocast, other devices, and layers that somebody wrapped, hooked (FSDP, offload,
    recorded states), quantised or extended (adapters) are left to the modules' own code.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_grad_enabled():
        return False
    config, embeddings = encoder.config, encoder.embed_tokens.weight
    return (
        not encoder.training
        and len(encoder.layers) > 0
        and type(embeddings) is nn.Parameter
        and embeddings.device.type == "cpu"
        and embeddings.dtype in (torch.float32, torch.bfloat16)
        and not torch.is_autocast_enabled("cpu")
        and config._attn_implementation == "sdpa"
        and not (config.is_causal or config.output_hidden_states or config.output_attentions)
        and all(_is_plain(layer) for layer in encoder.layers)
        and not any(
            m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in encoder.modules()
        )
    )


def _is_plain(layer) -> bool:
    if type(layer) is not LlamaDecoderLayer:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    linears = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj,
               mlp.gate_proj, mlp.up_proj, mlp.down_proj)  # fmt: skip
    return all(type(m) is nn.Linear and m.bias is None and type(m.weight) is nn.Parameter for m in linears)


def packed_states(
    encoder, input_ids: torch.Tensor, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """(batch, seq, hidden) states after the last norm, zero where padding is; None where it cannot pack."""
    if not can_pack(encoder) or input_ids.dim() != 2:
        return None
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    if mask.shape != input_ids.shape or not mask.any(1).all():
        return None
    lengths, order = mask.bool().sum(1).sort()
    mask = mask[order].bool()
    padded = torch.zeros(*mask.shape, encoder.config.hidden_size, dtype=encoder.embed_tokens.weight.dtype)
    padded[mask] = PackedEncoder(encoder).states(input_ids[order][mask], lengths.tolist())
    return padded[order.argsort()]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Softmax attention in which no row is padded.

    Where torch works on 16 values at once, it takes the last of a row's keys one by one, and these can take longer than
    all others: keys that nobody attends to are cheaper.

    Args:
        q: (rows, heads, queries, head_dim); k, v: (rows, key heads, tokens, head_dim).
    """
    tokens = k.shape[2]
    left, mask = tokens % LANES, None
    if left > FEW and torch.backends.cpu.get_cpu_capability() == "AVX512":
        k, v = (pad(t.transpose(1, 2), (0, 0, 0, 0, 0, LANES - left)).transpose(1, 2) for t in (k, v))
        mask = (torch.arange(k.shape[2]) < tokens)[None, None, None]
    return scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


class PackedEncoder:
    """`states` and `embed` of an encoder that `can_pack`.

    Args:
        encoder: an EchoEncoder. One PackedEncoder serves one thread at a time; it is cheap to make.
    """

    def __init__(self, encoder):
        config = encoder.config
        self.encoder = encoder
        self.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.dtype = encoder.embed_tokens.weight.dtype
        self.buffers: dict[str, torch.Tensor] = {}

    def states(self, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """(tokens,) ids of rows of these lengths, one behind the other -> (tokens, hidden) after the last norm."""
        x, rotations = self._start(ids, lengths)
        for layer in self.encoder.layers:
            self._attend(layer, x, x, rotations)
            self._down(layer, x, self._gated(layer, x))
        return self.encoder.norm(x)

    def embed(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows of ids -> (rows, embedding_size). Any order is right, neighbours of equal length are fast."""
        encoder = self.encoder
        x, rotations = self._start(torch.tensor([i for row in rows for i in row]), [len(row) for row in rows])
        *body, last = encoder.layers
        for layer in body:
            self._attend(layer, x, x, rotations)
            self._down(layer, x, self._gated(layer, x))
        if encoder.config.pooling == "cls":  # nobody reads the other tokens' last states
            queries = x[self.first]
            self._attend(last, x, queries, rotations)
            pooled = encoder.norm(self._down(last, queries, self._gated(last, queries)))
        else:
            self._attend(last, x, x, rotations)
            if isinstance(encoder.norm, nn.Identity):  # the mean of a product is the product of the mean
                pooled = self._down(last, self._mean(x), self._mean(self._gated(last, x)))
            else:
                pooled = self._mean(encoder.norm(self._down(last, x, self._gated(last, x))))
        return encoder.projection(pooled)

    def _start(self, ids: torch.Tensor, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token vectors (tokens, hidden), and complex numbers (tokens, 1, head_dim / 2) that turn pairs of values."""
        self.runs = [(length, len(list(run))) for length, run in groupby(lengths)]
        lengths = torch.tensor(lengths)
        self.first = lengths.cumsum(0) - lengths
        positions = torch.arange(len(ids)) - self.first.repeat_interleave(lengths)
        x = self.encoder.embed_tokens(ids)
        every = torch.arange(int(lengths.max()))[None]
        cos, sin = self.encoder.rotary_emb(x.new_empty(0, dtype=torch.float32), position_ids=every)
        half = self.head_dim // 2
        return x, torch.complex(cos[0, :, :half], sin[0, :, :half])[positions, None]

    def _attend(self, layer, x: torch.Tensor, queries: torch.Tensor, rotations: torch.Tensor) -> None:
        """Adds self-attention over x (tokens, hidden) to the queries: x itself, or the first token of each row."""
        attention, every = layer.self_attn, queries is x
        y = self._norm(layer.input_layernorm, x)
        k = self._rotated(self._linear("k", attention.k_proj, y), rotations)
        v = self._linear("v", attention.v_proj, y).unflatten(-1, (-1, self.head_dim))
        q = self._linear("q", attention.q_proj, y if every else y[self.first])
        q = self._rotated(q, rotations if every else rotations[self.first])
        out = self._buffer("attention", q.shape)
        token = query = 0
        for length, count in self.runs:
            tokens, asked = length * count, count * (length if every else 1)
            q_, o_ = (t[query : query + asked].unflatten(0, (count, -1)) for t in (q, out))
            k_, v_ = (t[token : token + tokens].unflatten(0, (count, -1)).transpose(1, 2) for t in (k, v))
            o_.copy_(attend(q_.transpose(1, 2), k_, v_).transpose(1, 2))
            token, query = token + tokens, query + asked
        queries.addmm_(out.flatten(1), attention.o_proj.weight.t())

    def _rotated(self, heads: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        """Rotary positions on (tokens, heads * head_dim), in place -> (tokens, heads, head_dim).

        Llama turns value i with value i + head_dim / 2. Here such pairs come to stand side by side, as complex numbers
        do: queries and keys in the same new order have the same products.
        """
        wide = heads
        if heads.dtype != torch.float32:
            wide = self._buffer("wide", heads.shape, torch.float32).copy_(heads)
        real, imaginary = wide.unflatten(-1, (-1, 2, self.head_dim // 2)).unbind(-2)
        turned = self._buffer("turned", real.shape, torch.complex64)
        torch.complex(real, imaginary, out=turned).mul_(rotations)
        return heads.copy_(torch.view_as_real(turned).flatten(1)).unflatten(-1, (-1, self.head_dim))

    def _gated(self, layer, x: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) -> (tokens, intermediate), the MLP up to its down-projection."""
        mlp, y = layer.mlp, self._norm(layer.post_attention_layernorm, x)
        gate, up = self._linear("gate", mlp.gate_proj, y), self._linear("up", mlp.up_proj, y)
        is_silu = layer.self_attn.config.hidden_act == "silu"
        return (silu(gate, inplace=True) if is_silu else mlp.act_fn(gate)).mul_(up)

    def _down(self, layer, x: torch.Tensor, gated: torch.Tensor) -> torch.Tensor:
        return x.addmm_(gated, layer.mlp.down_proj.weight.t())

    def _norm(self, norm: LlamaRMSNorm, x: torch.Tensor) -> torch.Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = (length.square() / x.shape[-1] + norm.variance_epsilon).rsqrt().to(x.dtype)
        return torch.mul(x, scale, out=self._buffer("norm", x.shape)).mul_(norm.weight)

    def _linear(self, name: str, linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, linear.weight.t(), out=self._buffer(name, (len(x), linear.out_features)))

    def _mean(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, width) -> (rows, width)."""
        parts = x.split([length * count for length, count in self.runs])
        return torch.cat(
            [p.unflatten(0, (n, -1)).mean(1) for p, (_, n) in zip(parts, self.runs, strict=True)]
        )

    def _buffer(self, name: str, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor of this shape with anything in it; the next call with the name writes over it."""
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = torch.empty(size, dtype=dtype or self.dtype)
        return self.buffers[name][:size].view(shape)
