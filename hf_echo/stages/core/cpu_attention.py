"""Training on a CPU: no padding in a backbone's layers, and attention in float32 under bf16 autocast.

The tokens of a batch go through the layers as one row, sorted by the length of their texts; attention works on groups
of texts of equal length. Short texts of mixed lengths train up to twice as fast as with padding.

The backward pass of torch's attention kernel is about five times as slow in bf16 as in float32 (torch 2.13, AMX: 82
against 18 ms for 128 sentences of 32 tokens). That costs more than bf16 gains in the matrix products of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ...modeling import EchoEncoder

STEP = 2  # texts are padded to a multiple of this many tokens, for fewer groups
PACKED = ("bert", "xlm-roberta", "llama")  # backbones that take positions and hand options on to attention


class Group(NamedTuple):
    """Texts of (nearly) one length, which follow each other in the packed row."""

    texts: int
    length: int
    mask: torch.Tensor | None  # (texts, 1, 1, length), False at padding; None without padding


@contextmanager
def packed_attention() -> Iterator[None]:
    """Context in which "sdpa" of transformers computes in float32 under autocast on a CPU, and encoders do not pad."""
    attend, states = ALL_ATTENTION_FUNCTIONS["sdpa"], EchoEncoder._states

    def one_call(module, query, key, value, attention_mask=None, **kwargs):
        if query.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return attend(module, query, key, value, attention_mask, **kwargs)
        if attention_mask is not None and attention_mask.is_floating_point():
            attention_mask = attention_mask.float()
        with torch.autocast("cpu", enabled=False):
            mixed, weights = attend(module, query.float(), key.float(), value.float(), attention_mask, **kwargs)
        return mixed.to(value.dtype), weights

    def by_groups(module, query, key, value, attention_mask=None, groups=None, **kwargs):
        if groups is None:
            return one_call(module, query, key, value, attention_mask, **kwargs)
        sizes, mixed = [group.texts * group.length for group in groups], []
        parts = zip(groups, *(x[0].split(sizes, 1) for x in (query, key, value)), strict=True)
        for group, *heads in parts:  # (heads, tokens, head_dim) each
            of_texts = (x.unflatten(1, (group.texts, group.length)).transpose(0, 1) for x in heads)
            mixed.append(one_call(module, *of_texts, group.mask, **kwargs)[0].flatten(0, 1))
        return torch.cat(mixed)[None], None

    def packed(self, inputs, mask):
        ids = inputs.get("input_ids")
        if not (can_pack(self, inputs, mask) and mask.any(1).all()):
            return states(self, inputs, mask)
        groups, is_token, positions, order = layout(mask)
        row = ids.new_full(is_token.shape, ids[mask.bool()][0].item())
        row[is_token] = ids[order][mask[order].bool()]
        first = getattr(getattr(self.backbone, "embeddings", None), "padding_idx", -1) + 1  # XLM-R's first position
        output = self.backbone(input_ids=row[None], position_ids=positions[None] + first, groups=groups)
        unpacked = output.last_hidden_state.new_zeros(*mask.shape, output.last_hidden_state.shape[-1])
        unpacked[mask[order].bool()] = output.last_hidden_state[0, is_token]
        return {"last_hidden_state": unpacked[order.argsort()]}

    ALL_ATTENTION_FUNCTIONS["sdpa"], EchoEncoder._states = by_groups, packed
    try:
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"], EchoEncoder._states = attend, states


def can_pack(encoder: EchoEncoder, inputs: dict, mask: torch.Tensor | None) -> bool:
    """Whether the layers may get all tokens of a batch as one row."""
    return (
        mask is not None
        and mask.dim() == 2
        and mask.device.type == "cpu"
        and set(inputs) == {"input_ids"}
        and encoder.config.backbone.model_type in PACKED
        and encoder.config.backbone._attn_implementation == "sdpa"
        and not (encoder.config.output_hidden_states or encoder.config.output_attentions)
    )


def layout(mask: torch.Tensor) -> tuple[list[Group], torch.Tensor, torch.Tensor, torch.Tensor]:
    """(texts, seq) -> groups, then (tokens of the packed row,) what is no padding and positions, and order of texts."""
    lengths = mask.sum(1)
    order = lengths.argsort(stable=True)
    lengths, groups, real, positions = lengths[order], [], [], []
    filled = (lengths + STEP - 1) // STEP * STEP
    for length, texts in zip(*(x.tolist() for x in filled.unique_consecutive(return_counts=True)), strict=True):
        start = sum(group.texts for group in groups)
        is_token = torch.arange(length) < lengths[start : start + texts, None]
        groups.append(Group(texts, length, None if is_token.all() else is_token[:, None, None]))
        real.append(is_token.flatten())
        positions.append(torch.arange(length).repeat(texts))
    return groups, torch.cat(real), torch.cat(positions), order
