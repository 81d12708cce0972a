"""Files with any bytes give rows or an error that names the file, in bounded time."""

import gzip
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.data import load_nway, load_parallel
from hf_echo.evaluation.labelled_rows import read_rows
from hf_echo.utils.text import TextLines, read_lines

from ..refusals import refuses

ROWS = {
    "id": ["1", "1", "2"],
    "lang": ["fra_Latn", "eng_Latn", "fra_Latn"],
    "text": ["un chat", "a cat", "chiens"],
}
bounded = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def whole(suffix: str) -> bytes:
    rows = list(zip(*ROWS.values()))
    if suffix == ".parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table(ROWS), sink)
        return sink.getvalue()
    if suffix.startswith(".jsonl"):
        text = "".join(json.dumps(dict(zip(ROWS, row))) + "\n" for row in rows)
    else:
        text = "\n".join("\t".join(row) for row in [tuple(ROWS), *rows]) + "\n"
    return gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode()


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """A valid file truncated, with changed bytes, or in another encoding; or random bytes."""
    kind = draw(st.sampled_from(["cut", "changed", "encoded", "any"]))
    if kind == "cut":
        return content[: draw(st.integers(0, len(content)))]
    if kind == "any":
        return draw(st.binary(max_size=60))
    if kind == "encoded":
        try:
            return content.decode().encode(
                draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32-be"]))
            )
        except UnicodeDecodeError:
            return content
    changed = bytearray(content)
    for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        changed[place] = draw(st.integers(0, 255))
    return bytes(changed)


READERS = {
    "parallel": lambda path: load_parallel(path, split=None),
    "nway": lambda path: load_nway(path, split=None),
    "labelled": lambda path: list(read_rows(path, ["lang", "text"])),
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
    path.write_bytes(data.draw(damaged(whole(suffix))))
    try:
        READERS[reader](path)
    except (ValueError, OSError) as error:
        assert "damaged" in str(error), repr(error)


@pytest.mark.parametrize("reader", [read_lines, lambda path: TextLines(path).read(0, 9)])
@bounded
@given(data=st.data())
def test_a_damaged_text_is_read_or_named(tmp_path_factory, reader, data):
    path = tmp_path_factory.mktemp("t", numbered=True) / "damaged.txt"
    path.write_bytes(data.draw(damaged(whole(".tsv"))))
    try:
        lines = reader(path)
    except ValueError as error:
        assert "damaged.txt" in str(error)
    else:
        assert lines
        assert all(isinstance(line, str) and "\0" not in line for line in lines)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize(
    "column, value", [("source", "a\0b"), ("hard_negatives", ["fo\0ur", "five"])]
)
def test_a_nul_in_a_cell_of_a_table_of_pairs_is_named(tmp_path, suffix, column, value):
    """JSON spells it with an escape, Parquet holds it as it is."""
    table = {"source": ["un", "deux"], "target": ["one", "two"], "hard_negatives": [["two"], []]}
    table[column] = [table[column][0], value]
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    else:
        path.write_text(
            "".join(json.dumps(dict(zip(table, row))) + "\n" for row in zip(*table.values()))
        )
        assert b"\0" not in path.read_bytes()
    languages = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
    refuses(rf"a{re.escape(suffix)}:2: .* holds a NUL character", load_parallel, path, **languages)
    assert load_parallel(path, on_bad_row="skip", **languages)["source"][:] == ["un"]


@pytest.mark.parametrize("column", ["id", "text"])
def test_a_nul_in_a_cell_of_other_tables_is_named(tmp_path, column):
    pq.write_table(pa.table(ROWS | {column: [*ROWS[column][:2], "a\0b"]}), tmp_path / "a.parquet")
    for read in (load_nway, lambda path: list(read_rows(path, ["id", "text"]))):
        refuses(rf"a\.parquet:3: {column} holds a NUL character", read, tmp_path / "a.parquet")
