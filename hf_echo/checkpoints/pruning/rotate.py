"""Rotate the residual stream of an encoder to its principal axes; the embeddings stay the same.

Pruning keeps whole dimensions. In a space without preferred axes (static embeddings, a contrastive space) half of the
dimensions hold half of the variance; half of the principal axes hold far more. A rotation does not change RMSNorm if
its weights are moved into the projections that read it, so the rotated encoder computes the same function (SliceGPT,
Ashkboos et al. 2024, with one rotation for all layers).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...modeling import EchoEncoder, EchoTokenizer
from .importance import code_of_each, norm_weight, readers

_BATCH = 32


@torch.no_grad()
def rotate_to_principal_axes(
    encoder: EchoEncoder,
    tokenizer: EchoTokenizer,
    texts: Sequence[str],
    lang: str | Sequence[str | None] | None = None,
) -> Tensor:
    """Rotate the encoder in place: its dimensions become the principal axes of its pooled states, the largest first.

    Args:
        texts, lang: the sample, and its language or languages; None is "Unspecified language".

    Returns:
        (hidden_size,) mean squares of the pooled states along these axes, descending.

    Raises:
        ValueError: no texts, or a wrong number of languages.
    """
    if not texts:
        raise ValueError("principal axes are measured on texts, and none were given")
    codes = code_of_each(texts, lang)
    moment = _second_moment(encoder, tokenizer, list(texts), codes)
    values, axes = torch.linalg.eigh(moment)
    turn_stream(encoder, axes.flip(1))
    return values.flip(0)


@torch.no_grad()
def turn_stream(encoder: EchoEncoder, axes: Tensor) -> None:
    """The same encoder with `axes` (hidden, hidden; orthonormal columns) as the dimensions of its residual stream."""
    for layer in encoder.backbone.layers:
        for norm, linears in readers(layer):
            for linear in linears:
                _fill(linear.weight, (linear.weight.double().cpu() * norm_weight(norm)) @ axes)
            norm.weight.fill_(1.0)
        for writer in (layer.self_attn.o_proj, layer.mlp.down_proj):
            _fill(writer.weight, axes.T @ writer.weight.double().cpu())
            if writer.bias is not None:
                _fill(writer.bias, axes.T @ writer.bias.double().cpu())
    weight = encoder.projection.weight
    _fill(weight, (weight.double().cpu() * norm_weight(encoder.backbone.norm)) @ axes)
    if hasattr(encoder.backbone.norm, "weight"):
        encoder.backbone.norm.weight.fill_(1.0)
    _fill(encoder.backbone.embed_tokens.weight, encoder.backbone.embed_tokens.weight.double().cpu() @ axes)


def _fill(weight: Tensor, value: Tensor) -> None:
    weight.copy_(value.to(weight.dtype))


def _second_moment(encoder, tokenizer, texts: list[str], codes: list[str | None]) -> Tensor:
    """(hidden, hidden) float64 of what enters the projection."""
    width, seen = encoder.config.hidden_size, 0
    total = torch.zeros(width, width, dtype=torch.float64)

    def add(module, inputs) -> None:
        nonlocal seen, total
        states = inputs[0].double().cpu().reshape(-1, width)
        total += states.T @ states
        seen += len(states)

    hook, training = encoder.projection.register_forward_pre_hook(add), encoder.training
    encoder.eval()
    length = min(tokenizer.model_max_length, encoder.config.max_position_embeddings)
    options = dict(padding=True, truncation=True, max_length=length, padding_side="right")
    try:
        for start in range(0, len(texts), _BATCH):
            rows = slice(start, start + _BATCH)
            encoder(**tokenizer(texts[rows], lang=codes[rows], return_tensors="pt", **options).to(encoder.device))
    finally:
        hook.remove()
        encoder.train(training)
    return total / seen
