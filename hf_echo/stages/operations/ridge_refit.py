"""Ridge refit of static embeddings on parallel text: reads, tokenizes and batches for `checkpoints.ridge_refit`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoTokenizer

from ...checkpoints.ridge_refit import check_settings, ridge_refit_checkpoint
from ...data import load_parallel
from ...data.tokenized import TokenizedParallel, tokenize_parallel
from ...inference.encode import opening
from ..static_embeddings import StaticCollator

ROWS = 1 << 18  # a batch; the matrix of the equations is gone through once for each


def ridge_refit_on_pairs(
    model: str | Path,
    data: str,
    out: str | Path,
    *,
    ridge: float = 1.0,
    step: float = 0.5,
    softmax_weight: float = 0.0,
    max_length: int = 128,
    language_drop: float = 0.25,
    cache_dir: str | Path | None = None,
    seed: int = 0,
) -> Path:
    """Refit static embeddings in closed form on parallel text, and save them in another folder.

    Args:
        data: as `train_data` of a recipe.
        ridge, step, softmax_weight: see :func:`hf_echo.checkpoints.ridge_refit.ridge_refit_encoder`.
        max_length: tokens of a text that count; longer ones are cut, and a warning says how many.
        language_drop: share of the texts that are read with the prompt of no language.
    """
    settings = {"ridge": ridge, "step": step, "softmax_weight": softmax_weight}
    check_settings(**settings)  # before anything is read
    with opening(model) as place:
        tokenizer = AutoTokenizer.from_pretrained(place)
    pairs = tokenize_parallel(load_parallel(data), tokenizer, max_length=max_length, cache_dir=cache_dir)
    batches = pair_batches(pairs, StaticCollator(tokenizer, language_drop=language_drop, seed=seed))
    more = {"max_length": max_length, "language_drop": language_drop, "seed": seed}
    results = {"pairs": len(pairs)}
    return ridge_refit_checkpoint(model, out, batches, settings, data={"data": data}, results=results, **more)


def pair_batches(
    pairs: TokenizedParallel, collator: StaticCollator, rows: int = ROWS
) -> Iterator[dict[str, torch.Tensor]]:
    """All pairs once, in order, as `StaticCollator` writes them; ``group`` is the number of a source's language."""
    for first in tqdm(range(0, len(pairs), rows), desc="pairs", unit="batch"):
        batch = collator([pairs[i] for i in range(first, min(first + rows, len(pairs)))])
        yield batch | {"group": torch.from_numpy(pairs.labels["source_lang"][first : first + rows].astype(np.int64))}
