"""Data pipeline: a recipe (sources, filters, deduplication, sampling) turns raw parallel corpora into training data.

Rows pass through blocks on disk. A stopped run resumes at the first unfinished block. A recipe gives the same rows in
one process and on a Ray cluster.
"""

from __future__ import annotations

from ...utils.executors import LocalExecutor, RayExecutor
from .data_recipe import Output, Recipe, Sampling, Step, read_recipe
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
