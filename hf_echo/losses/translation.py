"""Chunked token cross-entropy: the decoder's translation loss without the logits of all tokens in
memory.

The loss takes the decoder's last hidden states and the output matrix (no bias, as in Llama) instead
of logits. As in Liger (https://arxiv.org/abs/2410.10989), the forward pass also computes the
gradient, chunk by chunk, so nothing of size tokens x vocabulary is kept for the backward pass. The
cost: time for the gradient even if backward is never called (unless gradients are disabled), and
one float32 copy of the output matrix's gradient from forward to backward.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

Reduction = Literal["mean", "sum"]
IGNORED = -100  # label of a token that does not count


def translation_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    reduction: Reduction = "mean",
    chunk_size: int = 1024,
    ignore_index: int = IGNORED,
) -> Tensor:
    """Negative log likelihood of the target tokens (Omnilingual SONAR 4.3-4.4.1; beta's term in Eq.
    4 and 6).

    Value and gradients of "mean" equal `F.cross_entropy(hidden @ weight.T, labels)`; memory is
    chunk_size x vocabulary instead of tokens x vocabulary. Ignored tokens are dropped first. Under
    autocast, matrix products run in its dtype; the softmax and the sum of the weight's gradient
    over chunks are in float32 or wider.

    OS 4.3 prints `- sum_t log P(y_t | y_<t, x)`, a sum over the tokens of one sentence: that is
    "sum". It is as many times "mean" as a sentence has tokens (on average), and so makes alpha of
    Eq. 4 and 6 that much smaller beside beta. No paper says which of the two its weights, alpha
    0.05 and beta 1, were chosen for. "mean" is the default and what the weights of all recipes
    belong to, because of three reasons, none of which is a proof:

    - fairseq and its successors sum the tokens' losses and then divide by the number of tokens.
      Criteria that add a contrastive loss to such a sum scale it by tokens / sentences (mRASP2), so
      that their weight, too, belongs to two means.
    - With margin 0.3 and scale 100, the contrastive loss of unaligned texts is about 30 + log N,
      near 40. Then 0.05 of it is about 2, as much as a token's loss, but a few percent of the 40 to
      200 of a sentence of 40 tokens.
    - A sum weighs a batch of long sentences more than one of short ones. Batches are of like length
      (5, "length bucketing"), so that alpha would mean something else in each.

    Args:
        hidden: (tokens, h) or (batch, seq, h), last hidden states, after the final norm.
        weight: (vocabulary, h), the output matrix; may be the tied input embedding.
        labels: (tokens,) or (batch, seq), int64, ALREADY shifted: `hidden[t]` must predict
            `labels[t]`.
        reduction: "mean": over the tokens that are not ignored. "sum": over those of a sentence,
            then the mean over the sentences (rows) that have any; (tokens, h) is one sentence.
        chunk_size: tokens whose logits are in memory at one time.
        ignore_index: label of prompt and padding tokens.

    Returns:
        Scalar; 0 with zero gradients if all tokens are ignored. It can be differentiated once:
        `create_graph=True` raises RuntimeError.

    Raises:
        IndexError: labels of another shape than `hidden`.

    Example:
        >>> import torch
        >>> hidden, weight = torch.zeros(2, 3, 8), torch.randn(10, 8)
        >>> labels = torch.tensor([[1, 2, -100], [3, -100, -100]])
        >>> translation_loss(hidden, weight, labels).item()  # log 10
        2.30258...
        >>> translation_loss(hidden, weight, labels, reduction="sum").item()  # 3 tokens in 2 sentences
        3.45387...
    """
    kept = labels != ignore_index
    divisor = divisor_of(kept, reduction)
    hidden = hidden[kept]  # (kept tokens, h)
    labels = labels[kept].long()
    # The dtype of the products is that of autocast, which leaves float64 alone.
    dtype = hidden.dtype
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    # Inside a Function, gradients look disabled and inputs have requires_grad even under no_grad:
    # check here.
    return _ChunkedCrossEntropy.apply(
        hidden, weight, labels, divisor, chunk_size, dtype, torch.is_grad_enabled()
    )


def divisor_of(kept: Tensor, reduction: Reduction) -> int:
    """What the sum over all tokens is divided by: tokens for "mean", sentences with a token for
    "sum"; at least 1.

    Args:
        kept: (tokens,) or (batch, seq) bool, the tokens that are not ignored.
    """
    if reduction == "mean":
        return max(int(kept.sum()), 1)
    sentences = kept.any(dim=-1)
    return max(int(sentences.sum()), 1)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        divisor: int,
        chunk_size: int,
        dtype: torch.dtype,
        grad_enabled: bool,
    ) -> Tensor:
        """The loss and, where they are needed, its gradients, chunk by chunk of tokens."""
        need_hidden = grad_enabled and ctx.needs_input_grad[0]
        need_weight = grad_enabled and ctx.needs_input_grad[1]
        wide = torch.promote_types(dtype, torch.float32)
        matrix = weight.to(dtype)
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if need_hidden else None
        grad_weight = (
            torch.zeros(weight.shape, dtype=wide, device=weight.device) if need_weight else None
        )
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(hidden), chunk_size):
                rows = hidden[start : start + chunk_size].to(dtype)
                targets = labels[start : start + chunk_size, None]
                # One buffer of chunk x vocabulary holds logits, exponentials, probabilities and
                # gradient in turn.
                buffer = (rows @ matrix.T).to(wide)
                target_logits = buffer.gather(1, targets)
                highest = buffer.amax(1, keepdim=True)
                total = buffer.sub_(highest).exp_().sum(1, keepdim=True)
                loss += (total.log() + highest - target_logits).sum()
                if need_hidden or need_weight:
                    minus_one = torch.full_like(target_logits, -1.0)
                    buffer.div_(total).scatter_add_(1, targets, minus_one)
                    buffer = buffer.to(dtype)
                if grad_hidden is not None:
                    grad_hidden[start : start + chunk_size] = buffer @ matrix
                if grad_weight is not None and dtype == wide:
                    grad_weight.addmm_(buffer.T, rows)
                elif grad_weight is not None:
                    grad_weight += buffer.T @ rows
                del buffer  # free it before the next chunk allocates its own
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.divisor = divisor
        ctx.weight_dtype = weight.dtype
        return loss / divisor

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of `forward`, times that of the loss."""
        # once_differentiable would not raise here: it checks only grad_output, which is usually a
        # constant.
        if torch.is_grad_enabled():
            raise RuntimeError(
                "translation_loss has no second derivative: call backward without create_graph"
            )
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grad_output / ctx.divisor
        if grad_hidden is not None:
            grad_hidden = (grad_hidden * scale).to(grad_hidden.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * scale).to(ctx.weight_dtype)
        return grad_hidden, grad_weight, None, None, None, None, None
