"""The statistics table of OS A.7 against counts by hand."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from hf_echo.data.pipeline import collect_statistics

ROWS = [
    ("été", "fra_Latn", "summer", "eng_Latn", "primary"),
    ("hiver", "fra_Latn", "winter", "eng_Latn", "primary"),
    ("winter", "eng_Latn", "Winter", "deu_Latn", "primary"),
    ("夏", "jpn_Jpan", "summer", "eng_Latn", "mined"),
    ("x = 1", "python", "x is one", "eng_Latn", "code"),
    ("x is one", "eng_Latn", "x = 1;", "javascript", "code"),
    ("x is two", "eng_Latn", "x = 2", "python", "code"),
]
NAMES = ("source", "source_lang", "target", "target_lang", "provenance")
COLUMNS = (
    "pairs",
    "directions",
    "source_languages",
    "target_languages",
    "source_characters",
    "target_characters",
)
WANT = {
    "primary": (3, 2, 2, 2, 14, 18),
    "mined": (1, 1, 1, 1, 1, 6),
    "code from text": (2, 2, 1, 2, 16, 11),
}
WANT |= {"code to text": (1, 1, 1, 1, 5, 8), "total": (7, 6, 4, 4, 36, 43)}


def test_table(tmp_path):
    table = pa.Table.from_pylist([dict(zip(NAMES, row)) for row in ROWS])
    pq.write_table(table.slice(0, 4), tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in table.slice(4).to_pylist())
    )
    found = collect_statistics([tmp_path / "a.parquet", tmp_path / "b.jsonl"])
    assert {row["data"]: tuple(row[name] for name in COLUMNS) for row in found.rows()} == WANT
    lines = found.to_markdown().splitlines()
    assert lines[0].startswith("| data | pairs | directions |")
    assert lines[2] == "| primary | 3 | 2 | 2 | 2 | 14 | 18 |"
