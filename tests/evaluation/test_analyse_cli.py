"""`hf-echo evaluate geometry` and `cost`: same results as the package's functions."""

import json

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.evaluation.geometry import evaluate_geometry
from hf_echo.inference import encode, load_encoder

COMMAND = "evaluate"


@pytest.fixture
def arguments(toy, toy_folders, tmp_path, monkeypatch):
    """24 held-out meanings in three languages; the third lacks number 5."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = []
    for number, meaning in enumerate(toy.split("dev")[:24]):
        for lang in toy.LANGUAGES:
            if lang != "rus_Cyrl" or number != 5:
                rows.append({"id": str(number), "lang": lang, "text": toy.say(meaning, lang)})
    Dataset.from_list(rows).to_parquet(tmp_path / "nway.parquet")
    return ["geometry", "--model", toy_folders["release"], "--data", tmp_path / "nway.parquet"]


@pytest.fixture
def geometry(toy, toy_folders):
    """What the package's function says about the sentences in common."""
    meanings = toy.split("dev")[:24]
    del meanings[5]
    model, tokenizer = load_encoder(str(toy_folders["release"]))
    parts = {}
    for lang in toy.LANGUAGES:
        parts[lang] = encode(
            model, tokenizer, [toy.say(meaning, lang) for meaning in meanings], lang
        )
    return evaluate_geometry(parts)


def test_geometry_of_the_sentences_in_common(answer, toy, arguments, geometry):
    report = answer(*arguments)

    assert report["rows"] == 23
    assert [row["lang"] for row in report["by_language"]] == toy.LANGUAGES
    # The function of the package, on the sentences that the fixture chose by hand.
    for name in ("spread", "isotropy", "invariance", "calinski_harabasz", "rsim"):
        assert report[name] == pytest.approx(geometry.to_row()[name], rel=1e-3)


def test_singular_values_are_in_the_file_only(answer, arguments, geometry, tmp_path):
    """There are hundreds, too many for a screen."""
    report = answer(*arguments, "--json", tmp_path / "report.json")

    in_file = json.loads((tmp_path / "report.json").read_text())
    singular_values = in_file.pop("singular_values")
    assert report == in_file
    np.testing.assert_allclose(singular_values, geometry.singular_values, rtol=1e-3, atol=1e-4)


def test_geometry_of_two_languages(answer, arguments):
    report = answer(*arguments, "--lang", "eng_Latn", "--lang", "fra_Latn")

    assert report["languages"] == 2
    assert report["rows"] == 24


def test_an_unknown_language_is_refused(refused, arguments):
    refused("unknown language 'xyz'", *arguments, "--lang", "xyz")


def test_cost_of_a_model(answer, toy, toy_folders, tmp_path):
    texts = [toy.say(meaning, "fra_Latn") for meaning in toy.split("dev")]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    model = toy_folders["release"]
    _, tokenizer = load_encoder(str(model))
    lengths = [len(ids) for ids in tokenizer(texts, lang="fra_Latn")["input_ids"]]

    options = ("--lang", "fra_Latn", "--rounds", 2)
    report = answer("cost", "--model", model, "--texts", tmp_path / "texts.txt", *options)

    assert report["sentences"] == 32
    assert report["rounds"] == 2
    assert report["seconds"] > 0
    assert report["tokens"] == sum(lengths)
