"""Sampling proportions of languages: sizes -> proportions that sum to 1.

Sizes may have any unit (characters, sentences, hours).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np


def unimax(
    sizes: Mapping[str, float], *, max_upsampling: float = 100, top_n: int = 126
) -> dict[str, float]:
    """UniMax sampling (Chung et al. 2023) as ECHO D and OS 4.1 use it: uniform, but no language is
    repeated too often.

    The level is the size of the ``top_n``-th largest language (of the smallest, if there are
    fewer): larger languages are sampled down to it, the others up towards it, at most
    ``max_upsampling`` times. Language l of size n_l gets ``U_l = min(level, max_upsampling *
    n_l)``; its proportion is ``U_l / sum(U)``. (In place of the level, the UniMax paper divides a
    budget.)
    """
    _check(sizes)
    largest = sorted(sizes.values(), reverse=True)
    level = largest[:top_n][-1]
    return _normalised({key: min(level, max_upsampling * size) for key, size in sizes.items()})


def temperature(sizes: Mapping[str, float], exponent: float) -> dict[str, float]:
    """Temperature sampling, ``p ~ (n / N) ** exponent``:
    1 is natural, 0 uniform (OS 3.5: 0.6, omnilingual stage)."""
    _check(sizes)
    total = math.fsum(sizes.values())
    return _normalised({key: (size / total) ** exponent for key, size in sizes.items()})


def two_step(
    sizes: Mapping[str, Mapping[str, float]], exponent: float = 0.5
) -> dict[str, dict[str, float]]:
    """Two-step sampling (OS Eq. 1): ``p ~ (n / N) ** exponent`` over the languages of a source, and
    over the sources.

    Args:
        sizes: source -> language -> size. The size of a source is the sum of its languages.

    Returns:
        source -> language -> proportion; all of them sum to 1.
    """
    source_sizes = {source: math.fsum(languages.values()) for source, languages in sizes.items()}
    proportions = {}
    for source, share in temperature(source_sizes, exponent).items():
        within = temperature(sizes[source], exponent)
        proportions[source] = {lang: share * proportion for lang, proportion in within.items()}
    return proportions


def _check(sizes: Mapping[str, float]) -> None:
    if not sizes:
        raise ValueError("no sizes; give at least one language with its size")
    for key, size in sizes.items():
        if not 0 < size < math.inf:
            raise ValueError(
                f"{key!r} has size {size}, not a positive number; remove it if it is empty"
            )


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


def repeated(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) rows: as often as a whole as they fit, and the rest drawn without replacement."""
    whole, rest = divmod(count, len(rows))
    return np.concatenate([np.tile(rows, whole), rng.permutation(rows)[:rest]])
