"""An EchoEncoder on a CPU with little or no padding: inference in few passes over memory, training
by the layers' code.

Inference: `PackedEncoder` has the steps, for Llama's layers, `PackedPostNorm` those for the layers
of BERT and XLM-R.

On a CPU, matrix products take less than half of a small encoder's time. The rest goes to reading
and writing intermediate results, and to page faults of freshly allocated memory. Therefore
  - rows of similar length form a group, padded to a length that recurs, because kernels are
    compiled per shape;
  - one product gives queries, keys and values; its matrix includes the scale of the scores
    (and Llama's norm weights);
  - attention is two batched products and exponentials, without extra passes for maximum, mask or
    quotient;
  - results go to reused buffers;
  - for embeddings alone, the last layer skips the states that pooling does not read.

Training: after `train_packed(model)` the tokens of a batch go through the layers as one row, sorted
by the length of their texts, and attention works on groups of texts of equal length. Short texts of
mixed lengths train up to twice as fast as with padding. Attention computes in float32 under bf16
autocast, since the backward pass of torch's attention kernel is about five times as slow in bf16 as
in float32 (torch 2.13, AMX: 82 against 18 ms for 128 sentences of 32 tokens), which costs more than
bf16 gains in the matrix products of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import layer_norm, silu
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface
from transformers.models.bert.modeling_bert import BertLayer, BertModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaModel, LlamaRMSNorm
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaLayer, XLMRobertaModel

from .pooling_echo import POOLINGS
from .precision_echo import onednn_is_faster

STEP = 2  # rows are padded to a multiple of this many tokens
SIMILAR = 0.95  # rows of a group have at least this share of its longest row's tokens
MIN_TOKENS = 256  # with fewer, joining the projections takes longer than it saves
MAX_SCORES = 2**21  # attention scores computed at once
MAX_TOKENS = {torch.float32: 1_536, torch.bfloat16: 2_048}  # per batch; the fastest sizes measured
SAFE = 1e-30  # sums of exponentials between SAFE and 1 / SAFE keep full precision
PACKED_ATTENTION = "packed_sdpa"  # the name of `packed_attention` in transformers
# backbones that take positions and hand `groups` on to attention
TRAINABLE = ("bert", "xlm-roberta", "llama")


def length_batches(
    lengths: Sequence[int], max_tokens: float = math.inf, share: float = 0.5
) -> Iterator[list[int]]:
    """Batches of row numbers, longest first, of at most `max_tokens` tokens with padding
    (or of one longer row).

    Rows shorter than `share` times a batch's longest row start another batch.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch:
            longest = lengths[batch[0]]
            is_full = (len(batch) + 1) * _filled_up(longest) > max_tokens
            if is_full or lengths[row] < share * longest:
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


def _filled_up(length: int) -> int:
    return -(-length // STEP) * STEP


def can_pack(encoder: PreTrainedModel) -> bool:
    """Whether `PackedEncoder` may replace the encoder's own forward pass here and now.

    The modules' own code handles training, gradients, compilation, autocast, other devices, and
    layers that are wrapped, hooked (FSDP, offload, recorded states), quantised or extended
    (adapters).
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_grad_enabled():
        return False
    backbone: Any = encoder.backbone
    if type(backbone) not in (LlamaModel, BertModel, XLMRobertaModel):
        return False
    config = backbone.config
    embeddings = backbone.get_input_embeddings()
    layers = layers_of(backbone)
    # Only where the result is the same: a plain encoder on the processor, nobody looks inside.
    return (
        not encoder.training
        and len(layers) > 0
        and type(embeddings) is nn.Embedding
        and type(embeddings.weight) is nn.Parameter
        and embeddings.weight.device.type == "cpu"
        and embeddings.weight.dtype in (torch.float32, torch.bfloat16)
        and not torch.is_autocast_enabled("cpu")
        and config._attn_implementation in ("sdpa", PACKED_ATTENTION)
        and not _is_causal(backbone)
        and not (encoder.config.output_hidden_states or encoder.config.output_attentions)
        and all(_is_plain(layer) for layer in layers)
        and not has_hooks(encoder)
    )


def _is_causal(backbone: PreTrainedModel) -> bool:
    """Whether a token does not see those behind it;
    a Llama does so unless its configuration says otherwise."""
    is_causal = getattr(backbone.config, "is_causal", None)
    if is_causal is None:
        is_causal = type(backbone) is LlamaModel
    return bool(is_causal or getattr(backbone.config, "is_decoder", False))


def _first_position(backbone: PreTrainedModel) -> int:
    """The number of a text's first position: XLM-R counts from behind its padding id."""
    embeddings = getattr(backbone, "embeddings", None)
    return getattr(embeddings, "padding_idx", -1) + 1


def layers_of(backbone: PreTrainedModel) -> nn.ModuleList:
    layers: Any = backbone.layers if type(backbone) is LlamaModel else backbone.encoder.layer
    return layers


def has_hooks(model: nn.Module) -> bool:
    """Whether something acts on the modules' forward passes, such as FSDP or offload.

    The hooks that transformers leaves after a call with `output_hidden_states` do nothing without
    it.
    """
    for module in model.modules():
        if "forward" in vars(module):  # replaced, as offload does
            return True
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
            if getattr(hook, "__module__", "") != "transformers.utils.output_capturing":
                return True
    return False


def _is_plain(layer: nn.Module) -> bool:
    """Whether a layer's norms and matrices are those of transformers, with nothing around them."""
    # The norms and matrices of a layer, by the kind of layer.
    if type(layer) is LlamaDecoderLayer:
        norm_class: type[nn.Module] = LlamaRMSNorm
        norms: list[Any] = [layer.input_layernorm, layer.post_attention_layernorm]
        has_bias = False
        attention: Any = layer.self_attn
        linears: list[Any] = [attention.q_proj, attention.k_proj, attention.v_proj]
        linears += [attention.o_proj, layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj]
    elif type(layer) in (BertLayer, XLMRobertaLayer):
        norm_class = nn.LayerNorm
        norms = [layer.attention.output.LayerNorm, layer.output.LayerNorm]
        has_bias = True
        attention = layer.attention.self
        linears = [attention.query, attention.key, attention.value, layer.attention.output.dense]
        linears += [layer.intermediate.dense, layer.output.dense]
    else:
        return False
    # Each is that of transformers, with or without a bias as usual.
    if any(type(norm) is not norm_class for norm in norms):
        return False
    for linear in linears:
        is_usual = type(linear) is nn.Linear and type(linear.weight) is nn.Parameter
        if not is_usual or (linear.bias is not None) != has_bias:
            return False
    return True


def packed_encoder(encoder: PreTrainedModel, like: PackedEncoder | None = None) -> PackedEncoder:
    """The `PackedEncoder` for the layers of an encoder for which `can_pack` is True."""
    if type(encoder.backbone) is LlamaModel:
        return PackedEncoder(encoder, like)
    return PackedPostNorm(encoder, like)


def packed_states(
    encoder: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """(batch, seq, hidden) states after the last norm, zero at padding;
    None if packing is impossible or too slow."""
    if not can_pack(encoder) or input_ids.dim() != 2:
        return None
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    mask = attention_mask.bool()
    if mask.shape != input_ids.shape or mask.sum() < MIN_TOKENS or not mask.any(1).all():
        return None
    # The tokens of each text, the longest first; their states go back to the places of the batch.
    order = mask.sum(1).argsort(descending=True, stable=True)
    mask = mask[order]
    rows = []
    for ids, row_mask in zip(input_ids[order], mask, strict=True):
        rows.append(ids[row_mask].tolist())
    packed = packed_encoder(encoder)
    states = torch.zeros(*mask.shape, encoder.config.hidden_size, dtype=packed.dtype)
    states[mask] = packed.states(rows)
    return states[order.argsort()]


class Group(NamedTuple):
    """Rows of similar length, padded to one length."""

    rows: slice
    tokens: slice
    mask: torch.Tensor  # (rows, 1, length), ones and zeros
    rotations: torch.Tensor | None  # (length, head_dim / 2), complex; of Llama

    def unpack(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens of all groups, width) -> (rows, length, width) of this group."""
        rows, _, length = self.mask.shape
        return x[self.tokens].view(rows, length, -1)


class PackedEncoder:
    """Computes `states` and `embed` of an encoder for which `can_pack` is True, with its current
    weights.

    One PackedEncoder serves one thread at a time.

    Args:
        encoder: an EchoEncoder.
        like: a PackedEncoder of the same encoder, to share its joined projections
            (a fifth of the layers' weights).
    """

    def __init__(self, encoder: PreTrainedModel, like: PackedEncoder | None = None):
        config = encoder.config.backbone
        self.encoder: Any = encoder  # an EchoEncoder
        backbone: Any = encoder.backbone
        self.backbone = backbone
        self.layers = layers_of(encoder.backbone)
        self.heads = config.num_attention_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.dtype = self.backbone.get_input_embeddings().weight.dtype
        self.joined: list[Any]
        if like is None:
            self.joined = [self._join(layer) for layer in self.layers]
        else:
            self.joined = like.joined
        self.buffers: dict[str, torch.Tensor] = {}
        self.through_onednn = self.dtype == torch.float32 and onednn_is_faster()

    def states(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows of ids, longest first -> (tokens of all rows, hidden) states after the last norm."""
        x = self._start(rows)
        for layer, joined in zip(self.layers, self.joined, strict=True):
            x = self._attend(layer, joined, x)
            x = self._down(layer, x, self._gated(layer, x))
        return self._final(x[self.is_token[:, 0].bool()])

    def embed(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows of ids in any order -> embeddings (rows, embedding_size), float32."""
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]), reverse=True)
        x = self._start([rows[i] for i in order])
        for layer, joined in zip(self.layers[:-1], self.joined[:-1], strict=True):
            x = self._attend(layer, joined, x)
            x = self._down(layer, x, self._gated(layer, x))

        # Of the last layer only those states are computed that pooling reads.
        last_layer = self.layers[-1]
        pooling = POOLINGS[self.encoder.config.pooling]
        x = self._attend(last_layer, self.joined[-1], x, only_first=pooling.reads_only_first)
        states = self._final(self._down(last_layer, x, self._gated(last_layer, x)))
        if pooling.reads_only_first:
            pooled = states
        else:
            pooled_groups = []
            for group in self.groups:
                pooled_groups.append(pooling.pool(group.unpack(states), group.mask[:, 0]))
            pooled = torch.cat(pooled_groups)
        embeddings = self.encoder.projection(pooled.float())
        if order == sorted(order):
            return embeddings
        return embeddings[torch.tensor(order).argsort()]

    def _final(self, x: torch.Tensor) -> torch.Tensor:
        return self.backbone.norm(x)

    def _join(self, layer: Any) -> Any:
        """Join the query, key and value projections, without bias: (all heads * head_dim, hidden).

        The input norm's weights are included. Llama rotates value i of a head with value i +
        head_dim / 2; here such pairs are adjacent, as in complex numbers. Queries and keys have the
        same order, so their products stay equal.
        """
        attention = layer.self_attn
        norm_weight = layer.input_layernorm.weight.float()

        def with_adjacent_pairs(weight: torch.Tensor) -> torch.Tensor:
            # (heads, 2, head_dim / 2, hidden)
            halves = weight.unflatten(0, (-1, 2, self.head_dim // 2))
            return halves.transpose(1, 2).flatten(0, 2)

        query = with_adjacent_pairs(attention.q_proj.weight * norm_weight) * attention.scaling
        key = with_adjacent_pairs(attention.k_proj.weight * norm_weight)
        value = attention.v_proj.weight * norm_weight
        return torch.cat([query, key, value]).to(self.dtype)

    def _start(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Rows, longest first -> token vectors (tokens with padding, hidden);
        sets groups, lengths and is_token."""
        row_lengths = [len(row) for row in rows]
        self.lengths = torch.tensor(row_lengths)[:, None]
        self.groups = []
        rotations = self._rotations(_filled_up(row_lengths[0]))
        ids_of_groups = []
        first_token = 0
        for batch in length_batches(row_lengths, share=SIMILAR):
            rows_of_group = slice(batch[0], batch[-1] + 1)
            length = _filled_up(row_lengths[batch[0]])
            mask = torch.arange(length) < self.lengths[rows_of_group]  # (rows, length)
            ids = torch.zeros(mask.shape, dtype=torch.long)
            ids[mask] = torch.tensor(list(chain.from_iterable(rows[rows_of_group])))
            ids_of_groups.append(ids.view(-1))
            tokens_of_group = slice(first_token, first_token + mask.numel())
            self.groups.append(
                Group(rows_of_group, tokens_of_group, mask.to(self.dtype)[:, None], rotations)
            )
            first_token += mask.numel()
        self.is_token = torch.cat([group.mask.view(-1, 1) for group in self.groups])
        return self._vectors(torch.cat(ids_of_groups))

    def _vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids of all groups -> token vectors."""
        weight = self.backbone.get_input_embeddings().weight
        return torch.index_select(
            weight, 0, ids, out=self._buffer("x", (len(ids), weight.shape[1]))
        )

    def _rotations(self, longest: int) -> torch.Tensor | None:
        cos, sin = self.backbone.rotary_emb(
            self.lengths.float(), position_ids=torch.arange(longest)[None]
        )
        half = self.head_dim // 2
        return torch.complex(cos[0, :, :half], sin[0, :, :half])

    def _attend(
        self, layer: nn.Module, joined: Any, x: torch.Tensor, only_first: bool = False
    ) -> torch.Tensor:
        """Self-attention over x (tokens, hidden), added to x, or to the rows' first tokens."""
        size = self.head_dim
        projected = self._projected(layer, joined, x)
        key_heads = (projected.shape[1] // size - self.heads) // 2
        if only_first:
            x = torch.cat([group.unpack(x)[:, 0] for group in self.groups])
        out = self._buffer("norm", (len(x), self.heads * size))
        for group in self.groups:
            # (rows, heads, length, size).
            heads = group.unpack(projected).unflatten(-1, (-1, size)).transpose(1, 2)
            query, key, value = heads.split([self.heads, key_heads, key_heads], dim=1)
            if only_first:
                query = query[:, :, :1]
            mixed = self._mixed(query, key, value, group).transpose(1, 2)
            places = group.rows if only_first else group.tokens
            result = out[places].view(*mixed.shape[:3], size)
            # By the sum of the exponentials.
            torch.div(mixed[..., :size], mixed[..., size:], out=result)
        return self._attended(layer, x, out)

    def _projected(self, layer: nn.Module, joined: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values: (tokens, hidden) -> (tokens, all heads * head_dim)."""
        scale = self._scale(layer.input_layernorm, x) * self.is_token  # sets padding to zero
        return self._product(
            "joined", torch.mul(x, scale, out=self._buffer("norm", x.shape)), joined
        )

    def _attended(self, layer: nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return self._added(x, out, layer.self_attn.o_proj)

    def _mixed(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Group
    ) -> torch.Tensor:
        """Unnormalised attention of a group: (rows, heads, tokens, head_dim) ->
        (rows, heads, queries, head_dim + 1).

        The last value is the sum of the exponentials; the caller divides by it.
        """
        rows, key_heads, length, size = k.shape
        query_heads = q.shape[1]
        with_ones = self._buffer("v", (rows, key_heads, length, size + 1))
        torch.mul(v, group.mask[..., None], out=with_ones[..., :size])
        with_ones[..., size] = group.mask
        query = self._rotated("q", q, group.rotations).view(rows * key_heads, -1, size)
        key = self._rotated("k", k, group.rotations).view(rows * key_heads, -1, size)
        mixed = self._attention(query, key, with_ones.view(rows * key_heads, length, size + 1))
        return mixed.view(rows, query_heads, -1, size + 1)

    def _rotated(self, name: str, heads: torch.Tensor, rotations: torch.Tensor) -> torch.Tensor:
        """Rotary positions applied to (rows, heads, tokens, head_dim), in another buffer."""
        exact = name if self.dtype == torch.float32 else "wide"
        wide = self._buffer(exact, heads.shape, torch.float32).copy_(heads)
        torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(rotations[: heads.shape[2]])
        return wide if exact == name else self._buffer(name, heads.shape).copy_(wide)

    def _attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """exp(q k^T) v: (n, queries, head_dim), (n, tokens, head_dim), (n, tokens, size) ->
        (n, queries, size).

        v is zero at padding; its last value is 1 elsewhere, so that the last result is the sum of
        the exponentials. It can overflow or underflow; where it comes near that, the maximum is
        subtracted first.
        """
        out = self._buffer("out", (*q.shape[:2], v.shape[2]))
        at_once = max(1, MAX_SCORES // (len(k) * k.shape[1]))
        for part, result in zip(q.split(at_once, 1), out.split(at_once, 1), strict=True):
            scores = self._buffer("scores", (*part.shape[:2], k.shape[1]))
            torch.bmm(part, k.mT, out=scores)
            torch.bmm(scores.exp_(), v, out=result)
            least, most = torch.stack(result[..., -1].aminmax()).tolist()
            if not SAFE < least <= most < 1 / SAFE:  # also true for NaN
                is_padding = v[:, None, :, -1] == 0
                torch.bmm(part, k.mT, out=scores).masked_fill_(is_padding, -math.inf)
                torch.bmm(scores.softmax(-1), v, out=result)
        return out

    def _gated(self, layer: Any, x: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) -> (tokens, intermediate), the MLP up to its down-projection."""
        mlp = layer.mlp
        norm = layer.post_attention_layernorm
        y = torch.mul(x, self._scale(norm, x), out=self._buffer("norm", x.shape)).mul_(norm.weight)
        gate = self._product("joined", y, mlp.gate_proj.weight)
        up = self._product("scores", y, mlp.up_proj.weight)
        is_silu = layer.self_attn.config.hidden_act == "silu"
        return (silu(gate, inplace=True) if is_silu else mlp.act_fn(gate)).mul_(up)

    def _down(self, layer: nn.Module, x: torch.Tensor, gated: torch.Tensor) -> torch.Tensor:
        return self._added(x, gated, layer.mlp.down_proj)

    def _scale(self, norm: LlamaRMSNorm, x: torch.Tensor) -> torch.Tensor:
        """(tokens, 1), the factor by which an RMS norm multiplies each token
        (before its weights)."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        mean_square = length.square_().div_(x.shape[-1])
        return mean_square.add_(norm.variance_epsilon).rsqrt_().to(self.dtype)

    def _product(
        self, name: str, x: torch.Tensor, weight: torch.Tensor, bias: Any = None
    ) -> torch.Tensor:
        """x W^T + bias: (tokens, inputs) -> (tokens, outputs),
        in the buffer `name` or a tensor of its own."""
        if self.through_onednn:
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        out = self._buffer(name, (len(x), len(weight)))
        if bias is None:
            return torch.mm(x, weight.t(), out=out)
        return torch.addmm(bias, x, weight.t(), out=out)

    def _added(self, x: torch.Tensor, y: torch.Tensor, linear: nn.Linear) -> torch.Tensor:
        """x + y W^T + bias, in place of x."""
        weight = linear.weight.to(x.dtype)  # x is float32 where a mean was taken first
        if self.through_onednn:
            return x.add_(self._product("", y, weight, linear.bias))
        x.addmm_(y, weight.t())
        return x if linear.bias is None else x.add_(linear.bias)

    def _buffer(
        self, name: str, shape: Sequence[int], dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """An uninitialised tensor of this shape, which the next call with the same name overwrites:
        few names, so that the buffers stay in the cache."""
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = torch.empty(size, dtype=dtype or self.dtype)
        return self.buffers[name][:size].view(shape)


class PackedPostNorm(PackedEncoder):
    """The same for the layers of BERT and XLM-R:
    biases, a norm behind each sum, positions in the token vectors."""

    def _join(self, layer: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (3 * hidden, hidden) and bias of query, key and value of a layer like BERT's, as
        one product; the scale of the scores is in the queries."""
        attention: Any = layer.attention.self
        scale = self.head_dim**-0.5  # of the scores, taken into the queries
        query_weight = (attention.query.weight.float() * scale).to(self.dtype)
        query_bias = (attention.query.bias.float() * scale).to(self.dtype)
        weight = torch.cat([query_weight, attention.key.weight, attention.value.weight])
        bias = torch.cat([query_bias, attention.key.bias, attention.value.bias])
        return weight, bias

    def _final(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def _rotations(self, longest: int) -> None:
        """None: positions are in the token vectors."""

    def _rotated(self, name: str, heads: torch.Tensor, rotations: None) -> torch.Tensor:
        return self._buffer(name, heads.shape).copy_(heads)

    def _vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) of the words, their positions and the type, after the norm."""
        embeddings = self.backbone.embeddings
        x = super()._vectors(ids)
        # (positions, hidden); all tokens are of type 0
        positions = embeddings.position_embeddings.weight[_first_position(self.backbone) :]
        positions = positions + embeddings.token_type_embeddings.weight[0]
        longest = int(self.lengths.max())
        if longest > len(positions):
            raise ValueError(
                f"a text has {longest} tokens and the model reads at most {len(positions)}: shorten it"
            )
        for group in self.groups:
            tokens = group.unpack(x)  # (rows, length, width)
            # padding may stand behind the last position, and has none
            positions_of_group = positions[: tokens.shape[1]]
            tokens[:, : len(positions_of_group)].add_(positions_of_group)
        return self._normed(embeddings.LayerNorm, x)

    def _projected(
        self, layer: nn.Module, joined: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        return self._product("joined", x, *joined)

    def _attended(self, layer: nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        output = layer.attention.output
        return self._normed(output.LayerNorm, self._added(x, out, output.dense))

    def _gated(self, layer: Any, x: torch.Tensor) -> torch.Tensor:
        """The hidden units of the feed-forward block, after its activation: (tokens,
        intermediate_size)."""
        dense = layer.intermediate.dense
        is_gelu = self.backbone.config.hidden_act == "gelu"
        if is_gelu and self.through_onednn:
            return torch.ops.mkldnn._linear_pointwise(
                x, dense.weight, dense.bias, "gelu", [], "none"
            )
        y = self._product("joined", x, dense.weight, dense.bias)
        return torch.ops.aten.gelu_(y) if is_gelu else layer.intermediate.intermediate_act_fn(y)

    def _down(self, layer: nn.Module, x: torch.Tensor, gated: torch.Tensor) -> torch.Tensor:
        return self._normed(layer.output.LayerNorm, self._added(x, gated, layer.output.dense))

    def _normed(self, norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


# Training


class TextGroup(NamedTuple):
    """Texts of (nearly) one length, which follow each other in the packed row."""

    texts: int
    length: int
    mask: torch.Tensor | None  # (texts, 1, 1, length), False at padding; None without padding


def packed_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    groups: Sequence[TextGroup] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """ "sdpa" of transformers, in float32 under autocast on a CPU, and with `groups` for each group
    of a packed row.

    Args:
        query, key, value: (rows, heads, tokens, head_dim); a packed row is the only one.
        groups: the texts of the packed row, in order; None for rows as usual.

    Returns:
        (rows, tokens, heads, head_dim), and no attention weights.
    """
    # Rows as usual.
    if groups is None:
        return _attention_in_float32(module, query, key, value, attention_mask, **options), None
    # Group by group: (heads, tokens of the group, head_dim) -> (texts, heads, length, head_dim).
    mixed = []
    start = 0
    for group in groups:
        tokens = slice(start, start + group.texts * group.length)
        start = tokens.stop
        states = _attention_in_float32(
            module,
            _by_text(query[0, :, tokens], group),
            _by_text(key[0, :, tokens], group),
            _by_text(value[0, :, tokens], group),
            group.mask,
            **options,
        )
        mixed.append(states.flatten(0, 1))
    return torch.cat(mixed)[None], None


def _by_text(heads: torch.Tensor, group: TextGroup) -> torch.Tensor:
    """(heads, tokens of the group, head_dim) -> (texts, heads, length, head_dim)."""
    return heads.unflatten(1, (group.texts, group.length)).transpose(0, 1)


def _attention_in_float32(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> torch.Tensor:
    """(rows, tokens, heads, head_dim) of "sdpa", computed in float32 under autocast on a CPU."""
    if query.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)[0]
    if attention_mask is not None and attention_mask.is_floating_point():
        attention_mask = attention_mask.float()
    with torch.autocast("cpu", enabled=False):
        states, _ = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), attention_mask, **options
        )
    return states.to(value.dtype)


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
AttentionMaskInterface.register(PACKED_ATTENTION, sdpa_mask)


def train_packed(model: nn.Module) -> None:
    """Let the text models inside `model` that use "sdpa" train on a CPU as the top of this file
    says."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and part.config._attn_implementation == "sdpa":
            part.set_attn_implementation(PACKED_ATTENTION)


def can_train_packed(
    encoder: PreTrainedModel, inputs: dict[str, Any], mask: torch.Tensor | None
) -> bool:
    """Whether the layers may get all tokens of a batch as one row."""
    config = encoder.config
    return (
        mask is not None
        and mask.dim() == 2
        and mask.device.type == "cpu"
        and set(inputs) == {"input_ids"}
        and config.backbone._attn_implementation == PACKED_ATTENTION
        and config.backbone.model_type in TRAINABLE
        and not _is_causal(encoder.backbone)
        and not (config.output_hidden_states or config.output_attentions)
        and bool(mask.any(1).all())
    )


def states_of_packed_row(
    encoder: PreTrainedModel, input_ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """(texts, seq) ids and mask -> (texts, seq, hidden) states with gradients, zero at padding."""
    groups, is_token, positions, order = packed_row(mask)
    # Any token stands where a group has padding: no text attends to it.
    some_token = int(input_ids[mask.bool()][0])
    row = input_ids.new_full(is_token.shape, some_token)
    row[is_token] = input_ids[order][mask[order].bool()]
    positions = positions + _first_position(encoder.backbone)
    backbone: Any = encoder.backbone
    output = backbone(input_ids=row[None], position_ids=positions[None], groups=groups)
    packed = output.last_hidden_state[0]  # (tokens of the row, hidden)
    states = packed.new_zeros(*mask.shape, packed.shape[-1])
    states[mask[order].bool()] = packed[is_token]
    return states[order.argsort()]


def packed_row(
    mask: torch.Tensor,
) -> tuple[list[TextGroup], torch.Tensor, torch.Tensor, torch.Tensor]:
    """How the texts of a batch follow each other in one row, short ones first.

    Args:
        mask: (texts, seq), 1 for tokens.

    Returns:
        The groups of texts; (tokens of the row,) whether each is a token of a text, not padding;
        (tokens of the row,) its position in the text; (texts,) the number of each text in the
        batch.
    """
    lengths = mask.sum(1)
    order = lengths.argsort(stable=True)
    lengths = lengths[order]
    rounded_up = (lengths + STEP - 1) // STEP * STEP
    padded_lengths, counts = rounded_up.unique_consecutive(return_counts=True)
    groups: list[TextGroup] = []
    tokens_of_groups = []
    positions_of_groups = []
    first_text = 0
    for length, texts in zip(padded_lengths.tolist(), counts.tolist(), strict=True):
        text_lengths = lengths[first_text : first_text + texts]
        is_token = torch.arange(length) < text_lengths[:, None]  # (texts, length)
        group_mask = None if is_token.all() else is_token[:, None, None]
        groups.append(TextGroup(texts, length, group_mask))
        tokens_of_groups.append(is_token.flatten())
        positions_of_groups.append(torch.arange(length).repeat(texts))
        first_text += texts
    return groups, torch.cat(tokens_of_groups), torch.cat(positions_of_groups), order
