"""Entropy of the CLS token's attention, and the value of trained pooling (MEXMA 5.6, Table 10).

Contract: a model with attentions (an EchoEncoder, any transformers encoder) and tokenized batches in, a result
dataclass out. Batches are dicts with input_ids, attention_mask (batch, seq), padded on either side, read one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...utils.results import Result
from ..retrieval.xsim import xsim

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class AttentionEntropyResult(Result):
    """Attention entropy in nats, mean over texts: `entropy` of the last layer over its heads (MEXMA 5.6: LaBSE 3.4,
    MEXMA 2.5); `uniform`: ln(tokens), the largest possible; `heads` (layers, heads)."""

    entropy: float
    uniform: float
    texts: int
    heads: np.ndarray


@torch.inference_mode()
def cls_attention_entropy(model: Any, batches: Iterable[Batch]) -> AttentionEntropyResult:
    """Entropy of the attention of the first token (CLS) of each text, by layer and head (MEXMA 5.6).

    A head's entropy is computed per text, then averaged; the paper does not say so, but the entropy of averaged heads
    would be larger. Only the eager implementation returns attention weights, so the model uses it during the call.

    Raises:
        ValueError: no batches, no attentions, no attention mask, a text without tokens.
    """
    entropies, lengths = [], []
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        for batch, mask, first in _batches(model, batches):
            attentions = getattr(model(**batch, output_attentions=True, return_dict=True), "attentions", None)
            if not attentions or attentions[0] is None:
                raise ValueError(f"{type(model).__name__} returns no attentions: give a transformers encoder")
            rows = torch.arange(len(mask), device=mask.device)
            weights = torch.stack(
                [layer[rows, :, first].double() for layer in attentions]
            )  # (layers, batch, heads, seq)
            weights /= weights.sum(-1, keepdim=True)  # bf16 weights do not sum to 1
            entropies.append(torch.special.entr(weights).sum(-1).cpu().numpy())  # entr(0) is 0: padding does not count
            lengths += mask.sum(1).tolist()
    finally:
        model.set_attn_implementation(before)
    heads = np.concatenate(entropies, axis=1).mean(axis=1)
    return AttentionEntropyResult(float(heads[-1].mean()), float(np.log(lengths).mean()), len(lengths), heads)


@torch.inference_mode()
def both_poolings(model: Any, batches: Iterable[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with trained and with uniform pooling, (texts, d) each (MEXMA 5.6).

    Trained: as the model pools. Uniform: the mean over all tokens of the attention mask, through the same projection.
    An Echo model pools as its configuration says; of another model the last state of the first token is used, without
    a pooling head.

    Raises:
        ValueError: no batches, no attention mask, a text without tokens.
    """
    trained, uniform = [], []
    for batch, mask, first in _batches(model, batches):
        output = model(**batch, return_dict=True)
        states, weight = output.last_hidden_state, mask[..., None].to(output.last_hidden_state.dtype)
        mean = (states * weight).sum(1) / weight.sum(1)
        if hasattr(output, "sentence_embedding"):
            pooled, mean = output.sentence_embedding, model.projection(mean)
        else:
            pooled = states[torch.arange(len(mask), device=mask.device), first]
        trained.append(pooled.float().cpu().numpy())
        uniform.append(mean.float().cpu().numpy())
    return np.concatenate(trained), np.concatenate(uniform)


@dataclass(frozen=True, eq=False)
class PoolingResult(Result):
    """xsim in percent by pooling; `delta`: `relative_delta`; `cosine`: mean cosine of a text's two embeddings."""

    xsim_trained: float
    xsim_uniform: float
    delta: float | None
    cosine: float
    count: int


def compare_poolings(
    source: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    *,
    margin: str | None = "cosine",
    k: int = 4,
) -> PoolingResult:
    """Compare xsim with trained and uniform pooling. `source`, `target`: from `both_poolings`, parallel rows.

    Raises:
        ValueError: as `xsim`.
    """
    results = [xsim(x, y, margin=margin, k=k) for x, y in zip(source, target, strict=True)]
    trained, uniform = (result.error_rate for result in results)
    a, b = (np.concatenate([source[i], target[i]]).astype(np.float64) for i in range(2))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)  # xsim has refused zero rows
    cosine = float(((a * b).sum(1) / norms).mean())
    return PoolingResult(trained, uniform, relative_delta(trained, uniform), cosine, results[0].count)


def relative_delta(trained: float, uniform: float) -> float | None:
    """100 (trained - uniform) / trained, as in MEXMA Table 10; None if the trained value is 0.

    The paper's text says "relative change from the uniform to the CLS representation", but the printed figures divide
    by the CLS value: xsim of LaBSE 2.02 and 0.92 gives -119.65.
    """
    return 100 * (trained - uniform) / trained if trained else None


def _batches(model: Any, batches: Iterable[Batch]) -> Iterator[tuple[dict, torch.Tensor, torch.Tensor]]:
    """Yield (batch on the model's device, mask, place of the first token) with the model in evaluation mode."""
    texts = 0
    with evaluating(model):
        for batch in batches:
            batch = {name: value.to(model.device) for name, value in batch.items()}
            if "attention_mask" not in batch:
                raise ValueError(f"a batch has no attention_mask, only {', '.join(batch)}: pad with the tokenizer")
            mask = batch["attention_mask"].bool()
            if len(empty := (~mask.any(1)).nonzero()):
                raise ValueError(f"text {texts + int(empty[0])} (from 0) has no tokens")
            yield batch, mask, mask.int().argmax(1)
            texts += len(mask)
    if not texts:
        raise ValueError("no batches: give at least one")


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)
