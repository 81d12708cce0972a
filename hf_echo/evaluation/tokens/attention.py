"""Entropy of the CLS token's attention, and the value of trained pooling (MEXMA 5.6, Table 10).

Contract: a model with attentions (an EchoEncoder, any transformers encoder) and tokenized batches in, a result
dataclass out. Batches are read one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...utils.results import Result, Table
from ..retrieval.xsim import xsim

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class AttentionEntropyResult(Result):
    """Attention entropy in nats, mean over texts.

    `entropy`: of the last layer over its heads (MEXMA 5.6: LaBSE 3.4, MEXMA 2.5); `entropy_words`: the same without
    special tokens (None if no special ids were given); `uniform`: ln(tokens), the largest possible. `heads` and
    `heads_words` (layers, heads); `heads_words` is NaN if no special ids were given.
    """

    entropy: float
    entropy_words: float | None
    uniform: float
    texts: int
    heads: np.ndarray
    heads_words: np.ndarray

    def by_layer(self) -> Table:
        """Table of layer (from 1), mean entropy, lowest and highest head."""
        return Table(
            [
                {"layer": i, "entropy": row.mean(), "lowest_head": row.min(), "highest_head": row.max()}
                for i, row in enumerate(self.heads, 1)
            ]
        )


@torch.inference_mode()
def cls_attention_entropy(
    model: Any, batches: Iterable[Batch], *, special_ids: Sequence[int] = ()
) -> AttentionEntropyResult:
    """Entropy of the attention of the first token (CLS) of each text, by layer and head (MEXMA 5.6).

    A head's entropy is computed per text, then averaged; the paper does not say so, but the entropy of averaged heads
    would be larger. Only the eager implementation returns attention weights, so the model uses it during the call.

    Args:
        batches: dicts with input_ids, attention_mask (batch, seq) and other inputs of the model; padding on either
            side.
        special_ids: ids (`tokenizer.all_special_ids`) to leave out of `entropy_words`; the other weights are scaled
            to sum 1. Special tokens often get attention that carries no content.

    Raises:
        ValueError: no batches, no attentions, no attention mask, a text without tokens or of special tokens only.
    """
    sums = words = None
    texts, uniform = 0, 0.0
    special = torch.tensor(list(special_ids), dtype=torch.long)
    with _eager(model), _evaluating(model):
        for batch in batches:
            batch = {name: value.to(model.device) for name, value in batch.items()}
            mask = _mask(batch, texts)
            weights = _cls_attention(model, batch, mask)
            uniform += float(mask.sum(1).double().log().sum())
            entropy = _entropy(weights).sum(2)
            sums = entropy if sums is None else sums + entropy
            if len(special):
                is_word = mask & ~torch.isin(batch["input_ids"], special.to(mask.device))
                empty = (~is_word.any(1)).nonzero()
                if len(empty):
                    raise ValueError(f"text {texts + int(empty[0])} (from 0) has only special tokens: leave it out")
                entropy = _entropy(weights * is_word[None, None]).sum(2)
                words = entropy if words is None else words + entropy
            texts += len(mask)
    if not texts:
        raise ValueError("no batches: give at least one")
    heads = (sums / texts).cpu().numpy()
    heads_words = np.full_like(heads, np.nan) if words is None else (words / texts).cpu().numpy()
    return AttentionEntropyResult(
        entropy=float(heads[-1].mean()),
        entropy_words=None if words is None else float(heads_words[-1].mean()),
        uniform=uniform / texts,
        texts=texts,
        heads=heads,
        heads_words=heads_words,
    )


def _cls_attention(model: Any, batch: Batch, mask: torch.Tensor) -> torch.Tensor:
    """Attention of the first token that is not padding, (layers, heads, batch, seq) float64."""
    attentions = getattr(model(**batch, output_attentions=True, return_dict=True), "attentions", None)
    if not attentions or attentions[0] is None:
        raise ValueError(f"{type(model).__name__} returns no attentions: give a transformers encoder")
    at = torch.arange(len(mask), device=mask.device), slice(None), mask.int().argmax(1)
    return torch.stack([layer[at].transpose(0, 1).double() for layer in attentions])


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    """Entropy over the last dimension, scaled to sum 1 (a subset or bf16 weights do not sum to 1)."""
    total = weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return torch.special.entr(weights / total).sum(-1)  # entr(0) is 0, so padding does not count


def _mask(batch: Batch, before: int) -> torch.Tensor:
    if "attention_mask" not in batch:
        raise ValueError(f"a batch has no attention_mask, only {', '.join(batch)}: pad with the tokenizer")
    mask = batch["attention_mask"].bool()
    empty = (~mask.any(1)).nonzero()
    if len(empty):
        raise ValueError(f"text {before + int(empty[0])} (from 0) has no tokens")
    return mask


@contextmanager
def _eager(model: Any):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _evaluating(model: Any):
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


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
    texts = 0
    with _evaluating(model):
        for batch in batches:
            batch = {name: value.to(model.device) for name, value in batch.items()}
            mask = _mask(batch, texts)
            texts += len(mask)
            output = model(**batch, return_dict=True)
            for rows, values in zip((trained, uniform), _pool_both(model, output, mask), strict=True):
                rows.append(values.float().cpu().numpy())
    if not texts:
        raise ValueError("no batches: give at least one")
    return np.concatenate(trained), np.concatenate(uniform)


def _pool_both(model: Any, output: Any, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    states = output.last_hidden_state
    weight = mask[..., None].to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1)
    if hasattr(output, "sentence_embedding"):
        return output.sentence_embedding, model.projection(mean)
    return states[torch.arange(len(mask), device=mask.device), mask.int().argmax(1)], mean


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
