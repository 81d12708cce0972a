"""The demo, whole (slow): what it writes, and that every stage does what it is there for."""

import json

import pytest

pytestmark = pytest.mark.trains


@pytest.mark.slow
def test_demo_keeps_its_promises(tmp_path):
    from hf_echo.cli.demo import run_demo
    from hf_echo.inference import load_encoder

    run_demo(tmp_path)
    report = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    rows = report["rows"]
    assert [row["stage"] for row in rows] == ["seq2seq", "contrastive", "hard_negatives"]
    first, second, third = rows
    assert first["xsim"] > second["xsim"] and third["xsim"] < 2
    assert third["xsimpp"] <= second["xsimpp"] / 2
    assert third["chrf"] > 85
    encoder, tokenizer = load_encoder(report["release"])
    assert encoder.config.decoder is None and "fra_Latn" in encoder.config.languages
    again = run_demo(tmp_path)  # finished stages are not trained again
    assert again["rows"] == rows
