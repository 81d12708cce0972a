"""What comes with the package is there, is as small as it says, and does what the first look shows."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

import hf_echo
from hf_echo.tour import QUERIES, TEXTS, run_tour

COMMAND = "encode"


def test_echo_static_is_small_and_opens():
    folder = hf_echo.pretrained("echo-static")
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= 12e6
    assert "echo-static" in (folder / "README.md").read_text(encoding="utf-8")
    model = SentenceTransformer(str(folder), device="cpu")
    assert type(model[0]).__name__ == "StaticEmbedding"
    vectors = model.encode(["Bonjour !", "Hello!", "Der Zug ist spät."])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[2] @ vectors[1]


def test_tour():
    console = Console(record=True, width=150)
    found = run_tour(console)
    right = [found[query] == lang for query, lang in QUERIES.items()]
    assert np.mean(right) >= 0.7
    text = console.export_text()
    assert all(query in text for query in QUERIES)
    assert text.count("wrong") == right.count(False)


def test_it_is_used_where_no_model_is_given(run, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS.values()) + "\n", encoding="utf-8")
    _, _, err = run(texts, tmp_path / "out.npy", "--normalize")
    assert "no model given: echo-static, which comes with the package" in err
    model = SentenceTransformer(str(hf_echo.pretrained("echo-static")), device="cpu")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.encode(list(TEXTS.values())), atol=1e-6)
    run("--model", "echo-static", texts, tmp_path / "named.npy")
    np.testing.assert_allclose(np.load(tmp_path / "named.npy"), np.load(tmp_path / "out.npy"), atol=1e-6)


def test_an_unknown_checkpoint_is_named():
    with pytest.raises(
        ValueError, match="no checkpoint 'echo-micro' comes with the package; there are echo-static"
    ):
        hf_echo.pretrained("echo-micro")
