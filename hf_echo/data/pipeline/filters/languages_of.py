"""The language that a row is data of, and which languages are small."""

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
    """Languages, in order of code, with fewer rows than that; of ``among``, or of all when it is empty.

    ``counted`` says which rows count (a bool a row); a language of which none does is small.
    """
    rows: Counter[str] = Counter()
    for table in tables:
        own = own_languages(table)
        rows.update(dict.fromkeys(own, 0))
        names, counts = np.unique(own if counted is None else own[counted(table)], return_counts=True)
        rows.update(dict(zip(names.tolist(), counts.tolist())))
    return tuple(sorted(code for code, n in rows.items() if n < fewer_than and (not among or code in among)))
