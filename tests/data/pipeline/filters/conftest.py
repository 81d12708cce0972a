"""Small parallel tables, and what an engine does with keys and caps, written out as loops."""

from __future__ import annotations

import pyarrow as pa
import pytest


@pytest.fixture
def rows():
    """rows((source, target), ..., source_lang=, target_lang=, provenance=): a value for all rows, or a list."""

    def make(*pairs, source_lang="fra_Latn", target_lang="eng_Latn", provenance="primary", quality=None):
        def column(value):
            return list(value) if isinstance(value, (list, tuple)) else [value] * len(pairs)

        columns = {
            "source": [s for s, _ in pairs],
            "source_lang": column(source_lang),
            "target": [t for _, t in pairs],
            "target_lang": column(target_lang),
            "provenance": column(provenance),
        }
        table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        return table if quality is None else table.append_column("quality", pa.array(quality, pa.float64()))

    return make


@pytest.fixture
def first_of_keys():
    """Row numbers that stay: none of a row's keys was carried by an earlier kept row."""

    def call(filter_, table):
        keys, seen, kept = filter_.keys(table), set(), []
        for row in range(len(table)):
            own = {(0 if filter_.shared_keys else i, int(key)) for i, key in enumerate(keys[row]) if key}
            if not own & seen:
                seen |= own
                kept.append(row)
        return kept

    return call
