"""The data engine: a recipe over raw parallel collections -> what a training stage is fed, and a count of it.

`read_recipe` and `run` are all that a caller needs: the recipe says what, the engine how. The corpus goes through in
blocks on disk, so memory does not grow with it; a stopped run goes on with the first unfinished block; the same
recipe runs in one process or on a Ray cluster and gives the same bytes.
"""

from __future__ import annotations

from .executors import LocalExecutor, RayExecutor
from .recipe import Output, Recipe, Sampling, Step, read_recipe
from .runner import run
from .statistics import Statistics, collect_statistics

__all__ = [
    "LocalExecutor",
    "Output",
    "RayExecutor",
    "Recipe",
    "Sampling",
    "Statistics",
    "Step",
    "collect_statistics",
    "read_recipe",
    "run",
]
