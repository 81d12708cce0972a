"""Measure the speed and memory of an encoder on this machine.

Contract: an encode(texts, lang) callable and texts in, a SpeedResult out. To compare two models, measure them
alternately in one process, because the speed of a machine drifts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ...inference.encoders import Encode
from ...utils.results import Result

MEBIBYTE = 2**20


@dataclass(frozen=True, eq=False)
class SpeedResult(Result):
    """Speed and memory of an encoder: medians over `rounds`.

    `seconds`, `fastest`, `slowest`: of one round. `peak_memory` (MiB): the process's largest resident size during the
    rounds; `extra_memory` (MiB): its increase over the size before. `gpu_memory` (MiB): the most that torch allocated,
    None without CUDA. `tokens_per_second` is None if no tokens were counted.
    """

    sentences_per_second: float
    tokens_per_second: float | None
    seconds: float
    fastest: float
    slowest: float
    rounds: int
    sentences: int
    tokens: int | None
    peak_memory: float
    extra_memory: float
    gpu_memory: float | None


def measure_speed(
    encode: Encode,
    texts: Sequence[str],
    lang: str | None = None,
    *,
    count_tokens: Callable[[Sequence[str], str | None], int] | None = None,
    warm_up: int = 1,
    rounds: int = 3,
) -> SpeedResult:
    """Encode all texts `warm_up` times, then `rounds` times with time measurement.

    Peak memory is that of the measured rounds on Linux, where it can be reset. Elsewhere it is that of the process
    since its start, which may come from loading the model.

    Args:
        count_tokens: (texts, lang) -> number of tokens, with prompts and without padding; called once, not timed.

    Raises:
        ValueError: no texts; rounds < 1; warm_up < 0.
    """
    if isinstance(texts, str) or not len(texts):
        raise ValueError("texts must be a list with at least one text")
    if rounds < 1 or warm_up < 0:
        raise ValueError(f"rounds is {rounds} and warm_up {warm_up}; they must be at least 1 and 0")
    for _ in range(warm_up):
        encode(texts, lang)
    _wait()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    _reset_peak()
    before = peak_memory()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        encode(texts, lang)
        _wait()
        seconds.append(time.perf_counter() - start)
    peak = peak_memory()
    middle = statistics.median(seconds)
    tokens = count_tokens(texts, lang) if count_tokens else None
    return SpeedResult(
        sentences_per_second=len(texts) / middle,
        tokens_per_second=tokens / middle if tokens is not None else None,
        seconds=middle,
        fastest=min(seconds),
        slowest=max(seconds),
        rounds=rounds,
        sentences=len(texts),
        tokens=tokens,
        peak_memory=peak / MEBIBYTE,
        extra_memory=max(peak - before, 0) / MEBIBYTE,
        gpu_memory=torch.cuda.max_memory_allocated() / MEBIBYTE if torch.cuda.is_available() else None,
    )


def _wait() -> None:
    """Wait for CUDA, whose calls return before the work is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_memory() -> int:
    """Largest resident size of this process in bytes since its start (on Linux: since the last reset)."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # not on Windows

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def _reset_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to the current size
    except OSError:
        pass  # not Linux, or not allowed: the peak is that of the whole process
