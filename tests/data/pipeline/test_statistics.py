"""The statistics table of OS A.7 against counts by hand."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data.pipeline import collect_statistics
from hf_echo.data.pipeline.statistics import as_json, steps_table

COLUMNS = {
    "source": ["été", "hiver", "winter", "夏", "x = 1", "x is one", "x is two"],
    "source_lang": ["fra_Latn", "fra_Latn", "eng_Latn", "jpn_Jpan", "python"] + ["eng_Latn"] * 2,
    "target": ["summer", "winter", "Winter", "summer", "x is one", "x = 1;", "x = 2"],
    "target_lang": ["eng_Latn", "eng_Latn", "deu_Latn", "eng_Latn", "eng_Latn", "javascript"]
    + ["python"],
    "provenance": ["primary", "primary", "primary", "mined", "code", "code", "code"],
}
# pairs, directions, source and target languages, source and target characters
COUNTS = {
    "primary": (3, 2, 2, 2, 14, 18),
    "mined": (1, 1, 1, 1, 1, 6),
    "code from text": (2, 2, 1, 2, 16, 11),
    "code to text": (1, 1, 1, 1, 5, 8),
    "total": (7, 6, 4, 4, 36, 43),
}


@pytest.fixture
def statistics(tmp_path):
    """Of a Parquet file and of one of JSON lines."""
    table = pa.table(COLUMNS)
    pq.write_table(table.slice(0, 4), tmp_path / "a.parquet")
    rows = [json.dumps(row) for row in table.slice(4).to_pylist()]
    (tmp_path / "b.jsonl").write_text("\n".join(rows) + "\n")
    return collect_statistics([tmp_path / "a.parquet", tmp_path / "b.jsonl"])


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_a_kind_of_data(statistics, name):
    (row,) = [row for row in statistics.rows() if row["data"] == name]

    figures = [
        "pairs",
        "directions",
        "source_languages",
        "target_languages",
        "source_characters",
        "target_characters",
    ]
    assert tuple(row[figure] for figure in figures) == COUNTS[name]


def test_counts_become_a_table(statistics):
    header, _, first, *_ = statistics.to_markdown().splitlines()

    assert header.startswith("| data | pairs | directions |")
    assert first == "| primary | 3 | 2 | 2 | 2 | 14 | 18 |"


def test_repeated_rows_are_no_negative_drop():
    """French: 30 of 90 rows go; German: 10 rows become 40."""
    read = {"fra_Latn>eng_Latn": 90, "deu_Latn>eng_Latn": 10}
    drawn = {"fra_Latn>eng_Latn": 60, "deu_Latn>eng_Latn": 40}

    _, sample = as_json([("sources", read), ("sample", drawn)])

    assert (sample["in"], sample["kept"], sample["dropped"], sample["repeated"]) == (
        100,
        100,
        30,
        30,
    )
    assert "repeated" in steps_table([sample]).splitlines()[0]


def test_a_step_without_repeated_rows_has_no_column_of_them():
    steps = as_json([("sources", {"fra_Latn>eng_Latn": 3}), ("sanity", {"fra_Latn>eng_Latn": 2})])

    assert steps_table(steps).splitlines()[-1] == "| sanity | 3 | 2 | 1 | 66.7 |"


def test_an_unreadable_file_is_no_bad_row(tmp_path):
    path = tmp_path / "fr.txt"
    path.write_text("Bonjour.\n")

    with pytest.raises(ValueError, match="fr.txt: unknown file type; use one of") as caught:
        collect_statistics([path])

    assert "bad row" not in str(caught.value)
