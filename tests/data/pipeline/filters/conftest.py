"""Small parallel tables, and loops that apply keys and caps as the pipeline does."""

import pyarrow as pa
import pytest


@pytest.fixture
def rows():
    """rows((source, target), ..., source_lang=, target_lang=, provenance=):
    a value for all rows, or a list."""

    def make(
        *pairs, source_lang="fra_Latn", target_lang="eng_Latn", provenance="primary", quality=None
    ):
        def column(value):
            values = [value] * len(pairs) if isinstance(value, str) else list(value)
            return pa.array(values, pa.string())

        table = pa.table(
            {
                "source": column([source for source, _ in pairs]),
                "source_lang": column(source_lang),
                "target": column([target for _, target in pairs]),
                "target_lang": column(target_lang),
                "provenance": column(provenance),
            }
        )
        if quality is None:
            return table
        return table.append_column("quality", pa.array(quality, pa.float64()))

    return make


@pytest.fixture
def first_of_keys():
    """Numbers of the rows that stay: no earlier kept row has one of their keys."""

    def call(filter_, table):
        seen = set()
        kept_rows = []
        for row, keys in enumerate(filter_.keys(table)):
            keys_of_row = set()
            for column, key in enumerate(keys):
                if key:  # 0 is no key
                    keys_of_row.add((0 if filter_.shared_keys else column, int(key)))
            if keys_of_row.isdisjoint(seen):
                seen.update(keys_of_row)
                kept_rows.append(row)
        return kept_rows

    return call
