"""Small local copies of the public sets, and a Hub on the loopback interface."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.evaluation import evaluate_xsim, pairs_as_nway
from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
from hf_echo.evaluation.benchmarks.public_tables import SETS
from hf_echo.evaluation.probes.downstream import (
    evaluate_classification,
    evaluate_pair_classification,
    evaluate_similarity,
)
from hf_echo.evaluation.tokens.alignment_data import read_alignment

from .public_copies import COPIES, MASSIVE, NLI, copy, write


def test_every_set_has_a_copy():
    assert set(COPIES) == set(SETS)


@pytest.mark.parametrize("name", SETS)
def test_columns(name, tmp_path):
    _, split, expected = COPIES[name]
    assert load_benchmark(name, path=copy(name, tmp_path), split=split) == expected


def embed(texts, lang):
    """A vector a text by its letters, the same in all languages."""
    rows = [np.bincount([ord(c) % 61 for c in text.lower()], minlength=61) for text in texts]
    return np.array(rows, dtype=np.float32) + 0.01


def test_rows_feed_the_evaluations(tmp_path):
    pytest.importorskip("sklearn")
    topics = [
        {"index_id": i, "category": c, "text": t}
        for i, (c, t) in enumerate([("a", "aaaa"), ("b", "zzzz"), ("a", "aaa"), ("b", "zzz")])
    ]
    for part in ("train", "test"):
        write(tmp_path / "sib", f"deu_Latn/{part}.tsv", topics)
    train, test = (load_benchmark("sib200", path=tmp_path / "sib", split=part) for part in ("train", "test"))
    assert evaluate_classification(embed, train, test).rows == [{"lang": "deu_Latn", "count": 4, "accuracy": 100.0}]
    nli = [{"premise": "abc", "hypothesis": h, "label": label} for h, label in (("abc", 0), ("xyz", 2), ("q", 1))]
    write(tmp_path / "xnli", "fr/test.parquet", nli)
    found = evaluate_pair_classification(embed, load_benchmark("xnli", path=tmp_path / "xnli"))
    assert found.rows == [{"lang": "fra_Latn", "count": 2, "average_precision": 100.0}]
    sts = [
        {"sentence1": "abc", "sentence2": t, "score": s, "lang": "fr-en"}
        for t, s in (("abc", 5.0), ("abx", 3.0), ("xyz", 0.0))
    ]
    write(tmp_path / "sts", "test.jsonl", sts)
    found = evaluate_similarity(embed, load_benchmark("sts17", path=tmp_path / "sts")).rows[0]
    assert found["lang"] == "fra_Latn-eng_Latn" and found["spearman"] == pytest.approx(100)
    row = load_benchmark("xlwa", path=copy("xlwa", tmp_path / "xlwa"))[0]
    assert read_alignment(row, "row 1").sure == {(0, 0), (1, 1), (2, 2)}


def test_questions_and_programs_are_searched(tmp_path):
    """ECHO Table 2: a question finds its English original, a snippet the same snippet in another language."""
    found = evaluate_xsim(embed, load_benchmark("gmmlu", path=copy("gmmlu", tmp_path / "gmmlu")))
    assert [(row["lang"], row["count"], row["xsim"]) for row in found.rows] == [("tgl_Latn", 1, 0.0)]
    for i, (one, two) in enumerate((("C", "Java"), ("Java", "C"))):
        rows = [
            {"idx": f"{n}-{one}-1/{n}-{two}-1", "docstring_tokens": [text], "code_tokens": [text, ";"]}
            for n, text in enumerate(("aa", "bb", "aa" if i else "cc"))
        ]
        write(tmp_path / "xlcost", f"{one}/test.jsonl", [row | {"url": row["idx"]} for row in rows])
    pairs = load_benchmark("xlcost", path=tmp_path / "xlcost")
    by_query = {
        lang: evaluate_xsim(embed, pairs_as_nway([p for p in pairs if p["source_lang"] == lang]), target_lang=other)
        for lang, other in (("c", "java"), ("java", "c"))
    }
    assert by_query["c"].average["xsim"] == by_query["java"].average["xsim"] == 0  # equal snippets are no error


def test_languages_are_chosen(tmp_path):
    for code in ("de", "fr", "zh-classical"):
        rows = [{"tokens": [code], "ner_tags": [1], "langs": [code]}]
        write(tmp_path, f"{code}/test.parquet", rows)
    found = load_benchmark("panx", path=tmp_path, langs=["German"])
    assert [row["lang"] for row in found] == ["deu_Latn"]
    with pytest.raises(ValueError, match="has no test rows in ita_Latn; found deu_Latn, fra_Latn"):
        load_benchmark("panx", path=tmp_path, langs=["deu_Latn", "ita_Latn"])
    rows = [{"sentence1": "a", "sentence2": "b", "score": 1.0, "lang": pair} for pair in ("en-de", "en-en", "nl-en")]
    write(tmp_path / "sts", "test.jsonl", rows)
    found = load_benchmark("sts17", path=tmp_path / "sts", langs=["nld_Latn"])
    assert [(row["lang1"], row["lang2"]) for row in found] == [("nld_Latn", "eng_Latn")]


def test_one_file_with_its_language_given(tmp_path):
    file = write(
        tmp_path,
        "mine.jsonl",
        [
            {"tokens": ["Bern"], "ner_tags": ["B-LOC"], "split": "test"},
            {"tokens": ["Ulm"], "ner_tags": ["B-LOC"], "split": "dev"},
        ],
    )
    assert [r["tokens"] for r in load_benchmark("panx", path=file, langs=["deu_Latn"])] == [["Bern"]]
    with pytest.raises(ValueError, match="unknown language; add a column lang"):
        load_benchmark("panx", path=file)


@pytest.mark.parametrize(
    ("name", "file", "rows", "options", "words"),
    [
        ("flores", "x.jsonl", [{}], {}, "unknown set 'flores'; choose from flores_plus, sib200"),
        ("sts17", "test.jsonl", [{}], {"split": "train"}, "sts17 has no split 'train'; choose from test"),
        (
            "xnli",
            "de/test.jsonl",
            [{"premise": "a", "label": 1}],
            {},
            "has no column hypothesis of xnli; found label, premise",
        ),
        ("xnli", "de/test.jsonl", [NLI[0], NLI[0] | {"premise": ""}], {}, r"test.jsonl:2 \(de\): premise is empty"),
        ("xlwa", "it/test.jsonl", [{"source": "a"}], {}, "has no column target, alignment of xlwa; found source"),
    ],
)
def test_bad_input_is_told_in_one_line(name, file, rows, options, words, tmp_path):
    write(tmp_path, file, rows)
    with pytest.raises(ValueError, match=words):
        load_benchmark(name, path=tmp_path, **options)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        load_benchmark("xnli", path=tmp_path / "none")
    write(tmp_path, "de/train.parquet", NLI)
    with pytest.raises(FileNotFoundError, match="no file of split 'test'; it has train"):
        load_benchmark("xnli", path=tmp_path)
    for name, place in (("xlwa", "github.com/SapienzaNLP/XL-WA"), ("xlcost", "the data of github.com/reddy-lab")):
        with pytest.raises(ValueError, match=f"{name} is not on the Hub: download {place}"):
            load_benchmark(name)
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "test.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(ValueError, match="test.tsv:1: 2 fields, expected 3"):
        load_benchmark("xlwa", path=tmp_path / "it")


SCRIPT = """
import json, sys
from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
results = []
for call in json.load(sys.stdin):
    try:
        results.append(load_benchmark(**call))
    except (ValueError, FileNotFoundError) as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""


CALLS = {
    "xnli": {"name": "xnli", "langs": ["deu_Latn"]},
    "slots": {"name": "massive_slots", "langs": ["deu_Latn"]},
    "wic": {"name": "wic"},
    "mirror": {"name": "gmmlu"},
    "absent": {"name": "sib200"},
    "language": {"name": "xnli", "langs": ["jpn_Jpan"]},
}


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


CARD = "---\nconfigs:\n" + "".join(
    f"- config_name: {c}\n  data_files:\n  - split: test\n    path: {c}/test.parquet\n"
    for c in ("all_languages", "de", "fr")
)
DATASETS = {
    "facebook/xnli": {
        "README.md": (CARD + "---\n").encode(),
        **{f"{c}/test.parquet": parquet(NLI) for c in ("de", "fr")},
        "all_languages/test.parquet": parquet([{"premise": {"de": "x"}}]),
    },
    "AmazonScience/massive": {
        f"{lang}/test/0000.parquet": parquet([MASSIVE | {"locale": lang}]) for lang in ("de-DE", "fr-FR")
    },
    "aps/super_glue": {"wic/validation/0000.parquet": parquet(COPIES["wic"][0]["validation.parquet"])},
    "CohereLabs/Global-MMLU": {"test.parquet": parquet(NLI)},
}


@pytest.fixture(scope="module")
def answers(hub_environment):
    calls = json.dumps(list(CALLS.values()))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=calls, text=True, capture_output=True, env=hub_environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CALLS, json.loads(done.stdout), strict=True))


@pytest.mark.slow
def test_from_the_hub(answers):
    assert answers["xnli"] == COPIES["xnli"][2]
    assert answers["wic"] == COPIES["wic"][2]
    assert answers["slots"] == COPIES["massive_slots"][2][:1]


@pytest.mark.slow
def test_hub_errors_name_the_repository_and_the_way_out(answers):
    assert answers["absent"].startswith("FileNotFoundError: sib200: Davlan/sib200 does not exist on the Hub")
    assert "give path=" in answers["absent"] and "\n" not in answers["absent"]
    assert "CohereLabs/Global-MMLU cannot be read (no configuration of one language" in answers["mirror"]
    assert answers["language"].startswith("ValueError: facebook/xnli has no test rows in jpn_Jpan; found ")
