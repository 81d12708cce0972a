"""The closed form of stage 0 on parallel text: reads, tokenizes and batches for `hf_echo.checkpoints.ridge_refit`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoTokenizer

from ..checkpoints.ridge_refit import check_settings, refit_checkpoint
from ..data import load_parallel
from ..data.tokenized import TokenizedParallel, tokenize_parallel
from .static_embeddings import StaticCollator

ROWS = 1 << 18  # a batch; the matrix of the equations is gone through once for each


def refit_on_pairs(
    source: str | Path,
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
    """Fit static embeddings again in closed form on parallel text, and save them in another folder.

    Args:
        data: as `train_data` of a recipe.
        ridge, step, softmax_weight: see :func:`hf_echo.checkpoints.ridge_refit.refit_bag`.
        max_length: tokens of a text that count; longer ones are cut, and a warning says how many.
        language_drop: share of the texts that are read with the prompt of no language.
    """
    check_settings(ridge, step, softmax_weight)  # before anything is read
    tokenizer = AutoTokenizer.from_pretrained(source)
    pairs = tokenize_parallel(load_parallel(data), tokenizer, max_length=max_length, cache_dir=cache_dir)
    collator = StaticCollator(tokenizer, language_drop=language_drop, seed=seed)
    start = time.time()
    made = refit_checkpoint(
        source,
        out,
        pair_batches(pairs, collator),
        ridge=ridge,
        step=step,
        softmax_weight=softmax_weight,
        data={"data": data},
        max_length=max_length,
        language_drop=language_drop,
        seed=seed,
    )
    results = {"stage": "refit", "seconds": round(time.time() - start, 1), "pairs": len(pairs)}
    (made / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    return made


def pair_batches(
    pairs: TokenizedParallel, collator: StaticCollator, rows: int = ROWS
) -> Iterator[dict[str, torch.Tensor]]:
    """All pairs once, in order, as `StaticCollator` writes them; ``group`` is the number of a source's language."""
    for first in tqdm(range(0, len(pairs), rows), desc="pairs", unit="batch"):
        batch = collator([pairs[i] for i in range(first, min(first + rows, len(pairs)))])
        yield batch | {"group": torch.from_numpy(pairs.labels["source_lang"][first : first + rows].astype(np.int64))}
