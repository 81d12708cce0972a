"""Verses whose length gives them away: cut, merged with a neighbour, or of another place (OS A.8).

The paper says "deviate significantly" for sources of one language and gives no number; the tolerance here is a
share of the mean. Across languages it gives three standard deviations. A deviation of n values is at most
(n - 1) / sqrt(n) standard deviations, so a verse that fewer than eleven sources have is never judged there.
"""

from __future__ import annotations

import numpy as np

ROUNDS = 4  # of fitting language factors and verse means in turn; it settles after two or three


def monolingual_outliers(verse: np.ndarray, length: np.ndarray, tolerance: float) -> np.ndarray:
    """Which rows of one language lie further than ``tolerance`` times the mean from the mean of their verse.

    Args:
        verse: (rows,) verse numbers; a verse stands there once for each source that has it.
        length: (rows,) in characters.

    With two sources both go or both stay: nothing tells which is right.
    """
    mean = _mean(verse, length)[verse]
    return np.abs(length - mean) > tolerance * mean


def crosslingual_outliers(lang: np.ndarray, verse: np.ndarray, length: np.ndarray, sigmas: float = 3.0) -> np.ndarray:
    """Which rows lie more than ``sigmas`` standard deviations from the mean of their verse over all languages
    and sources, after each length is divided by its language's factor (`language_factors`)."""
    scaled = length / language_factors(lang, verse, length)[lang]
    mean = _mean(verse, scaled)[verse]
    spread = np.sqrt(_mean(verse, (scaled - mean) ** 2))[verse]
    return np.abs(scaled - mean) > sigmas * spread


def language_factors(lang: np.ndarray, verse: np.ndarray, length: np.ndarray) -> np.ndarray:
    """How long a language's verses are against the mean verse: Chinese 0.3, Tamil 1.3.

    A language has few or many books, so its verses are compared with the same verses of the others, which are
    first brought to one scale: factors and verse means are fitted in turn.
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
