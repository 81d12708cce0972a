"""`hf-echo evaluate tagging` and `wic`: same results as the package's functions,
from files and public sets."""

import json

import pytest
from datasets import Dataset

from hf_echo.evaluation.benchmarks.public_sets import load_benchmark
from hf_echo.evaluation.tokens.tagging import evaluate_tagging
from hf_echo.inference import load_encoder

COMMAND = "evaluate"
PERSON = 1
ORGANISATION = 3


def write_panx(file, toy, lang, meanings):
    """PAN-X's shape: the number is a person, and animal with verb an organisation."""
    rows = []
    for meaning in meanings:
        if meaning[0] != 2 and meaning[1] != 3:
            words = [*toy.say(meaning, lang)[:-1].split(), "."]
            rows.append(
                {"tokens": words, "ner_tags": [PERSON, 0, ORGANISATION, ORGANISATION + 1, 0]}
            )
    file.parent.mkdir(exist_ok=True)
    Dataset.from_list(rows).to_parquet(file)


@pytest.fixture(scope="module")
def panx(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("panx")
    write_panx(folder / "en" / "train.parquet", toy, "eng_Latn", toy.split("train")[::3])
    write_panx(folder / "en" / "test.parquet", toy, "eng_Latn", toy.split("dev"))
    write_panx(folder / "fr" / "test.parquet", toy, "fra_Latn", toy.split("dev"))
    return folder


@pytest.fixture(scope="module")
def expected(panx, toy_folders):
    """What the package's function says about the set."""
    train = load_benchmark("panx", langs=["eng_Latn"], split="train", path=panx)
    test = load_benchmark("panx", path=panx)
    model, tokenizer = load_encoder(str(toy_folders["release"]))
    return evaluate_tagging(model, tokenizer, train, test, layer=0)


def test_tagging_of_a_public_set(answer, panx, toy_folders, expected, tmp_path):
    arguments = ("--model", toy_folders["release"], "--set", "panx", "--path", panx, "--layer", 0)

    report = answer("tagging", *arguments, "--json", tmp_path / "report.json")

    # The function of the package on the same rows.
    assert report["rows"] == expected.rows
    assert report["average"] == expected.average
    assert report == json.loads((tmp_path / "report.json").read_text())


def test_one_language_of_a_public_set(answer, panx, toy_folders, expected):
    arguments = ("--model", toy_folders["release"], "--set", "panx", "--path", panx, "--layer", 0)

    report = answer("tagging", *arguments, "--lang", "fra_Latn")

    assert report["rows"] == expected.rows[1:]


def test_tagging_of_files(answer, panx, toy_folders, expected, tmp_path):
    files = []
    for split, langs in (("train", ["eng_Latn"]), ("test", None)):
        rows = load_benchmark("panx", langs=langs, split=split, path=panx)
        file = tmp_path / f"{split}.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        files += [f"--{split}", file]

    report = answer("tagging", "--model", toy_folders["release"], *files, "--layer", 0)

    # The same rows, read from files.
    assert report["rows"] == expected.rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--train a.jsonl", "give --train and --test (two files of rows) or --set"),
        ("--set xlwic", "--set 'xlwic' has no rows for tagging; choose from massive_slots, panx"),
    ],
)
def test_errors_are_one_line(refused, arguments, message):
    refused(message, "tagging", *arguments.split(), "--model", "m")
