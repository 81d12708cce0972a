"""Small parallel tables, and loops that apply keys and caps as the pipeline does."""

import pyarrow as pa
import pytest


@pytest.fixture
def rows():
    """rows((source, target), ..., source_lang=, target_lang=, provenance=): a value for all rows, or a list."""

    def make(
        *pairs, source_lang="fra_Latn", target_lang="eng_Latn", provenance="primary", quality=None
    ):
        def column(value):
            return list(value) if isinstance(value, (list, tuple)) else [value] * len(pairs)

        columns = {"source": [source for source, _ in pairs], "source_lang": column(source_lang)}
        columns |= {"target": [target for _, target in pairs], "target_lang": column(target_lang)}
        columns["provenance"] = column(provenance)
        table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        return (
            table
            if quality is None
            else table.append_column("quality", pa.array(quality, pa.float64()))
        )

    return make


@pytest.fixture
def first_of_keys():
    """Numbers of the rows that stay: no earlier kept row has one of their keys."""

    def call(filter_, table):
        keys = filter_.keys(table)
        seen = set()
        kept = []
        for row in range(len(table)):
            own = {
                (0 if filter_.shared_keys else i, int(key))
                for i, key in enumerate(keys[row])
                if key
            }
            if not own & seen:
                seen |= own
                kept.append(row)
        return kept

    return call
