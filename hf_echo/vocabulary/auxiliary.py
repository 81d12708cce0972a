"""Auxiliary token vectors for FOCUS: similar vectors for tokens that occur in similar contexts.

The paper trains fastText, which needs a compiler; here the vectors are the truncated SVD of a PPMI matrix over the same
windows, which such a model factorises (Levy and Goldberg 2014).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from .trim import bare

TEXTS = 65_536  # texts tokenized at a time


def auxiliary_vectors(source: Any, tokenizer: Any, *, seed: int = 0) -> torch.Tensor:
    """Auxiliary vectors (tokenizer size, dim): an array or tensor of them, or trained (`train_auxiliary`) from a file
    with one text per line, or an iterable of texts."""
    if isinstance(source, (str, Path)):
        if not Path(source).is_file():
            raise FileNotFoundError(f"no file {source}; give a file with one text per line")
        with Path(source).open(encoding="utf-8") as lines:
            return train_auxiliary(lines, tokenizer, seed=seed)
    if not isinstance(source, (np.ndarray, torch.Tensor)):
        return train_auxiliary(source, tokenizer, seed=seed)
    size, vectors = max(tokenizer.get_vocab().values()) + 1, torch.as_tensor(source).float()
    if vectors.ndim != 2 or len(vectors) != size:
        raise ValueError(f"auxiliary has shape {tuple(vectors.shape)}; it must have {size} rows, one per token")
    return vectors


def train_auxiliary(
    texts: Iterable[str], tokenizer: Any, *, dim: int = 100, window: int = 5, min_count: int = 10, seed: int = 0
) -> torch.Tensor:
    """Train vectors of tokens that occur at least `min_count` times: PPMI over windows, truncated SVD.

    Args:
        texts: sentences or lines; windows do not cross their ends.
        dim, min_count: defaults as in the FOCUS package.
        window: tokens on either side; default as in fastText.

    Returns:
        (tokenizer size, dim); rows of rarer tokens are zero.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import svds

    counts, frequency = near_pairs(texts, tokenizer, window)
    often, counts = frequency >= min_count, counts.tocoo()
    kept = often[counts.row] & often[counts.col]
    left, right, count = counts.row[kept], counts.col[kept], counts.data[kept]
    if not len(left):
        raise ValueError(
            f"auxiliary: no two tokens of the texts occur {min_count} times near each other; give more text"
        )
    size = len(frequency)
    smoothed = np.bincount(right, count, size) ** 0.75  # Levy et al. 2015: reduces the weight of rare contexts
    pmi = np.log(count / np.bincount(left, count, size)[left] / (smoothed / smoothed.sum())[right])
    matrix = coo_matrix((np.maximum(pmi, 0), (left, right)), (size, size)).tocsr()
    start = np.random.default_rng(seed).standard_normal(size)
    vectors, values, _ = svds(matrix, min(dim, int(often.sum()), size - 1), v0=start)
    return torch.from_numpy(vectors * np.sqrt(values)).float() * torch.from_numpy(matrix.max(1).toarray() > 0)


def near_pairs(texts: Iterable[str], tokenizer: Any, window: int, *, chunk: int = TEXTS) -> tuple[Any, np.ndarray]:
    """How often two tokens stand at most `window` apart, in both orders (size, size); and each token (size,)."""
    from scipy.sparse import coo_matrix

    size = max(tokenizer.get_vocab().values()) + 1
    texts, backend = iter(texts), bare(tokenizer.backend_tokenizer)
    frequency, total = np.zeros(size, np.int64), None
    with tqdm(desc="Auxiliary vectors", unit=" texts", leave=False) as bar:
        while block := [text.strip() for text in islice(texts, chunk)]:
            if hasattr(tokenizer, "text_ids"):
                rows = tokenizer.text_ids(block)
            else:
                rows = [encoding.ids for encoding in backend.encode_batch_fast(block, add_special_tokens=False)]
            ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
            text = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
            frequency += np.bincount(ids, minlength=size)
            for step in range(1, window + 1):
                same = text[step:] == text[:-step]
                pair = ids[:-step][same], ids[step:][same]
                counts = coo_matrix((np.ones(len(pair[0])), pair), (size, size)).tocsr()  # sums equal pairs
                total = counts if total is None else total + counts
            bar.update(len(block))
    if total is None:
        raise ValueError("auxiliary: no texts to train vectors from")
    return total + total.T, frequency
