"""One batch per core: products of this package's sizes gain less from several cores than batches
do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def one_per_core(run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """Yield `run(batch)`, in order, inference mode, as many at once as torch has threads
    (one batch has all)."""
    n_threads = torch.get_num_threads()
    threads = min(n_threads, len(batches))
    inference = torch.inference_mode()(run)  # inference mode is per thread
    if threads < 2:
        yield from map(inference, batches)
        return
    # sets that thread only
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(inference, batches)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(n_threads)  # the default of new threads
