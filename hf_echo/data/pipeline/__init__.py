"""Data pipeline: a recipe (sources, filters, deduplication, sampling) turns raw parallel corpora
into training data.

Rows pass through blocks on disk. A stopped run resumes at the first unfinished block. A recipe
gives the same rows in one process and on a Ray cluster.
"""

from __future__ import annotations

from ...utils.executors import LocalExecutor as LocalExecutor
from ...utils.executors import RayExecutor as RayExecutor
from .data_recipe import Output as Output
from .data_recipe import Recipe as Recipe
from .data_recipe import Sampling as Sampling
from .data_recipe import Step as Step
from .data_recipe import read_recipe as read_recipe
from .runner import run as run
from .statistics import Statistics as Statistics
from .statistics import collect_statistics as collect_statistics
