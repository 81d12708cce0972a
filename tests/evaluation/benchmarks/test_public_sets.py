"""Small local copies of the public sets with the columns of their cards, and a Hub on the loopback interface."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset

from hf_echo.evaluation.benchmarks.public_sets import SETS, load_benchmark

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def write(folder: Path, name: str, rows: list[dict]) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    table = Dataset.from_list(rows)
    table.to_parquet(file) if file.suffix == ".parquet" else table.to_json(file, force_ascii=False)
    return file


def question(code, text, split="test"):
    file = f"{code}/{split}-00000-of-00001.parquet"
    return {file: [{"sample_id": f"algebra/{split}/0", "subject": "algebra", "question": text, "answer": "B"}]}


WIC = {"sentence1": "the bank", "start1": 4, "end1": 8, "sentence2": "a bank", "start2": 2, "end2": 6}
PLACE = {"char_start": 4, "char_end": 7}
XLWIC = {"context_1": "ein Tor", "context_2": "das Tor", "language": "DE", "label": 1}
XLWIC |= {"target_word_location_1": PLACE, "target_word_location_2": PLACE}
FLORES = {"id": 7, "iso_639_3": "deu", "iso_15924": "Latn", "text": "x", "domain": "d"}
MASSIVE = {"id": "0", "locale": "de-DE", "annot_utt": "weck mich um [time : neun uhr] auf"}
BOUQUET = {"uniq_id": "P1-S1", "level": "sentence_level", "src_lang": "nld_Latn", "src_text": "Hoi"}
PROGRAM = "if a : NEW_LINE INDENT b ( ) NEW_LINE DEDENT c ( ) NEW_LINE".split()

# set -> (files, the rows that must come of the test split, and of WIC the validation split)
COPIES = {
    "flores_plus": (
        {
            "devtest.parquet": [
                FLORES | {"iso_639_3": "cmn", "iso_15924": "Hans", "text": "你好"},
                FLORES | {"iso_639_3": "fil", "text": "Kumusta"},
            ],
            "dev.parquet": [FLORES],
        },
        [{"lang": "zho_Hans", "id": 7, "text": "你好"}, {"lang": "tgl_Latn", "id": 7, "text": "Kumusta"}],
    ),
    "gmmlu": (
        question("en", "Find the degree.") | question("fil", "Hanapin ang antas.") | question("en", "No.", "dev"),
        [
            {"lang": "eng_Latn", "id": "algebra/test/0", "text": "Find the degree."},
            {"lang": "tgl_Latn", "id": "algebra/test/0", "text": "Hanapin ang antas."},
        ],
    ),
    "bouquet": (
        {
            "nld_Latn/test.parquet": [BOUQUET, BOUQUET | {"level": "paragraph_level", "uniq_id": "P1"}],
            "eng_Latn/dev.parquet": [BOUQUET | {"src_lang": "eng_Latn"}],
        },
        [{"lang": "nld_Latn", "id": "P1-S1", "text": "Hoi"}],
    ),
    "afrolingu_mt": (
        {"test.jsonl": [{"langcode": "ewe-fra", "instruction": "i", "input": "Akpe", "output": "Merci"}]},
        [{"source_lang": "ewe_Latn", "target_lang": "fra_Latn", "source": "Akpe", "target": "Merci"}],
    ),
    "xlcost": (  # as metadata/codesearch/README.md of its repository describes the files
        {
            "snippet_level/Python/test.jsonl": [
                {"idx": "9-Python-1/9-C#-1", "docstring_tokens": PROGRAM, "code_tokens": "b ( ) ; NEW_LINE".split()}
            ],
            "snippet_level/C/val.jsonl": [{"idx": "1-C-1/1-Java-1", "docstring_tokens": ["x"], "code_tokens": ["y"]}],
        },
        [{"source_lang": "python", "target_lang": "csharp", "source": "if a :\n    b ( )\nc ( )", "target": "b ( ) ;"}],
    ),
    "massive_slots": (
        {
            "de-DE/test.jsonl": [MASSIVE],
            "en-US/test.jsonl": [MASSIVE | {"locale": "en-US", "annot_utt": "up"}],
            "ja-JP/test.jsonl": [MASSIVE | {"locale": "ja-JP", "annot_utt": "[time : 九時] に"}],
            "all_1.1/test.jsonl": [MASSIVE],
        },
        [
            {
                "lang": "deu_Latn",
                "tokens": "weck mich um neun uhr auf".split(),
                "tags": "O O O B-time I-time O".split(),
            },
            {"lang": "eng_Latn", "tokens": ["up"], "tags": ["O"]},
            {"lang": "jpn_Jpan", "tokens": ["九", "時", "に"], "tags": ["B-time", "I-time", "O"]},
        ],
    ),
    "panx": (
        {"als/test.parquet": [{"tokens": ["z'", "Bern"], "ner_tags": [0, 5], "langs": ["als", "als"]}]},
        [{"lang": "gsw_Latn", "tokens": ["z'", "Bern"], "tags": ["O", "B-LOC"]}],
    ),
    "wic": (
        {"wic/validation.parquet": [WIC | {"word": "bank", "label": 1}, WIC | {"word": "bank", "label": -1}]},
        [{"lang": "eng_Latn", **WIC, "label": 1}],
    ),
    "xlwic": (
        {"xlwic_en_de/test.parquet": [XLWIC]},
        [
            {"lang": "deu_Latn", "sentence1": "ein Tor", "start1": 4, "end1": 7, "label": 1}
            | {"sentence2": "das Tor", "start2": 4, "end2": 7}
        ],
    ),
}


def copy(name: str, folder: Path) -> Path:
    for file, rows in COPIES[name][0].items():
        write(folder, file, rows)
    return folder


@pytest.mark.parametrize("name", SETS)
def test_columns(name, tmp_path):
    split = "validation" if name == "wic" else None
    assert load_benchmark(name, path=copy(name, tmp_path), split=split) == COPIES[name][1]


def test_languages_are_chosen(tmp_path):
    for code in ("de", "fr", "zh-classical"):
        write(tmp_path, f"{code}/test.parquet", [{"tokens": [code], "ner_tags": [1]}])
    assert [row["lang"] for row in load_benchmark("panx", path=tmp_path, langs=["German"])] == ["deu_Latn"]
    assert {row["lang"] for row in load_benchmark("panx", path=tmp_path)} == {"deu_Latn", "fra_Latn", "zh-classical"}
    with pytest.raises(ValueError, match="has no test rows in ita_Latn; found deu_Latn, fra_Latn"):
        load_benchmark("panx", path=tmp_path, langs=["deu_Latn", "ita_Latn"])
    rows = [{"langcode": pair, "input": "a", "output": "b"} for pair in ("eng-yor", "ewe-fra")]
    write(tmp_path / "mt", "test.jsonl", rows)
    found = load_benchmark("afrolingu_mt", path=tmp_path / "mt", langs=["yor_Latn"])
    assert [(row["source_lang"], row["target_lang"]) for row in found] == [("eng_Latn", "yor_Latn")]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("flores", {}, "unknown set 'flores'; choose from flores_plus, gmmlu"),
        ("bouquet", {"split": "train"}, "bouquet has no split 'train'; choose from validation, test"),
        ("panx", {"path": "{}"}, "row 1: no column 'ner_tags'; found words"),
        ("panx", {"path": "none"}, "no folder none; give path="),
        ("panx", {"path": "{}", "split": "train"}, "has no file of split 'train'"),
        ("gmmlu", {"path": "{}/de"}, "has no folder of one language"),
        ("xlcost", {}, "xlcost is not on the Hub: download the data of github.com/reddy-lab"),
    ],
)
def test_bad_input_is_told_in_one_line(name, options, words, tmp_path):
    write(tmp_path, "de/test.jsonl", [{"words": "a", "label": 1}])
    options = options | ({"path": options["path"].format(tmp_path)} if "path" in options else {})
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        load_benchmark(name, **options)


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
    "slots": {"name": "massive_slots", "langs": ["deu_Latn"]},
    "wic": {"name": "wic"},
    "gmmlu": {"name": "gmmlu"},
    "absent": {"name": "panx"},
    "language": {"name": "massive_slots", "langs": ["ita_Latn"]},
}


def parquet(rows):
    Dataset.from_list(rows).to_parquet(sink := io.BytesIO())
    return sink.getvalue()


DATASETS = {
    "AmazonScience/massive": {
        f"{lang}/test/0000.parquet": parquet([MASSIVE | {"locale": lang}]) for lang in ("de-DE", "fr-FR")
    },
    "aps/super_glue": {"wic/validation/0000.parquet": parquet(COPIES["wic"][0]["wic/validation.parquet"])},
    "CohereLabs/Global-MMLU": {file: parquet(rows) for file, rows in COPIES["gmmlu"][0].items()},
}


@pytest.mark.slow
def test_from_the_hub(hub_environment):
    given = dict(input=json.dumps(list(CALLS.values())), text=True, env=hub_environment, timeout=300)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, **given)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(CALLS, json.loads(done.stdout), strict=True))
    assert answers["wic"] == COPIES["wic"][1] and answers["gmmlu"] == COPIES["gmmlu"][1]
    assert answers["slots"] == COPIES["massive_slots"][1][:1]
    assert answers["absent"].startswith("FileNotFoundError: panx: unimelb-nlp/wikiann cannot be read")
    assert "give path=" in answers["absent"] and "\n" not in answers["absent"]
    assert answers["language"].startswith("ValueError: AmazonScience/massive has no test rows in ita_Latn; found deu")
