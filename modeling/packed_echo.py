"""Fast CPU inference for an EchoEncoder: little padding, few passes over memory, the same results as the Llama blocks.

On a CPU, matrix products take less than half of a small encoder's time. The rest goes to reading and writing
intermediate results, and to page faults of freshly allocated memory. Therefore
  - rows of similar length form a group, padded to a length that recurs, because kernels are compiled per shape;
  - one product gives queries, keys and values; its matrix includes the norm's weights and the scale of the scores;
  - attention is two batched products and exponentials, without extra passes for maximum, mask or quotient;
  - results go to reused buffers;
  - for embeddings alone, the last layer skips the states that pooling does not read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import silu
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaModel, LlamaRMSNorm

STEP = 2  # rows are padded to a multiple of this many tokens
SIMILAR = 0.95  # rows of a group have at least this share of its longest row's tokens
MIN_TOKENS = 256  # with fewer, joining the projections takes longer than it saves
MAX_SCORES = 2**21  # attention scores computed at once
MAX_TOKENS = {torch.float32: 1_536, torch.bfloat16: 2_048}  # per batch; the fastest sizes measured
SAFE = 1e-30  # sums of exponentials between SAFE and 1 / SAFE keep full precision


def length_batches(lengths: Sequence[int], max_tokens: float = math.inf, share: float = 0.5) -> Iterator[list[int]]:
    """Batches of row numbers, longest first.

    Args:
        max_tokens: most tokens of a batch, padding included; a longer row is a batch by itself.
        share: rows shorter than this share of a batch's longest row start another batch.
    """
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch:
            longest = lengths[batch[0]]
            if lengths[i] < share * longest or (len(batch) + 1) * _filled_up(longest) > max_tokens:
                yield batch
                batch = []
        batch.append(i)
    if batch:
        yield batch


def _filled_up(length: int) -> int:
    return -(-length // STEP) * STEP


def can_pack(encoder) -> bool:
    """Whether `PackedEncoder` may replace the encoder's own forward pass here and now.

    The modules' own code handles training, gradients, compilation, autocast, other devices, and layers that are
    wrapped, hooked (FSDP, offload, recorded states), quantised or extended (adapters).
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_grad_enabled():
        return False
    backbone = encoder.backbone
    if type(backbone) is not LlamaModel:
        return False
    config, embeddings = backbone.config, backbone.embed_tokens.weight
    return (
        not encoder.training
        and len(backbone.layers) > 0
        and type(backbone.embed_tokens) is nn.Embedding
        and type(embeddings) is nn.Parameter
        and embeddings.device.type == "cpu"
        and embeddings.dtype in (torch.float32, torch.bfloat16)
        and not torch.is_autocast_enabled("cpu")
        and config._attn_implementation == "sdpa"
        and not (config.is_causal or encoder.config.output_hidden_states or encoder.config.output_attentions)
        and encoder.config.pooling != "last"
        and all(_is_plain(layer) for layer in backbone.layers)
        and not has_hooks(encoder)
    )


def has_hooks(model) -> bool:
    """Whether something acts on the modules' forward passes: FSDP, offload, recorded states."""
    return any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.modules())


def _is_plain(layer) -> bool:
    if type(layer) is not LlamaDecoderLayer:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    if any(type(norm) is not LlamaRMSNorm for norm in (layer.input_layernorm, layer.post_attention_layernorm)):
        return False
    linears = (
        attention.q_proj,
        attention.k_proj,
        attention.v_proj,
        attention.o_proj,
        mlp.gate_proj,
        mlp.up_proj,
        mlp.down_proj,
    )
    return all(type(m) is nn.Linear and m.bias is None and type(m.weight) is nn.Parameter for m in linears)


def packed_states(encoder, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor | None:
    """(batch, seq, hidden) states after the last norm, zero at padding; None if packing is impossible or too slow."""
    if not can_pack(encoder) or input_ids.dim() != 2:
        return None
    mask = (torch.ones_like(input_ids) if attention_mask is None else attention_mask).bool()
    if mask.shape != input_ids.shape or mask.sum() < MIN_TOKENS or not mask.any(1).all():
        return None
    order = mask.sum(1).argsort(descending=True, stable=True)
    mask = mask[order]
    packed = PackedEncoder(encoder)
    states = torch.zeros(*mask.shape, encoder.config.hidden_size, dtype=packed.dtype)
    states[mask] = packed.states([ids[row].tolist() for ids, row in zip(input_ids[order], mask, strict=True)])
    return states[order.argsort()]


class Group(NamedTuple):
    """Rows of similar length, padded to one length."""

    rows: slice
    tokens: slice
    mask: torch.Tensor  # (rows, 1, length), ones and zeros
    rotations: torch.Tensor  # (length, head_dim / 2), complex

    def unpack(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens of all groups, width) -> (rows, length, width) of this group."""
        rows, _, length = self.mask.shape
        return x[self.tokens].view(rows, length, -1)


class PackedEncoder:
    """Computes `states` and `embed` of an encoder for which `can_pack` is True, with its current weights.

    One PackedEncoder serves one thread at a time.

    Args:
        encoder: an EchoEncoder.
        like: a PackedEncoder of the same encoder, to share its joined projections (a fifth of the layers' weights).
    """

    def __init__(self, encoder, like: PackedEncoder | None = None):
        config, self.backbone = encoder.config.backbone, encoder.backbone
        self.encoder = encoder
        self.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.dtype = encoder.backbone.embed_tokens.weight.dtype
        self.joined: list[Any] = like.joined if like else [self._join(layer) for layer in encoder.backbone.layers]
        self.buffers: dict[str, torch.Tensor] = {}

    def states(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows of ids, longest first -> (tokens of all rows, hidden) states after the last norm."""
        x = self._start(rows)
        for layer, joined in zip(self.backbone.layers, self.joined, strict=True):
            self._attend(layer, joined, x)
            self._down(layer, x, self._gated(layer, x))
        return self.backbone.norm(x[self.is_token[:, 0].bool()])

    def embed(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows of ids in any order -> embeddings (rows, embedding_size), float32."""
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        encoder, x = self.encoder, self._start([rows[i] for i in order])
        *body, (last, joined) = zip(self.backbone.layers, self.joined, strict=True)
        for layer, its in body:
            self._attend(layer, its, x)
            self._down(layer, x, self._gated(layer, x))
        if encoder.config.pooling == "cls":  # only the first token's last state is read
            first = self._attend(last, joined, x, only_first=True)
            pooled = self.backbone.norm(self._down(last, first, self._gated(last, first)))
        else:
            self._attend(last, joined, x)
            if isinstance(self.backbone.norm, nn.Identity):  # the down-projection is linear: apply it to the mean
                pooled = self._down(last, self._mean(x), self._mean(self._gated(last, x)))
            else:
                pooled = self._mean(self.backbone.norm(self._down(last, x, self._gated(last, x))))
        embeddings = encoder.projection(pooled.float())
        return embeddings if order == list(range(len(rows))) else embeddings[torch.tensor(order).argsort()]

    def _join(self, layer) -> torch.Tensor:
        """Join the query, key and value projections, without bias: (all heads * head_dim, hidden).

        The input norm's weights are included. Llama rotates value i of a head with value i + head_dim / 2; here such
        pairs are adjacent, as in complex numbers. Queries and keys have the same order, so their products stay equal.
        """
        attention, norm = layer.self_attn, layer.input_layernorm.weight.float()
        q, k, v = (m.weight * norm for m in (attention.q_proj, attention.k_proj, attention.v_proj))
        q, k = (w.unflatten(0, (-1, 2, self.head_dim // 2)).transpose(1, 2).flatten(0, 2) for w in (q, k))
        return torch.cat([q * attention.scaling, k, v]).to(self.dtype)

    def _start(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows, longest first -> token vectors (tokens with padding, hidden); sets groups, lengths and is_token."""
        self.lengths = torch.tensor([len(row) for row in rows])[:, None]
        self.groups, ids, start = [], [], 0
        longest = _filled_up(len(rows[0]))
        cos, sin = self.backbone.rotary_emb(self.lengths.float(), position_ids=torch.arange(longest)[None])
        half = self.head_dim // 2
        rotations = torch.complex(cos[0, :, :half], sin[0, :, :half])
        for batch in length_batches([len(row) for row in rows], share=SIMILAR):
            part = slice(batch[0], batch[-1] + 1)
            length = _filled_up(len(rows[part.start]))
            mask = torch.arange(length) < self.lengths[part]
            of_group = torch.zeros(mask.shape, dtype=torch.long)
            of_group[mask] = torch.tensor([i for row in rows[part] for i in row])
            ids.append(of_group.view(-1))
            tokens = slice(start, start := start + mask.numel())
            self.groups.append(Group(part, tokens, mask.to(self.dtype)[:, None], rotations[:length]))
        self.is_token = torch.cat([group.mask.view(-1, 1) for group in self.groups])
        embeddings = self.backbone.embed_tokens.weight
        return torch.index_select(embeddings, 0, torch.cat(ids), out=self._buffer("x", (start, embeddings.shape[1])))

    def _attend(self, layer, joined: torch.Tensor, x: torch.Tensor, only_first: bool = False) -> torch.Tensor:
        """Add self-attention over x (tokens, hidden) to x, or to the rows' first tokens, in place; return the sum."""
        size, attention = self.head_dim, layer.self_attn
        heads, key_heads = (m.out_features // size for m in (attention.q_proj, attention.k_proj))
        scale = self._scale(layer.input_layernorm, x) * self.is_token  # sets padding to zero
        y = torch.mul(x, scale, out=self._buffer("norm", x.shape))
        y = torch.mm(y, joined.t(), out=self._buffer("joined", (len(y), len(joined))))
        if only_first:
            x = torch.cat([group.unpack(x)[:, 0] for group in self.groups])
        out = self._buffer("norm", (len(x), heads * size))
        for group in self.groups:
            of_group = group.unpack(y).unflatten(-1, (-1, size)).transpose(1, 2)
            q, k, v = of_group.split([heads, key_heads, key_heads], dim=1)
            mixed = self._mixed(q[:, :, :1] if only_first else q, k, v, group).transpose(1, 2)
            result = out[group.rows if only_first else group.tokens].view(*mixed.shape[:3], size)
            torch.div(mixed[..., :size], mixed[..., size:], out=result)
        return x.addmm_(out, attention.o_proj.weight.t())

    def _mixed(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Group) -> torch.Tensor:
        """Unnormalised attention of a group: (rows, heads, tokens, head_dim) -> (rows, heads, queries, head_dim + 1).

        The last value is the sum of the exponentials; the caller divides by it.
        """
        (rows, key_heads, length, size), heads = k.shape, q.shape[1]
        with_ones = self._buffer("v", (rows, key_heads, length, size + 1))
        with_ones[..., :size], with_ones[..., size] = v, group.mask
        q, k = (
            self._rotated(name, t, group.rotations).view(rows * key_heads, -1, size) for name, t in (("q", q), ("k", k))
        )
        mixed = self._attention(q, k, with_ones.view(rows * key_heads, length, size + 1))
        return mixed.view(rows, heads, -1, size + 1)

    def _rotated(self, name: str, heads: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        """Rotary positions applied to (rows, heads, tokens, head_dim), in another buffer."""
        exact = name if self.dtype == torch.float32 else "wide"
        wide = self._buffer(exact, heads.shape, torch.float32).copy_(heads)
        torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(rotations[: heads.shape[2]])
        return wide if exact == name else self._buffer(name, heads.shape).copy_(wide)

    def _attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """exp(q k^T) v.

        Args:
            q: (n, queries, head_dim).
            k: (n, tokens, head_dim).
            v: (n, tokens, any size), zero at padding; its last value is 1 elsewhere.

        Returns:
            (n, queries, size of v); the last values are the sums of the exponentials. Without subtracting the maximum
            they can overflow or underflow; where they come near that, the maximum is subtracted.
        """
        out = self._buffer("out", (*q.shape[:2], v.shape[2]))
        at_once = max(1, MAX_SCORES // (len(k) * k.shape[1]))
        for part, result in zip(q.split(at_once, 1), out.split(at_once, 1), strict=True):
            scores = torch.bmm(part, k.mT, out=self._buffer("scores", (*part.shape[:2], k.shape[1])))
            torch.bmm(scores.exp_(), v, out=result)
            least, most = torch.stack(result[..., -1].aminmax()).tolist()
            if not SAFE < least <= most < 1 / SAFE:  # also true for NaN
                scores = torch.bmm(part, k.mT, out=scores).masked_fill_(v[:, None, :, -1] == 0, -math.inf)
                torch.bmm(scores.softmax(-1), v, out=result)
        return out

    def _gated(self, layer, x: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) -> (tokens, intermediate), the MLP up to its down-projection."""
        mlp, norm = layer.mlp, layer.post_attention_layernorm
        y = torch.mul(x, self._scale(norm, x), out=self._buffer("norm", x.shape)).mul_(norm.weight)
        gate, up = self._linear("joined", mlp.gate_proj, y), self._linear("scores", mlp.up_proj, y)
        is_silu = layer.self_attn.config.hidden_act == "silu"
        return (silu(gate, inplace=True) if is_silu else mlp.act_fn(gate)).mul_(up)

    def _down(self, layer, x: torch.Tensor, gated: torch.Tensor) -> torch.Tensor:
        return x.addmm_(gated, layer.mlp.down_proj.weight.to(x.dtype).t())

    def _scale(self, norm: LlamaRMSNorm, x: torch.Tensor) -> torch.Tensor:
        """(tokens, 1), the factor by which an RMS norm multiplies each token (before its weights)."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return length.square_().div_(x.shape[-1]).add_(norm.variance_epsilon).rsqrt_().to(self.dtype)

    def _linear(self, name: str, linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, linear.weight.t(), out=self._buffer(name, (len(x), linear.out_features)))

    def _mean(self, x: torch.Tensor) -> torch.Tensor:
        """Mean over each row's tokens: (tokens, width) -> (rows, width), in float32."""
        sums = [torch.bmm(group.mask.float(), group.unpack(x).float())[:, 0] for group in self.groups]
        return torch.cat(sums) / self.lengths

    def _buffer(self, name: str, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
        """An uninitialised tensor of this shape; the next call with the same name overwrites it.

        Results that are never needed at the same time share a name: fewer buffers stay in the cache.
        """
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = torch.empty(size, dtype=dtype or self.dtype)
        return self.buffers[name][:size].view(shape)
