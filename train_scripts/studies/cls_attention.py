"""Entropy of the CLS token's attention, and the value of trained pooling (MEXMA 5.6, Table 10).

    python train_scripts/studies/cls_attention.py MODEL a.txt fra_Latn b.txt eng_Latn

Functions take a model with attentions (an EchoEncoder, any transformers encoder) and tokenized batches: dicts with
input_ids and attention_mask (batch, seq), padded on either side.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hf_echo.evaluation import xsim
from hf_echo.evaluation.tokens.token_states import evaluating
from hf_echo.inference import load_encoder
from hf_echo.utils.text import read_lines

Batch = Mapping[str, torch.Tensor]


@torch.inference_mode()
def cls_attention_entropy(model: Any, batches: Iterable[Batch]) -> dict[str, Any]:
    """Entropy (nats, mean over texts) of the attention of the first token (CLS), by layer and head (MEXMA 5.6).

    A head's entropy is computed per text, then averaged; the paper does not say so, but the entropy of averaged heads
    would be larger. Only the eager implementation returns attention weights, so the model uses it during the call.

    Returns:
        `entropy` of the last layer over its heads (the paper: LaBSE 3.4, MEXMA 2.5); `uniform`: ln(tokens), the largest
        possible; `heads`: (layers, heads) array.

    Raises:
        ValueError: no batches, or a text without tokens.
    """
    entropies, lengths = [], []
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        for batch, mask, first in _batches(model, batches):
            attentions = model(**batch, output_attentions=True, return_dict=True).attentions
            rows = torch.arange(len(mask), device=mask.device)
            weights = torch.stack([layer[rows, :, first].double() for layer in attentions])  # layers, batch, heads, seq
            weights /= weights.sum(-1, keepdim=True)  # bf16 weights do not sum to 1
            entropies.append(torch.special.entr(weights).sum(-1).cpu().numpy())  # entr(0) is 0: padding does not count
            lengths += mask.sum(1).tolist()
    finally:
        model.set_attn_implementation(before)
    heads = np.concatenate(entropies, axis=1).mean(axis=1)
    return {"entropy": float(heads[-1].mean()), "uniform": float(np.log(lengths).mean()), "heads": heads}


@torch.inference_mode()
def both_poolings(model: Any, batches: Iterable[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings with trained and with uniform pooling, (texts, d) each (MEXMA 5.6).

    Trained: as the model pools. Uniform: the mean over all tokens of the attention mask, through the same projection.
    An Echo model pools as its configuration says; of another model the last state of the first token is used, without
    a pooling head.

    Raises:
        ValueError: as `cls_attention_entropy`.
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


def compare_poolings(source: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """xsim in percent by pooling, `relative_delta`, and the mean cosine of a text's two embeddings.

    `source`, `target`: from `both_poolings`, parallel rows. Raises ValueError as `xsim`.
    """
    trained, uniform = (xsim(x, y).error_rate for x, y in zip(source, target, strict=True))
    a, b = (np.concatenate([source[i], target[i]]).astype(np.float64) for i in range(2))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)  # xsim has refused zero rows
    delta, cosine = relative_delta(trained, uniform), float(((a * b).sum(1) / norms).mean())
    return {"xsim_trained": trained, "xsim_uniform": uniform, "delta": delta, "cosine": cosine}


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
            mask = batch["attention_mask"].bool()
            if len(empty := (~mask.any(1)).nonzero()):
                raise ValueError(f"text {texts + int(empty[0])} (from 0) has no tokens")
            yield batch, mask, mask.int().argmax(1)
            texts += len(mask)
    if not texts:
        raise ValueError("no batches: give at least one")


def tokenized(tokenizer: Any, file: str, lang: str, size: int = 32) -> list[dict[str, torch.Tensor]]:
    lines = read_lines(Path(file))
    starts = range(0, len(lines), size)
    return [dict(tokenizer(lines[i : i + size], lang=lang, padding=True, return_tensors="pt")) for i in starts]


if __name__ == "__main__":
    name, *files = sys.argv[1:]
    model, tokenizer = load_encoder(name)
    sides = [tokenized(tokenizer, *files[i : i + 2]) for i in (0, 2)]
    report = cls_attention_entropy(model, sides[0]) | compare_poolings(*(both_poolings(model, side) for side in sides))
    print(json.dumps(report | {"heads": report["heads"].tolist()}, indent=2))
