"""The packaged model and the tour do what the first look shows; in the demo every stage does what it is there for."""

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, pipeline

import hf_echo
from hf_echo.cli.demo import run_demo
from hf_echo.cli.tour import run_tour
from hf_echo.inference import load_encoder

COMMAND = "encode"


def test_echo_nano_is_small_and_opens_in_three_ways():
    folder = Path(hf_echo.pretrained("echo-nano"))
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 65e6
    assert "echo-nano" in (folder / "README.md").read_text(encoding="utf-8")
    # inside the package the package is the code; one small file leads trust_remote_code to it
    assert [file.name for file in folder.rglob("*.py")] == ["installed_echo.py"]
    encoder = AutoModel.from_pretrained(folder, trust_remote_code=True)
    assert encoder.num_parameters() <= 60e6
    vectors = SentenceTransformer(str(folder), device="cpu").encode(
        ["Bonjour !", "Hello!", "Der Zug ist spät."]
    )
    assert vectors.shape == (3, encoder.config.embedding_size)
    assert vectors[0] @ vectors[1] > vectors[2] @ vectors[1]
    prompts = json.loads((folder / "config_sentence_transformers.json").read_text())["prompts"]
    # of the first stage, of the last
    assert {"fra_Latn", "mkd_Cyrl"} <= set(encoder.config.languages) <= set(prompts)
    translator = pipeline("sonar-translation", model=str(folder))
    found = translator("Le parlement a adopté la loi.", src_lang="fra_Latn", tgt_lang="eng_Latn")
    assert found[0]["translation_text"]


def test_tour():
    console = Console(record=True, width=250)
    rows = run_tour(console)
    assert len(rows) == 20
    assert len({row["lang"] for row in rows}) == 10
    # the English of a sentence is the only right answer
    assert len({row["english"] for row in rows}) == len(rows)
    right = [row["nearest"] == row["english"] for row in rows]
    assert np.mean(right) >= 0.8
    text = console.export_text()
    assert all(row["text"] in text for row in rows)
    assert text.count("wrong: ") == right.count(False)
    assert f"{sum(right)} of 20 found" in text
    words = [
        (set(row["written"].lower().split()), set(row["english"].lower().split())) for row in rows
    ]
    assert np.mean([bool(written & english) for written, english in words]) >= 0.5


def test_it_is_used_where_no_model_is_given(run, tmp_path):
    (texts := tmp_path / "texts.txt").write_text(
        "Le chat dort.\nDer Zug ist spät.\n", encoding="utf-8"
    )
    assert (
        "no --model: using echo-nano, which is included in the package"
        in run(texts, tmp_path / "out.npy")[2]
    )
    run("--model", "echo-nano", texts, tmp_path / "named.npy")
    np.testing.assert_allclose(
        np.load(tmp_path / "named.npy"), np.load(tmp_path / "out.npy"), atol=1e-6
    )
    pytest.raises(ValueError, hf_echo.pretrained, "echo-micro").match(
        "the package has no checkpoint .*; it has echo-nano"
    )


@pytest.mark.trains
@pytest.mark.slow
def test_demo_keeps_its_promises(tmp_path):
    run_demo(tmp_path)
    report = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [row["stage"] for row in report["rows"]] == ["seq2seq", "contrastive", "hard_negatives"]
    first, second, third = report["rows"]
    assert first["xsim"] > second["xsim"] > third["xsim"]
    assert third["xsim"] < 2
    assert first["xsimpp"] > second["xsimpp"] > third["xsimpp"]
    assert third["xsimpp"] < 30
    assert first["chrf"] < second["chrf"] < third["chrf"]
    assert third["chrf"] > 50
    encoder, _ = load_encoder(report["release"])
    assert encoder.config.decoder is None
    assert "fra_Latn" in encoder.config.languages
    assert run_demo(tmp_path)["rows"] == report["rows"]  # finished stages are not trained again
