"""MinHash signatures of texts (library: rensa), and their division into bands.

n-grams are hashed here, rensa computes the signatures. A text with fewer than ``min_grams`` n-grams has one "n-gram":
the whole text.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa

from .columns import code_points

SEED = 1


def mix(state: np.ndarray, values: np.ndarray) -> np.ndarray:
    """uint64: the hash state after one more value (multiply and fold, as in splitmix64)."""
    state = (state ^ values.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return state ^ (state >> np.uint64(29))


def grams(tokens: np.ndarray, offsets: np.ndarray, n: int, min_grams: int) -> tuple[np.ndarray, np.ndarray]:
    """(hashes of all n-grams, offsets (rows + 1)) of texts given as concatenated tokens.

    A text of t tokens has t - n + 1 n-grams; with fewer than ``min_grams``, it has one, of all its tokens.
    """
    lengths = np.diff(offsets)
    short = lengths - n + 1 < max(min_grams, 1)
    counts = np.where(short, 1, lengths - n + 1)
    flat = np.zeros(len(tokens), np.uint64)
    for i in range(n):
        flat[: len(tokens) - i] = mix(flat[: len(tokens) - i], tokens[i:])
    whole = np.zeros(len(lengths), np.uint64)
    for i in range(lengths[short].max(initial=0)):
        rows = np.flatnonzero(short & (lengths > i))
        whole[rows] = mix(whole[rows], tokens[offsets[rows] + i])
    starts = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(offsets[:-1] - starts[:-1], counts) + np.arange(starts[-1])
    hashes = flat[np.minimum(place, max(len(flat) - 1, 0))] if len(flat) else np.zeros(starts[-1], np.uint64)
    hashes[starts[:-1][short]] = whole[short]
    return hashes, starts


def signatures(texts: list[str], unit: str, n: int, min_grams: int, size: int) -> np.ndarray:
    """MinHash signatures, uint32 (texts, size): the share of equal entries estimates the Jaccard similarity."""
    try:
        from rensa import RMinHash
    except ImportError as error:
        raise ImportError("near duplicates need rensa: pip install 'hf-echo[filters]'") from error
    if unit == "characters":
        tokens, offsets = code_points(pa.array(texts, pa.large_string()))
    else:
        tokens, offsets = _words(texts)
    hashes, starts = grams(tokens, offsets, n, min_grams)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(hashes, starts.astype(np.uint64), size, SEED)
    flat = np.fromiter(chain.from_iterable(matrix.to_rows()), np.uint32, len(texts) * size)
    return flat.reshape(len(texts), size)


def _words(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    from xxhash import xxh3_64_intdigest

    words = [text.split() for text in texts]
    hashed = [xxh3_64_intdigest(word.encode()) for word in chain.from_iterable(words)]
    return np.array(hashed, np.uint64), np.concatenate([[0], np.cumsum([len(w) for w in words], dtype=np.int64)])


@cache
def bands_for(threshold: float, size: int) -> tuple[int, int]:
    """Choose (bands, rows of a band) with bands * rows <= size, for the fewest misses and false hits.

    Two texts of similarity s share a key with probability 1 - (1 - s^rows)^bands. The choice minimises the area of
    false hits for s below the threshold plus that of misses above it (Leskovec et al., Mining of Massive Datasets,
    3.4).
    """
    s = (np.arange(1000) + 0.5) / 1000
    best, cost = (1, 1), np.inf
    for rows in range(1, size + 1):
        for bands in range(1, size // rows + 1):
            hit = 1 - (1 - s**rows) ** bands
            area = np.where(s < threshold, hit, 1 - hit).mean()
            if area < cost:
                best, cost = (bands, rows), area
    return best
