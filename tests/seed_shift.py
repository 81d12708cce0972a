"""Shift the seeds of a test run: HF_ECHO_SEED_SHIFT=1 gives other initial weights and another order
of the data.

`apply` wraps the functions that tests, the library and transformers set seeds with:
`torch.manual_seed` (which `transformers.set_seed` calls), `numpy.random.seed` and
`numpy.random.default_rng`. Two parts of a test that use one seed get the same shifted seed.

Not shifted: `torch.Generator` objects and Python's `random`, which draw test data and no weights;
and processes that a test starts, unless they call `apply` or run as `seed_shift.py SCRIPT
ARGUMENTS`.
"""

import functools
import os
import runpy
import sys
from collections.abc import Callable

import numpy as np
import torch

STEP = 1009  # tests use small seeds: a shifted one is not the seed of another test


def shifted(function: Callable, shift: int) -> Callable:
    """The function with `shift` added to its seed:
    a number, or numbers of which the first is shifted."""

    @functools.wraps(function)
    def call(seed=None):
        if isinstance(seed, (int, np.integer)):
            seed = int(seed) + STEP * shift
        elif isinstance(seed, (list, tuple)):
            seed = [int(seed[0]) + STEP * shift, *seed[1:]]
        return function(seed) if seed is not None else function()

    return call


def apply(shift: int | None = None, replace: Callable = setattr) -> None:
    """Shift all seeds from now on, by the environment's HF_ECHO_SEED_SHIFT if no shift is given;
    0 changes nothing."""
    if shift is None:
        shift = int(os.environ.get("HF_ECHO_SEED_SHIFT") or 0)
    if shift == 0:
        return
    replace(torch, "manual_seed", shifted(torch.manual_seed, shift))
    replace(np.random, "seed", shifted(np.random.seed, shift))
    replace(np.random, "default_rng", shifted(np.random.default_rng, shift))
    torch.manual_seed(0)  # for models that a test builds without a seed


if __name__ == "__main__":
    apply()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
