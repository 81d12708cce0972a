"""The language that a row counts for, and the languages with few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from .columns import by_direction

ENGLISH = "eng_"


def own_languages(table: pa.Table) -> np.ndarray:
    """(rows,) codes: the source language, or the target language where the source is English."""
    own = np.empty(len(table), dtype=object)
    for (source, target), rows in by_direction(table):
        own[rows] = target if source.startswith(ENGLISH) else source
    return own


def small_languages(
    tables: Iterable[pa.Table],
    fewer_than: int,
    among: Sequence[str] = (),
    counted: Callable[[pa.Table], np.ndarray] | None = None,
) -> tuple[str, ...]:
    """Languages with fewer than that many rows, sorted by code; among ``among``, or all if it is empty.

    ``counted`` is a boolean per row: whether it counts. A language without counted rows is small.
    """
    rows: Counter[str] = Counter()
    for table in tables:
        own = own_languages(table)
        rows.update(dict.fromkeys(own, 0))
        names, counts = np.unique(own if counted is None else own[counted(table)], return_counts=True)
        rows.update(dict(zip(names.tolist(), counts.tolist())))
    return tuple(sorted(code for code, n in rows.items() if n < fewer_than and (not among or code in among)))
