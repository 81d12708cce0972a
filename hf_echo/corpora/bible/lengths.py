"""Length filter for verses: finds verses that were cut, merged with a neighbour, or misplaced (OS A.8).

For sources of one language the paper says "deviate significantly" without a number; the tolerance here is a share of
the mean. Across languages it gives three standard deviations. A deviation among n values is at most (n - 1) / sqrt(n)
standard deviations, so the second filter never removes a verse that fewer than eleven sources have.
"""

from __future__ import annotations

import numpy as np

ROUNDS = 4  # of fitting language factors and verse means in turn; two or three suffice


def monolingual_outliers(verse: np.ndarray, length: np.ndarray, tolerance: float) -> np.ndarray:
    """Rows of one language whose length differs from the mean of their verse by more than ``tolerance`` times the mean.

    Args:
        verse: (rows,) verse numbers; a verse occurs once per source.
        length: (rows,) in characters.

    Returns:
        (rows,) bool. With two sources, both rows of a verse are outliers or neither, because no majority exists.
    """
    mean = _mean(verse, length)[verse]
    return np.abs(length - mean) > tolerance * mean


def crosslingual_outliers(lang: np.ndarray, verse: np.ndarray, length: np.ndarray, sigmas: float = 3.0) -> np.ndarray:
    """Rows that deviate from the mean of their verse over all languages by more than ``sigmas`` standard deviations.

    Each length is first divided by its language's factor (`language_factors`). Returns (rows,) bool.
    """
    scaled = length / language_factors(lang, verse, length)[lang]
    mean = _mean(verse, scaled)[verse]
    spread = np.sqrt(_mean(verse, (scaled - mean) ** 2))[verse]
    return np.abs(scaled - mean) > sigmas * spread


def language_factors(lang: np.ndarray, verse: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Length of each language's verses relative to the mean verse: Chinese 0.3, Tamil 1.3.

    Languages have different sets of books, so a language is compared on the same verses with the others, after scaling
    these to a common length: factors and verse means are fitted in turn.
    """
    factors = np.ones(lang.max(initial=-1) + 1)
    total = np.bincount(lang, length, minlength=len(factors))
    for _ in range(ROUNDS):
        mean = _mean(verse, length / factors[lang])
        factors = total / np.maximum(np.bincount(lang, mean[verse], minlength=len(factors)), 1e-9)
        factors[total == 0] = 1.0
    return factors


def _mean(group: np.ndarray, value: np.ndarray) -> np.ndarray:
    count = np.bincount(group)
    return np.bincount(group, value) / np.maximum(count, 1)
