"""Measure speed and memory of a model for the report, in a separate process.

Contract: a name for `open_model` and texts in, a plain dict out. In the report's own process, memory would include the
models opened before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from ..benchmarks.speed import measure_speed
from .models import open_model

ROUNDS = 3


def measure_cost(name: str, fit_texts: Sequence[str], texts: Sequence[str], lang: str) -> dict[str, Any]:
    """`SpeedResult` as a row, with `threads` and `cores`; `peak_memory` (MiB) is of library, weights and encoding.

    `fit_texts`: texts to fit a baseline on.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, name, list(fit_texts), list(texts), lang).result()


def _measure(name: str, fit_texts: list[str], texts: list[str], lang: str) -> dict[str, Any]:
    import torch

    speed = measure_speed(open_model(name, fit_texts).encode, texts, lang, rounds=ROUNDS)
    return speed.to_row() | {"threads": torch.get_num_threads(), "cores": os.cpu_count()}
