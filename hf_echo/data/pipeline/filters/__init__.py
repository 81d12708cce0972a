"""Filters of parallel rows, as pure functions over Arrow tables of the parallel schema; the
pipeline runs them.

A filter is a frozen dataclass of settings. Its methods show its kind:

1. Row filter: ``keep(table) -> bool array (rows,)``. Each row is judged alone.
2. Key filter: ``keys(table) -> uint64 array (rows, k)``. A row stays only if no earlier KEPT row
   has one of its keys, in the order of the input. Column i is compared with column i only, unless
   the filter's attribute ``shared_keys`` is true (then all columns are compared). Key 0 means "no
   key".
3. Group cap: ``groups(table) -> string array (rows,)``, ``rank(table) -> float array (rows,)`` and
   a field ``limit``. The ``limit`` highest ranks of each group stay (ties: the earliest row). A
   null group means "no group": the row stays.

A filter with ``fit(tables) -> filter`` learns from the rows that it will judge, in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....utils.did_you_mean import did_you_mean
from ....utils.settings import make
from .duplicates import ExactDuplicates
from .language_id import LanguageId
from .length_ratio import LengthRatio
from .policy import GroupCap, LargestDirections, Provenance
from .sanity import TextSanity
from .threshold import DirectionThreshold

FILTERS: dict[str, type] = {
    "threshold": DirectionThreshold,
    "length_ratio": LengthRatio,
    "language_id": LanguageId,
    "exact_duplicates": ExactDuplicates,
    "provenance": Provenance,
    "cap": GroupCap,
    "largest_directions": LargestDirections,
    "sanity": TextSanity,
}

__all__ = [*(kind.__name__ for kind in FILTERS.values()), "FILTERS", "build"]


def build(name: str, values: Mapping[str, Any] | None = None) -> Any:
    """Build a filter by its name in a recipe and its fields.

    Raises:
        ValueError: an unknown filter or field (the message names the nearest known one), or a wrong
            value.
    """
    if not isinstance(name, str) or name not in FILTERS:
        advice = did_you_mean(name, FILTERS, f"known are {', '.join(FILTERS)}")
        raise ValueError(f"unknown filter {name!r}{advice}")
    return make(FILTERS[name], values or {}, f"filter {name}")
