"""Chunked token cross-entropy: the decoder's translation loss without the logits of all tokens in memory.

The loss takes the decoder's last hidden states and the output matrix (no bias, as in Llama) instead of logits. As in
Liger (https://arxiv.org/abs/2410.10989), the forward pass also computes the gradient, chunk by chunk, so nothing of
size tokens x vocabulary is kept for the backward pass. The cost: time for the gradient even if backward is never called
(unless gradients are disabled), and one float32 copy of the output matrix's gradient from forward to backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .checks import shapes


def translation_loss(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, chunk_size: int = 1024, ignore_index: int = -100
) -> Tensor:
    """Mean negative log likelihood of the target tokens (Omnilingual SONAR 4.3-4.4.1; beta's term in Eq. 4 and 6).

    Value and gradients equal `F.cross_entropy(hidden @ weight.T, labels)`; memory is chunk_size x vocabulary instead
    of tokens x vocabulary. Ignored tokens are dropped first. Under autocast, matrix products run in its dtype; the
    softmax and the sum of the weight's gradient over chunks are in float32 or wider.

    Args:
        hidden: (tokens, h) or (batch, seq, h), last hidden states, after the final norm.
        weight: (vocabulary, h), the output matrix; may be the tied input embedding.
        labels: (tokens,) or (batch, seq), int64, ALREADY shifted: `hidden[t]` must predict `labels[t]`.
        chunk_size: tokens whose logits are in memory at one time.
        ignore_index: label of prompt and padding tokens.

    Returns:
        Scalar, the mean over tokens that are not ignored; 0 with zero gradients if all are ignored. It can be
        differentiated once: `create_graph=True` raises RuntimeError.

    Raises:
        ValueError: shapes that do not fit, chunk_size < 1, or a label outside the vocabulary.

    Example:
        >>> import torch
        >>> hidden, weight = torch.zeros(2, 3, 8), torch.randn(10, 8)
        >>> labels = torch.tensor([[1, 2, -100], [3, -100, -100]])
        >>> translation_loss(hidden, weight, labels).item()  # log 10
        2.30258...
    """
    if hidden.ndim not in (2, 3) or hidden.shape[:-1] != labels.shape:
        wanted = "(tokens, h) or (batch, seq, h) with labels of its leading shape"
        raise ValueError(f"hidden must be {wanted}, got {shapes(hidden, labels)}")
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(f"weight must be (vocabulary, {hidden.shape[-1]}), got {tuple(weight.shape)}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    kept = labels != ignore_index
    hidden, labels = hidden[kept], labels[kept].long()
    outside = labels[(labels < 0) | (labels >= len(weight))]
    if len(outside):
        known = f"a token of the vocabulary of {len(weight)} nor ignore_index {ignore_index}"
        raise ValueError(f"label {outside[0].item()} is neither {known}")
    device, dtype = hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:  # as autocast itself treats float64
        dtype = torch.get_autocast_dtype(device)
    # Inside a Function, gradients look disabled and inputs have requires_grad even under no_grad: check here.
    return _ChunkedCrossEntropy.apply(hidden, weight, labels, chunk_size, dtype, torch.is_grad_enabled())


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        chunk_size: int,
        dtype: torch.dtype,
        grad_enabled: bool,
    ) -> Tensor:
        need_hidden, need_weight = (grad_enabled and needed for needed in ctx.needs_input_grad[:2])
        wide = torch.promote_types(dtype, torch.float32)
        matrix = weight.to(dtype)
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if need_hidden else None
        grad_weight = torch.zeros(weight.shape, dtype=wide, device=weight.device) if need_weight else None
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(hidden), chunk_size):
                rows = hidden[start : start + chunk_size].to(dtype)
                wanted = labels[start : start + chunk_size, None]
                # One buffer of chunk x vocabulary holds logits, exponentials, probabilities and gradient in turn.
                buffer = (rows @ matrix.T).to(wide)
                own = buffer.gather(1, wanted)
                highest = buffer.amax(1, keepdim=True)
                total = buffer.sub_(highest).exp_().sum(1, keepdim=True)
                loss += (total.log() + highest - own).sum()
                if need_hidden or need_weight:
                    buffer.div_(total).scatter_add_(1, wanted, torch.full_like(own, -1.0))
                    buffer = buffer.to(dtype)
                if need_hidden:
                    grad_hidden[start : start + chunk_size] = buffer @ matrix
                if need_weight and dtype == wide:
                    grad_weight.addmm_(buffer.T, rows)
                elif need_weight:
                    grad_weight += buffer.T @ rows
                del buffer  # free it before the next chunk allocates its own
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.tokens, ctx.weight_dtype = max(len(hidden), 1), weight.dtype
        return loss / ctx.tokens

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # once_differentiable would not raise here: it checks only grad_output, which is usually a constant.
        if torch.is_grad_enabled():
            raise RuntimeError("translation_loss has no second derivative: call backward without create_graph")
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grad_output / ctx.tokens
        if grad_hidden is not None:
            grad_hidden = (grad_hidden * scale).to(grad_hidden.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * scale).to(ctx.weight_dtype)
        return grad_hidden, grad_weight, None, None, None, None
