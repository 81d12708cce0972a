"""The demo, whole (slow): what it writes, and that every stage does what it is there for."""

import json

import pytest

pytestmark = [pytest.mark.trains, pytest.mark.slow]


def test_demo_keeps_its_promises(tmp_path):
    from hf_echo.cli.demo import run_demo
    from hf_echo.inference import load_encoder

    run_demo(tmp_path)
    report = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [row["stage"] for row in report["rows"]] == ["seq2seq", "contrastive", "hard_negatives"]
    first, second, third = report["rows"]
    assert first["xsim"] > second["xsim"] and third["xsim"] < 2
    assert third["xsimpp"] <= second["xsimpp"] / 2 and third["chrf"] > 85
    encoder, _ = load_encoder(report["release"])
    assert encoder.config.decoder is None and "fra_Latn" in encoder.config.languages
    assert run_demo(tmp_path)["rows"] == report["rows"]  # finished stages are not trained again
