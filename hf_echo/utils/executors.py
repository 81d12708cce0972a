"""Executors: `map(function, items)` in this process or on a Ray cluster.

Functions write their results to files and return a few plain values, so both executors produce the
same files. Results arrive in any order. On a cluster, every node must see the output folder (NFS or
similar).
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from .bars import hidden
from .extras import extra

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = __name__.partition(".")[0]


class LocalExecutor:
    """Run the items one after the other in this process."""

    local = True
    gpus = 0

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress

    def map(
        self, function: Callable, items: Sequence, desc: str, gpus: float = 0
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (item, function(item))."""
        for item in tqdm(items, desc, unit="part", disable=hidden(self.progress)):
            yield item, function(item)


class RayExecutor:
    """Run one Ray Data task per item; connects to the cluster of RAY_ADDRESS or starts one on this
    machine.

    Attributes:
        gpus: GPUs that a task asks for if it can use one: 1 if the cluster has any, else 0.

    Raises:
        ImportError: Ray is not installed.
    """

    local = False

    def __init__(self, progress: bool = True) -> None:
        with extra("ray"):
            import ray
        self.progress = progress
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.WARNING)
        self.gpus = 1 if ray.cluster_resources().get("GPU") else 0
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False

    def map(
        self, function: Callable, items: Sequence, desc: str, gpus: float = 0
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (item, function(item)). An exception in a task is raised here unchanged."""
        import ray

        if not items:
            return
        rows = []
        for number, item in enumerate(items):
            rows.append({"number": number, "item": pickle.dumps(item)})
        # One block an item: Ray starts a task for each.
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        arguments = {"num_gpus": gpus} if gpus else {}
        data = data.map_batches(_Call(function), batch_size=1, batch_format="pandas", **arguments)
        bar = tqdm(total=len(items), desc=desc, unit="part", disable=hidden(self.progress))
        for row in data.iter_rows():
            failed, result, warnings = pickle.loads(row["result"])
            # The workers' warnings are shown here.
            for name, message in warnings:
                logging.getLogger(name).warning("%s", message)
            if failed:
                raise result
            bar.update()
            yield items[row["number"]], result
        bar.close()


class _Call:
    """A function of a batch of one; exceptions and this package's warnings are returned as values,
    unwrapped."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, batch: pd.DataFrame) -> dict[str, Any]:
        """One item on a worker: its pickled result, or its error, and the warnings."""
        item = pickle.loads(batch["item"].iloc[0])
        with _warnings_of(PACKAGE) as warnings:
            try:
                result = self.function(item)
                failed = False
            except Exception as error:
                result = error
                failed = True
        return {
            "number": batch["number"].to_numpy(),
            "result": [pickle.dumps((failed, result, warnings))],
        }


@contextmanager
def _warnings_of(package: str) -> Iterator[list[tuple[str, str]]]:
    """(logger, message) of the warnings that the package logs inside the block."""
    warnings: list[tuple[str, str]] = []
    handler: Any = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append((record.name, record.getMessage()))
    logger = logging.getLogger(package)
    logger.addHandler(handler)
    try:
        yield warnings
    finally:
        logger.removeHandler(handler)


def executor_named(name: str) -> LocalExecutor | RayExecutor:
    """The executor "local" or "ray"."""
    if name == "local":
        return LocalExecutor()
    if name == "ray":
        return RayExecutor()
    raise ValueError(f"unknown --executor {name!r}; choose local or ray")
