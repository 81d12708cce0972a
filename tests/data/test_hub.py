"""Hub datasets from a local Hub server, read in another process, because the address is read on import."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

LANGUAGES = {"src_lang": "fra_Latn", "tgt_lang": "eng_Latn"}
ROWS = [{"src": f"s{i}", "tgt": f"t{i}" if i != 7 else ""} | LANGUAGES for i in range(9)]
OPUS = [{"id": str(i), "translation": {"fr": f"s{i}", "en": f"t{i}"}} for i in range(3)]


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


NWAY = [
    {"id": i, "lang": lang, "text": f"{lang} {i}"}
    for i in range(2)
    for lang in ("fra_Latn", "eng_Latn")
]
CARD = b"---\nconfigs: [{config_name: en-fr, data_files: a.jsonl}, {config_name: two, data_files: b.jsonl}]\n---\n"
DATASETS = {
    "tester/pairs": {"train.parquet": parquet(ROWS), "test.parquet": parquet(ROWS[:1])},
    "tester/opus": {"README.md": CARD, "a.jsonl": jsonl(OPUS), "b.jsonl": jsonl(OPUS[:1])},
    "tester/nway": {"train.jsonl": jsonl(NWAY)},
}


SCRIPT = """
import json, sys
from hf_echo.data import load_parallel
results = []
for call in json.load(sys.stdin):
    try:
        results.append(list(load_parallel(**call)))
    except (ValueError, FileNotFoundError) as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""
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


def pairs(rows):
    return [(row["source"], row["target"]) for row in rows]


def test_datasets_of_the_hub(hub_environment):
    """Splits, bad rows, nested columns of a configuration, an n-way table, and what is not there."""
    options = dict(
        input=json.dumps(list(CALLS.values())), text=True, capture_output=True, timeout=300
    )
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=hub_environment, **options)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(CALLS, json.loads(done.stdout), strict=True))
    assert answers["test"] == [{"source": "s0", "target": "t0", "provenance": "primary"} | FRENCH]
    assert pairs(answers["limit"]) == [("s0", "t0"), ("s1", "t1")]
    assert "tester/pairs:8: target is empty (1 bad row" in answers["bad"]
    assert pairs(answers["skip"]) == [(f"s{i}", f"t{i}") for i in range(9) if i != 7]
    assert {row["provenance"] for row in answers["skip"]} == {"mined"}
    assert pairs(answers["nested"]) == [(f"s{i}", f"t{i}") for i in range(3)]
    assert "found: id, translation.fr, translation.en" in answers["columns"]
    assert sorted(pairs(answers["nway"])) == [(f"fra_Latn {i}", f"eng_Latn {i}") for i in range(2)]
    wrong = answers["nobody"]
    assert wrong.startswith(
        "FileNotFoundError: tester/nothing: no such file or folder, nor a readable dataset on"
    )
    for kind, word in (("name", "en-fr"), ("split", "test")):
        assert answers[kind].startswith("ValueError: tester/")
        assert word in answers[kind]
        assert "\n" not in answers[kind]
