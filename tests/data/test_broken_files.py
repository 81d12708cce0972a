"""Files with any bytes give rows or an error that names the file, in bounded time."""

import gzip
import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.data import load_nway, load_parallel
from hf_echo.evaluation.labelled_rows import read_rows
from hf_echo.utils.text import TextLines, read_lines

COLUMNS = {
    "id": ["1", "1", "2"],
    "lang": ["fra_Latn", "eng_Latn", "fra_Latn"],
    "text": ["un chat", "a cat", "chiens"],
}
TSV = b"""id\tlang\ttext
1\tfra_Latn\tun chat
1\teng_Latn\ta cat
2\tfra_Latn\tchiens
"""
JSONL = b"""{"id": "1", "lang": "fra_Latn", "text": "un chat"}
{"id": "1", "lang": "eng_Latn", "text": "a cat"}
{"id": "2", "lang": "fra_Latn", "text": "chiens"}
"""
bounded = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(COLUMNS), sink)
    return sink.getvalue().to_pybytes()


WHOLE = {
    ".tsv": TSV,
    ".tsv.gz": gzip.compress(TSV),
    ".jsonl": JSONL,
    ".jsonl.gz": gzip.compress(JSONL),
    ".parquet": parquet(),
}


@st.composite
def changed(draw, content: bytes) -> bytes:
    """Up to four other bytes."""
    changed_content = bytearray(content)
    places = st.integers(0, len(content) - 1)
    for place in draw(st.lists(places, min_size=1, max_size=4)):
        changed_content[place] = draw(st.integers(0, 255))
    return bytes(changed_content)


def damaged(content: bytes, text: bytes = TSV):
    """A valid file truncated or with changed bytes; a text in another encoding; or random bytes."""
    cut = st.integers(0, len(content)).map(lambda end: content[:end])
    encodings = st.sampled_from(["utf-16", "utf-16-le", "utf-32-be"])
    return st.one_of(
        cut, changed(content), encodings.map(text.decode().encode), st.binary(max_size=60)
    )


def read_labelled(path):
    return list(read_rows(path, ["id", "lang", "text"]))


READERS = {
    "parallel": partial(load_parallel, split=None),
    "nway": partial(load_nway, split=None),
    "labelled": read_labelled,
}
SUFFIXES = [".tsv.gz", ".jsonl", ".parquet"]
SUFFIXES += [pytest.param(suffix, marks=pytest.mark.slow) for suffix in (".tsv", ".jsonl.gz")]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("suffix", SUFFIXES)
@bounded
@given(data=st.data())
def test_a_damaged_table_is_read_or_named(tmp_path_factory, monkeypatch, suffix, reader, data):
    path = tmp_path_factory.mktemp("t", numbered=True) / f"damaged{suffix}"
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", path.parent)
    text = JSONL if suffix.startswith(".jsonl") else TSV
    path.write_bytes(data.draw(damaged(WHOLE[suffix], text)))
    try:
        READERS[reader](path)
    except (ValueError, OSError) as error:
        assert "damaged" in str(error), repr(error)


@pytest.mark.parametrize("reader", [read_lines, lambda path: TextLines(path).read(0, 9)])
@bounded
@given(content=damaged(TSV))
def test_a_damaged_text_is_read_or_named(tmp_path_factory, reader, content):
    path = tmp_path_factory.mktemp("t", numbered=True) / "damaged.txt"
    path.write_bytes(content)
    try:
        lines = reader(path)
    except ValueError as error:
        assert "damaged.txt" in str(error)
    else:
        assert lines
        assert "\0" not in "".join(lines)


PAIRS = {"source": ["un", "deux"], "target": ["one", "two"], "hard_negatives": [["two"], []]}
LANGUAGES = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}


@pytest.fixture(params=[".parquet", ".jsonl"])
def pairs_with_nul(request, tmp_path):
    """A table with a NUL in the second row; JSON spells it with an escape,
    Parquet holds it as it is."""

    def write(column, value):
        table = pa.table(PAIRS | {column: [PAIRS[column][0], value]})
        path = tmp_path / f"a{request.param}"
        if request.param == ".parquet":
            pq.write_table(table, path)
        else:
            path.write_text("\n".join(map(json.dumps, table.to_pylist())))
        return path

    return write


@pytest.mark.parametrize(
    "column, value", [("source", "a\0b"), ("hard_negatives", ["fo\0ur", "five"])]
)
def test_a_nul_in_a_cell_of_a_table_of_pairs_is_named(pairs_with_nul, column, value):
    path = pairs_with_nul(column, value)
    with pytest.raises(ValueError, match=rf"a{path.suffix}:2: .* holds a NUL character"):
        load_parallel(path, **LANGUAGES)


def test_a_row_with_a_nul_can_be_skipped(pairs_with_nul):
    rows = load_parallel(pairs_with_nul("source", "a\0b"), on_bad_row="skip", **LANGUAGES)

    assert rows["source"][:] == ["un"]


@pytest.mark.parametrize("read", [load_nway, read_labelled])
@pytest.mark.parametrize("column", ["id", "text"])
def test_a_nul_in_a_cell_of_other_tables_is_named(tmp_path, column, read):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(COLUMNS | {column: [*COLUMNS[column][:2], "a\0b"]}), path)
    with pytest.raises(ValueError, match=rf"a\.parquet:3: {column} holds a NUL character"):
        read(path)
