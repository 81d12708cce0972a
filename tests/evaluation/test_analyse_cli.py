"""`hf-echo evaluate geometry` and `cost`: same results as the package's functions."""

import json

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.evaluation.geometry import evaluate_geometry
from hf_echo.inference import encode, load_encoder

COMMAND = "evaluate"


@pytest.fixture
def table(toy, tmp_path, monkeypatch):
    """24 held-out meanings in three languages; the third lacks one."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [
        {"id": str(i), "lang": lang, "text": toy.say(meaning, lang)}
        for lang in toy.LANGUAGES
        for i, meaning in enumerate(toy.split("dev")[:24])
        if (lang, i) != ("rus_Cyrl", 5)
    ]
    Dataset.from_list(rows).to_parquet(tmp_path / "nway.parquet")
    return tmp_path / "nway.parquet"


def test_geometry_of_the_sentences_in_common(answer, refused, toy, toy_folders, table, tmp_path):
    model = toy_folders["release"]
    arguments = ("geometry", "--model", model, "--data", table)
    report = answer(*arguments, "--json", tmp_path / "o.json")
    in_file = json.loads((tmp_path / "o.json").read_text())
    curve = in_file.pop("singular_values")
    assert report == in_file  # hundreds of singular values are for a file, not for a screen
    meanings = [m for i, m in enumerate(toy.split("dev")[:24]) if i != 5]
    encoder = load_encoder(str(model))
    parts = {lang: encode(*encoder, [toy.say(m, lang) for m in meanings], lang) for lang in toy.LANGUAGES}
    want = evaluate_geometry(parts)
    assert (report["languages"], report["rows"]) == (3, 23)
    for name in ("spread", "isotropy", "invariance", "calinski_harabasz", "rsim"):
        assert report[name] == pytest.approx(want.to_row()[name], rel=1e-3)
    assert [row["lang"] for row in report["by_language"]] == toy.LANGUAGES
    np.testing.assert_allclose(curve, want.singular_values, rtol=1e-3, atol=1e-4)
    two = answer(*arguments, "--lang", "eng_Latn", "--lang", "fra_Latn")
    assert (two["languages"], two["rows"]) == (2, 24)
    refused("unknown language 'xyz'", *arguments, "--lang", "xyz")


def test_cost_of_a_model(answer, toy, toy_folders, tmp_path):
    texts = [toy.say(m, "fra_Latn") for m in toy.split("dev")]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    model = toy_folders["release"]
    report = answer("cost", "--model", model, "--texts", tmp_path / "a.txt", "--lang", "fra_Latn", "--rounds", 2)
    assert (report["sentences"], report["rounds"]) == (32, 2) and report["seconds"] > 0
    _, tokenizer = load_encoder(str(model))
    assert report["tokens"] == sum(map(len, tokenizer(texts, lang="fra_Latn")["input_ids"]))
