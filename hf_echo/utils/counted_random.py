"""Random numbers by counters: a number is a function of its seed and place, whatever else is drawn,
and wherever.

A row of a batch so gets the same draws on one process as on two, behind any padding, and beside any
other rows.
"""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(state: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): uint64 -> uint64."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def counted_bits(*counters: int | np.ndarray) -> np.ndarray:
    """uint64 numbers of counters, which are integers or broadcastable arrays of them;
    their order matters."""
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for counter in counters:
            state = _mixed(np.asarray(counter).astype(np.int64).astype(np.uint64) + state + GOLDEN)
    return state


def counted_uniform(*counters: int | np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) of counters, as `counted_bits`.

    Example:
        >>> counted_uniform(3, [10, 11]).shape
        (2,)
    """
    return (counted_bits(*counters) >> np.uint64(11)) * 2.0**-53
