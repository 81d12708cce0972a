"""`hf-echo evaluate geometry`, `cost`, `ease`: same results as the package's functions; one-line errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.evaluation.benchmarks.cost import Stack, cost_grid, encoder_flops
from hf_echo.evaluation.geometry import evaluate_geometry
from hf_echo.evaluation.probes.ease import explain_ease
from hf_echo.inference import encode, load_encoder
from hf_echo.languages import LANGUAGES

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


def test_geometry_of_the_sentences_in_common(run, toy, toy_folders, table, tmp_path):
    model = toy_folders["release"]
    code, out, err = run("geometry", "--model", model, "--data", table, "--json", tmp_path / "o.json")
    assert code == 0, err
    report = json.loads(out)
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
    code, out, _ = run("geometry", "--model", model, "--data", table, "--lang", "eng_Latn", "--lang", "fra_Latn")
    assert (json.loads(out)["languages"], json.loads(out)["rows"]) == (2, 24)
    code, out, err = run("geometry", "--model", model, "--data", table, "--lang", "xyz")
    assert (code, out) == (2, "") and "unknown language 'xyz'" in err


def test_cost_of_a_model(run, toy, toy_folders, tmp_path):
    texts = [toy.say(m, "fra_Latn") for m in toy.split("dev")]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    model = toy_folders["release"]
    code, out, err = run(
        "cost", "--model", model, "--texts", tmp_path / "a.txt", "--lang", "fra_Latn", "--tokens", 7, "--rounds", 2
    )
    assert code == 0, err
    report = json.loads(out)
    echo, tokenizer = load_encoder(str(model))
    assert report["encoder_flops"] == {"7": encoder_flops(Stack.of(echo.config), 7)}
    speed = report["speed"]
    assert (speed["sentences"], speed["rounds"]) == (32, 2) and speed["seconds"] > 0
    assert speed["tokens"] == sum(map(len, tokenizer(texts, lang="fra_Latn")["input_ids"]))


def test_cost_without_a_model_is_figure_8(run):
    code, out, err = run("cost")
    assert code == 0, err
    assert json.loads(out)["grid"]["ratio"][0][0] == pytest.approx(cost_grid().ratio[0, 0], abs=1e-3)


@pytest.fixture
def languages(tmp_path):
    """40 real languages whose xsim falls with examples and hangs on the script: results, and features beside them."""
    rng, codes = np.random.default_rng(0), list(LANGUAGES)[:40]
    examples = 10 ** rng.uniform(2, 6, len(codes))
    rows = [
        {"lang": code, "count": 9, "xsim": 60 - 9 * float(np.log10(n)) + 5 * (LANGUAGES[code].script == "Latn")}
        for code, n in zip(codes, examples)
    ]
    (tmp_path / "xsim.json").write_text(json.dumps({"model": "m", "rows": rows, "average": {}}))
    lines = [f"{code}\t{n}\t{rng.normal()}" for code, n in reversed(list(zip(codes, examples)))]
    (tmp_path / "features.tsv").write_text("\n".join(["lang\texamples\tnoise", *lines]) + "\n")
    return rows, dict(zip(codes, examples))


def test_ease_of_languages(run, languages, tmp_path):
    rows, examples = languages
    files = ("--data", tmp_path / "xsim.json", "--features", tmp_path / "features.tsv")
    code, out, err = run("ease", *files, "--group", "script", "--repeats", 3, "--folds", 4)
    assert code == 0, err
    report = json.loads(out)
    assert (report["languages"], report["folds"], report["target"]) == (40, 4, "xsim")
    assert [row["feature"] for row in report["features"]][0] == "examples"
    assert {row["feature"] for row in report["features"]} == {"examples", "noise", "script"}
    given = [
        {"lang": r["lang"], "xsim": r["xsim"], "examples": float(examples[r["lang"]])} for r in rows
    ]  # one table, one feature
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, given)))
    code, out, err = run("ease", "--data", tmp_path / "one.jsonl", "--repeats", 2)
    assert code == 0, err
    assert json.loads(out)["rmse"] == pytest.approx(explain_ease(given, repeats=2).rmse)


def test_ease_says_what_is_wrong(refused, languages, tmp_path):
    data, features = tmp_path / "xsim.json", tmp_path / "features.tsv"
    groups = "--group is ['size']; it must be a list, each of it one of family, script, resource"
    refused(groups, "ease", "--data", data, "--group", "size")
    refused("no column 'chrf' in the results", "ease", "--data", data, "--group", "script", "--target", "chrf")
    text = features.read_text().splitlines()
    features.write_text("\n".join(text[:-1]))
    last = text[-1].split("\t")[0]
    refused(f"language {last!r} has no row of features", "ease", "--data", data, "--features", features)
    features.write_text("code\texamples\nfra_Latn\t1\n")
    refused("features.tsv has no column lang; found: code, examples", "ease", "--data", data, "--features", features)
    refused("--texts needs --model", "cost", "--texts", "a.txt")
