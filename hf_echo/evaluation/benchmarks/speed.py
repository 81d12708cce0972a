"""Speed and memory of an encoder on this machine, whose speed drifts:
measure two models alternately in one process."""

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
    """Medians over `rounds`; `seconds`, `fastest`, `slowest` of one round; `tokens_per_second` if
    tokens were counted.

    `peak_memory` (MiB): largest resident size of the process, with what loading the model took.
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


def measure_speed(
    encode: Encode,
    texts: Sequence[str],
    lang: str | None = None,
    *,
    count_tokens: Callable[[Sequence[str], str | None], int] | None = None,
    rounds: int = 3,
) -> SpeedResult:
    """Encode all texts once, then `rounds` times with time measurement.

    Args:
        count_tokens: (texts, lang) -> number of tokens, with prompts and without padding; called
            once, not timed.
    """
    # CUDA's calls return before the end
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    # The first pass is not counted: kernels are compiled, buffers made and files read.
    encode(texts, lang)
    wait()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        encode(texts, lang)
        wait()
        seconds.append(time.perf_counter() - start)
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
        peak_memory=peak_memory() / MEBIBYTE,
    )


def peak_memory() -> int:
    """Largest resident size of this process since its start, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child begins at its parent's size
        _, _, rest = status.read_text().partition("VmHWM:")
        kibibytes = rest.split(maxsplit=1)[0]
        return int(kibibytes) * 1024
    import resource  # not on Windows

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
