"""Hub datasets from a local Hub server, read in another process,
because the address is read on import."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..processes import SCRIPTS, python

LANGUAGES = {"src_lang": "fra_Latn", "tgt_lang": "eng_Latn"}
GOOD = [{"src": f"s{number}", "tgt": f"t{number}"} | LANGUAGES for number in range(3)]
ROWS = [*GOOD, {"src": "s3", "tgt": ""} | LANGUAGES]
OPUS = [{"id": "7", "translation": {"fr": "un", "en": "one"}}]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def jsonl(rows):
    return "\n".join(map(json.dumps, rows)).encode()


NWAY = [
    {"id": 1, "lang": "fra_Latn", "text": "un"},
    {"id": 1, "lang": "eng_Latn", "text": "one"},
]
CARD = b"""---
configs: [{config_name: en-fr, data_files: a.jsonl}, {config_name: two, data_files: b.jsonl}]
---
"""
DATASETS = {
    "tester/pairs": {"train.parquet": parquet(ROWS), "test.parquet": parquet(ROWS[:1])},
    "tester/opus": {"README.md": CARD, "a.jsonl": jsonl(OPUS), "b.jsonl": jsonl(OPUS)},
    "tester/nway": {"train.jsonl": jsonl(NWAY)},
}


FRENCH = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
OPUS_COLUMNS = {"columns": {"source": "translation.fr", "target": "translation.en"}, **FRENCH}
CALLS = {
    "bad": {"path_or_name": "tester/pairs"},
    "skip": {"path_or_name": "tester/pairs", "on_bad_row": "skip", "provenance": "mined"},
    "limit": {"path_or_name": "tester/pairs", "limit": 2},
    "test": {"path_or_name": "tester/pairs", "split": "test"},
    "nested": {"path_or_name": "tester/opus", "name": "en-fr", **OPUS_COLUMNS},
    "columns": {"path_or_name": "tester/opus", "name": "en-fr", **FRENCH},
    "name": {"path_or_name": "tester/opus", **OPUS_COLUMNS},
    "split": {"path_or_name": "tester/pairs", "split": "dev"},
    "nway": {"path_or_name": "tester/nway"},
    "nobody": {"path_or_name": "tester/nothing"},
}


@pytest.fixture(scope="module")
def answers(hub_environment):
    """The rows or the error of each call."""
    calls = json.dumps(CALLS)
    printed = python(SCRIPTS / "load_pairs.py", env=hub_environment, input=calls, timeout=300)
    return json.loads(printed)


def pair(source: str, target: str, provenance: str = "primary") -> dict:
    return {"source": source, "target": target, "provenance": provenance} | FRENCH


@pytest.mark.parametrize(
    "call, rows",
    [
        ("test", [pair("s0", "t0")]),
        ("limit", [pair("s0", "t0"), pair("s1", "t1")]),
        ("skip", [pair(f"s{number}", f"t{number}", "mined") for number in range(3)]),
        ("nested", [pair("un", "one")]),
        ("nway", [pair("un", "one")]),
    ],
)
def test_rows_of_the_hub(answers, call, rows):
    """Of a split, of the first rows, without bad ones, of a configuration with nested columns,
    of an n-way table."""
    assert answers[call] == rows


@pytest.mark.parametrize(
    "call, message",
    [
        ("bad", "ValueError: .*tester/pairs:4: target is empty .1 bad row"),
        ("columns", "ValueError: .*found: id, translation.fr, translation.en"),
        ("name", "ValueError: tester/.*en-fr"),
        ("split", "ValueError: tester/.*test"),
        ("nobody", "FileNotFoundError: tester/nothing: no such file or folder, nor a readable"),
    ],
)
def test_errors_of_the_hub_are_one_line(answers, call, message):
    assert re.match(message, answers[call])
    assert "\n" not in answers[call]
