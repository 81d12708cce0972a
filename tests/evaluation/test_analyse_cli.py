"""`hf-echo evaluate geometry` and `cost`: what the package says of the same model and texts; one-line errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from datasets import Dataset
from transformers import BertConfig

from hf_echo.evaluation.cost import Stack, cost_grid, encoder_flops
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


@pytest.mark.parametrize("command", ["geometry", "cost"])
def test_help_shows_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"hf-echo evaluate {command}" in " ".join(out[out.index("Example:") :].split())


def test_geometry_of_the_sentences_in_common(run, toy, toy_folders, table, tmp_path):
    model = toy_folders["release"]
    code, out, err = run("geometry", "--model", model, "--data", table, "--json", tmp_path / "o.json")
    assert code == 0, err
    report = json.loads(out)
    assert report == json.loads((tmp_path / "o.json").read_text())
    meanings = [m for i, m in enumerate(toy.split("dev")[:24]) if i != 5]
    encoder = load_encoder(str(model))
    parts = {lang: encode(*encoder, [toy.say(m, lang) for m in meanings], lang) for lang in toy.LANGUAGES}
    want = evaluate_geometry(parts)
    assert (report["languages"], report["rows"]) == (3, 23)
    for name in ("spread", "isotropy", "invariance", "calinski_harabasz", "rsim"):
        assert report[name] == pytest.approx(want.to_row()[name], rel=1e-3)
    assert [row["lang"] for row in report["by_language"]] == toy.LANGUAGES
    np.testing.assert_allclose(report["singular_values"], want.singular_values, rtol=1e-3, atol=1e-4)
    code, out, _ = run(
        "geometry", "--model", model, "--data", table, "--lang", "eng_Latn", "--lang", "fra_Latn"
    )
    assert (json.loads(out)["languages"], json.loads(out)["rows"]) == (2, 24)
    code, out, err = run("geometry", "--model", model, "--data", table, "--lang", "xyz")
    assert (code, out) == (2, "") and "no rows in 'xyz'" in err


def test_cost_of_a_model(run, toy, toy_folders, tmp_path):
    texts = [toy.say(m, "fra_Latn") for m in toy.split("dev")]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    model = toy_folders["release"]
    code, out, err = run(
        "cost", "--model", model, "--texts", tmp_path / "a.txt", "--lang", "fra_Latn", "--tokens", 7, "--rounds", 2
    )  # fmt: skip
    assert code == 0, err
    report = json.loads(out)
    echo, tokenizer = load_encoder(str(model))
    assert report["encoder_flops"] == {"7": encoder_flops(Stack.of(echo.config), 7)}
    speed = report["speed"]
    assert (speed["sentences"], speed["rounds"]) == (32, 2) and speed["seconds"] > 0
    assert speed["tokens"] == sum(map(len, tokenizer(texts, lang="fra_Latn")["input_ids"]))
    assert "grid" not in report


def test_cost_without_a_model_is_figure_8(run, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = run("cost", "--plot", tmp_path / "heat.png")
    assert code == 0, err
    assert json.loads(out)["grid"]["ratio"][0][0] == pytest.approx(cost_grid().ratio[0, 0], abs=1e-3)
    assert (tmp_path / "heat.png").stat().st_size > 1000


def test_another_architecture_has_no_flops_here(run, tmp_path):
    BertConfig().save_pretrained(tmp_path)
    code, out, _ = run("cost", "--model", tmp_path)
    assert code == 0 and json.loads(out)["encoder_flops"] is None


def test_errors_are_one_line(run, tmp_path):
    for arguments, message in (
        (("cost", "--texts", "a.txt"), "needs --model"),
        (("cost", "--model", tmp_path / "none"), "none"),
        (("geometry", "--model", "m", "--data", tmp_path / "none.parquet"), "none.parquet"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "") and message in err and len(err.strip().splitlines()) == 1
