"""Auxiliary token vectors for FOCUS: similar vectors for tokens that occur in similar contexts.

The paper trains fastText on text tokenized by the new tokenizer. fastText needs a compiler; here the vectors are the
truncated SVD of a PPMI matrix over the same windows, which such a model factorises (Levy and Goldberg 2014). Vectors
from fastText can be read from a .vec file.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from ..utils.files import load_npy

_TEXTS = 4096  # texts tokenized at a time
_PAIRS = 20_000_000  # pairs in memory before equal ones are merged


def auxiliary_vectors(source, tokenizer, *, seed: int = 0) -> torch.Tensor:
    """Auxiliary vectors (tokenizer size, dim) from an array, a file or texts; a token without a vector has a zero row.

    Args:
        source: an array or tensor of that shape, row i for token i; a .npy file of one; a .vec file of fastText or
            word2vec, trained on lines of tokens as the tokenizer spells them; another file with one text per line; or
            an iterable of texts. Vectors are trained from texts (`train_auxiliary`).

    Raises:
        FileNotFoundError: the file does not exist. ValueError: not one row per token; a .vec file without any token
            of the tokenizer; no text.
    """
    size = max(tokenizer.get_vocab().values()) + 1
    if isinstance(source, (str, Path)):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}; give a .npy, .vec or text file")
        if path.suffix == ".vec":
            return _read_vec(path, tokenizer.get_vocab(), size)
        if path.suffix != ".npy":
            with path.open(encoding="utf-8") as lines:
                return train_auxiliary(lines, tokenizer, seed=seed)
        source = load_npy(path)
    if isinstance(source, (np.ndarray, torch.Tensor)):
        vectors = torch.as_tensor(source).float()
        if vectors.ndim != 2 or len(vectors) != size:
            raise ValueError(f"auxiliary has shape {tuple(vectors.shape)}; it must have {size} rows, one per token")
        return vectors
    return train_auxiliary(source, tokenizer, seed=seed)


def _read_vec(path: Path, vocabulary: dict[str, int], size: int) -> torch.Tensor:
    vectors = None
    with path.open(encoding="utf-8") as lines:
        next(lines, None)  # "count dim"
        for number, line in enumerate(lines, 2):
            token, *values = line.split(" ")
            if token not in vocabulary:
                continue
            try:
                vector = torch.tensor([float(value) for value in values if value.strip()])
                vectors = torch.zeros(size, len(vector)) if vectors is None else vectors
                vectors[vocabulary[token]] = vector
            except (ValueError, RuntimeError):
                raise ValueError(f"{path}:{number}: the line is not a token followed by numbers") from None
    if vectors is None:
        raise ValueError(f"{path} has no token of the tokenizer; train it on lines of its tokens")
    return vectors


def train_auxiliary(
    texts: Iterable[str], tokenizer, *, dim: int = 100, window: int = 5, min_count: int = 10, seed: int = 0
) -> torch.Tensor:
    """Train vectors of tokens that occur at least `min_count` times: PPMI over windows, truncated SVD.

    Args:
        texts: sentences or lines; windows do not cross their ends.
        dim, min_count: defaults as in the FOCUS package.
        window: tokens on either side; default as in fastText.

    Returns:
        (tokenizer size, dim); rows of rarer tokens are zero.

    Raises:
        ValueError: no texts, or too little text.
    """
    from scipy.sparse import csr_matrix  # comes with sentence-transformers

    size = max(tokenizer.get_vocab().values()) + 1
    left, right, count, frequency = _count_pairs(iter(texts), tokenizer, size, window)
    keep = (frequency[left] >= min_count) & (frequency[right] >= min_count)
    left, right, count = left[keep], right[keep], count[keep]
    if not len(left):
        raise ValueError(
            f"auxiliary: no two tokens of the texts occur {min_count} times near each other; give more text"
        )
    smoothed = np.bincount(right, count, size) ** 0.75  # Levy et al. 2015: reduces the weight of rare contexts
    pmi = np.log(count / np.bincount(left, count, size)[left] / (smoothed / smoothed.sum())[right])
    seen = pmi > 0
    matrix = csr_matrix((pmi[seen].astype(np.float32), (left[seen], right[seen])), (size, size))
    rank = min(dim, int((frequency >= min_count).sum()))
    vectors = _left_vectors(matrix, rank, seed)
    vectors[np.diff(matrix.indptr) == 0] = 0
    return torch.from_numpy(vectors)


def _left_vectors(matrix, rank: int, seed: int, rounds: int = 4) -> np.ndarray:
    """U sqrt(S) of the truncated SVD, (rows, rank), with randomised power iteration (Halko et al. 2011)."""
    other = matrix.T.tocsr()
    basis = np.random.default_rng(seed).standard_normal((matrix.shape[1], rank), np.float32)
    for _ in range(rounds):
        basis = np.linalg.qr(other @ np.linalg.qr(matrix @ basis)[0])[0]
    basis = np.linalg.qr(matrix @ basis)[0]
    _, s, turn = np.linalg.svd(other @ basis, full_matrices=False)  # of the transpose: (basis' matrix)'
    return (basis @ turn.T) * np.sqrt(s)


def _count_pairs(texts, tokenizer, size: int, window: int):
    """Count token pairs within `window`, in both orders: (left, right, count), each (pairs,), and token counts."""
    frequency = np.zeros(size, np.int64)
    keys, counts, held = [], [], 0
    bar = tqdm(desc="Auxiliary vectors", unit=" texts", leave=False)
    while chunk := [text.strip() for text in islice(texts, _TEXTS)]:
        bar.update(len(chunk))
        rows = tokenizer.text_ids(chunk)
        ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
        text = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        frequency += np.bincount(ids, minlength=size)
        near = []
        for step in range(1, window + 1):
            same = text[step:] == text[:-step]
            near.append(ids[:-step][same] * size + ids[step:][same])
        key, count = np.unique(np.concatenate(near), return_counts=True)
        keys, counts, held = [*keys, key], [*counts, count], held + len(key)
        if held > _PAIRS:
            key, count = _merged(keys, counts)
            keys, counts, held = [key], [count], 0
    bar.close()
    if not keys:
        raise ValueError("auxiliary: no texts to train vectors from")
    key, count = _merged(keys, counts)
    left, right = np.divmod(key, size)
    key, count = _merged([left * size + right, right * size + left], [count, count])
    left, right = np.divmod(key, size)
    return left, right, count.astype(np.float64), frequency


def _merged(keys: list[np.ndarray], counts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    return key, np.bincount(place, np.concatenate(counts)).astype(np.int64)
