"""`hf-echo evaluate tagging` and `wic`: same results as the package's functions, from files and public sets."""

import json

import pytest
from datasets import Dataset

from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
from hf_echo.evaluation.tokens.tagging import evaluate_tagging
from hf_echo.inference import load_encoder

pytest.importorskip("sklearn")

COMMAND = "evaluate"


@pytest.fixture
def panx(toy, tmp_path):
    """A local copy of PAN-X's shape: the number is a person and animal with verb an organisation."""
    for code, lang, part in (("en", "eng_Latn", "train"), ("en", "eng_Latn", "test"), ("fr", "fra_Latn", "test")):
        meanings = [m for m in toy.split("dev" if part == "test" else part) if m[0] != 2 and m[1] != 3]
        rows = [
            {"tokens": [*toy.say(m, lang)[:-1].split(), "."], "ner_tags": [1, 0, 3, 4, 0], "langs": [code] * 5}
            for m in meanings[:: 1 if part == "test" else 3]
        ]
        (tmp_path / "panx" / code).mkdir(parents=True, exist_ok=True)
        Dataset.from_list(rows).to_parquet(tmp_path / "panx" / code / f"{part}.parquet")
    return tmp_path / "panx"


def test_tagging_of_a_public_set_and_of_files(answer, panx, toy_folders, tmp_path):
    model = toy_folders["release"]
    arguments = ("tagging", "--model", model, "--set", "panx", "--path", panx)
    report = answer(*arguments, "--layer", 0, "--json", tmp_path / "o.json")
    assert report == json.loads((tmp_path / "o.json").read_text())
    train = load_benchmark("panx", langs=["eng_Latn"], split="train", path=panx)
    test = load_benchmark("panx", path=panx)
    want = evaluate_tagging(*load_encoder(str(model)), train, test, layer=0)
    assert report["rows"] == want.rows and report["average"] == want.average
    assert [row["lang"] for row in report["rows"]] == ["eng_Latn", "fra_Latn"]
    assert report["rows"][0]["f1"] == 1 and report["train_sentences"] == len(train)
    assert [row["lang"] for row in answer(*arguments, "--lang", "fra_Latn")["rows"]] == ["fra_Latn"]
    for name, rows in (("train", train), ("test", test)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = ("--train", tmp_path / "train.jsonl", "--test", tmp_path / "test.jsonl", "--layer", 0)
    assert answer("tagging", "--model", model, *files)["rows"] == want.rows


def test_errors_are_one_line(refused):
    refused("give --train and --test (two files of rows) or --set", "tagging", "--train", "a.jsonl", "--model", "m")
    words = "--set 'xlwic' has no rows for tagging; choose from massive_slots, panx"
    refused(words, "tagging", "--set", "xlwic", "--model", "m")
