"""ONNX and OpenVINO against torch: any number and length of texts, padding on either side,
8 bits."""

import json
import os
import random

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from hf_echo.export import export_checkpoint, graphs
from hf_echo.export.stock import open_stock
from hf_echo.hub.release import release_checkpoint
from hf_echo.hub.upload_checks import contents_of
from hf_echo.inference.encode import encode, load_encoder
from hf_echo.utils.vectors import unit_length

pytestmark = pytest.mark.slow
TEXTS = ["the cat", "one red cat sleeps.", "日本 語　é x", "кот спит " * 30, "a", "", " x  y "]


@pytest.fixture(scope="module")
def onnx_folders(checkpoints, tmp_path_factory):
    place = tmp_path_factory.mktemp("onnx")
    for name, folder in checkpoints.items():
        assert export_checkpoint(folder, place / name, to="onnx")["cosine_8_bits"] >= 0.99
    return {name: place / name for name in checkpoints}


@pytest.mark.parametrize("name", ["bert", "dense", "llama"])
def test_onnx_graphs_compute_what_torch_does(checkpoints, onnx_folders, name):
    import onnxruntime

    encoder, tokenizer = load_encoder(checkpoints[name], dtype="fp32")
    stock = open_stock(checkpoints[name])
    place = onnx_folders[name] / "onnx"
    shuffled = random.Random(0)
    for size in (1, 2, 7):
        texts = shuffled.sample(TEXTS[:5] + TEXTS[6:], k=min(size, 6))
        batch = stock.batch(texts)
        # torch computes the truth; the graphs run in ONNX Runtime.
        expected = unit_length(encode(encoder, tokenizer, texts))
        np.testing.assert_allclose(
            graphs.run_graph(place / "sentence_embedding.onnx", batch), expected, atol=1e-5
        )
        longer = {
            key: torch.nn.functional.pad(value, (0, 5), value=0) for key, value in batch.items()
        }
        longer["input_ids"][:, -5:] = tokenizer.pad_token_id
        if longer["input_ids"].shape[1] <= stock.max_length:
            np.testing.assert_allclose(
                graphs.run_graph(place / "sentence_embedding.onnx", longer), expected, atol=1e-5
            )
        # The graph of states gives the same vectors when torch pools them.
        session = onnxruntime.InferenceSession(place / "model.onnx")
        inputs = {k: v.numpy() for k, v in batch.items()}
        (states,) = session.run(["last_hidden_state"], inputs)
        with torch.no_grad():
            pooled = encoder.pool(torch.from_numpy(states), batch["attention_mask"]).numpy()
        np.testing.assert_allclose(unit_length(pooled), expected, atol=1e-5)
        small = graphs.run_graph(place / "sentence_embedding_quantized.onnx", batch)
        assert (small * expected).sum(1).mean() > 0.98


def test_onnx_files_have_the_names_that_others_read(onnx_folders):
    import onnx

    folder = onnx_folders["bert"]
    assert not (folder / "model.safetensors").exists()
    for file, outputs in (("model", 1), ("model_quantized", 1), ("sentence_embedding", 2)):
        model = onnx.load(folder / "onnx" / f"{file}.onnx")
        onnx.checker.check_model(model)
        assert [value.name for value in model.graph.input] == ["input_ids", "attention_mask"]
        assert [v.name for v in model.graph.output] == ["sentence_embedding", "last_hidden_state"][
            -outputs:
        ]
        shape = model.graph.input[0].type.tensor_type.shape.dim
        assert all(dim.dim_param and not dim.dim_value for dim in shape)
        assert b"site-packages" not in model.SerializeToString()
    assert json.loads((folder / "config.json").read_text())["model_type"] == "xlm-roberta"


def test_openvino_computes_what_torch_does(checkpoints, tmp_path):
    import openvino

    stock = open_stock(checkpoints["bert"])
    export_checkpoint(checkpoints["bert"], tmp_path / "out", to="openvino")
    file = tmp_path / "out" / "openvino" / "openvino_model.xml"
    assert str(tmp_path) not in file.read_text(encoding="utf-8")
    # In float32 and as a bf16 machine computes.
    for hint, tolerance in (("f32", 1e-4), ("bf16", 0.05)):
        model = openvino.compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": hint})
        assert [port.any_name for port in model.inputs] == ["input_ids", "attention_mask"]
        for texts in (TEXTS[:1], TEXTS):
            batch = stock.batch(texts)
            states = model({key: value.numpy() for key, value in batch.items()})[
                "last_hidden_state"
            ]
            # torch computes the truth.
            with torch.no_grad():
                expected = stock.backbone(**batch).last_hidden_state.numpy()
            seen = batch["attention_mask"].numpy().astype(bool)
            assert np.abs(states - expected)[seen].max() < tolerance * np.abs(expected).max()


def test_8_bits_that_lose_too_much_are_left_out(checkpoints, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(graphs, "LEAST_COSINE", 1.1)
    cosine = export_checkpoint(checkpoints["llama"], tmp_path / "out", to="onnx")["cosine_8_bits"]
    assert (
        f"no 8-bit files: their mean cosine to the float32 embeddings is {cosine:.4f}, below 1.1"
        in caplog.text
    )
    names = sorted(file.name for file in (tmp_path / "out" / "onnx").iterdir())
    assert names == ["model.onnx", "sentence_embedding.onnx"]


@pytest.fixture
def static(checkpoints, tmp_path):
    """(report, the SentenceTransformer of static embeddings) of an encoder"""
    report = export_checkpoint(checkpoints["llama"], tmp_path / "out", to="static")
    return report, SentenceTransformer(str(tmp_path / "out"), device="cpu")


def test_static_embeddings_know_no_word_order(static):
    one, other = static[1].encode(["one red cat", "cat one red"])

    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.linalg.norm(one) > 0


def test_the_report_of_static_embeddings_compares_with_the_model(static, checkpoints):
    report, model = static
    tokens = load_encoder(checkpoints["llama"])[1]

    assert set(report) == {"xsim", "xsim_of_model", "dimensions", "tokens"}
    assert report["dimensions"] == len(model.encode("one red cat")) <= 32
    assert report["tokens"] <= len(tokens)


def test_rare_tokens_of_a_unigram_tokenizer_count_more(checkpoints, tmp_path):
    """By the probabilities that the tokenizer states; its vocabulary may stand in any order."""
    from model2vec.distill import distill_from_model

    export_checkpoint(checkpoints["bert"], tmp_path / "out", to="static")
    vectors = (
        SentenceTransformer(str(tmp_path / "out"), device="cpu")[0]
        .embedding.weight.detach()
        .numpy()
    )
    # model2vec without weights, then the weights of its formula by hand.
    stock = open_stock(checkpoints["bert"])
    options = dict(device="cpu", quantize_to="float32", sif_coefficient=None)
    plain = distill_from_model(stock.backbone, stock.tokenizer, **options)
    words = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    weights = np.array([1e-4 / (1e-4 + np.exp(score)) for _, score in words])
    np.testing.assert_allclose(vectors, plain.embedding * weights[:, None], rtol=1e-4, atol=1e-9)


def test_what_cannot_be_traced_is_refused_in_one_line(checkpoints, tmp_path, monkeypatch, capfd):
    stock = open_stock(checkpoints["dense"])
    monkeypatch.setattr(
        stock.backbone, "forward", lambda input_ids, **_: stock if input_ids.sum() > 9 else None
    )
    capfd.readouterr()
    with pytest.raises(
        ValueError,
        match="^a backbone of type 'xlm-roberta' has no ONNX form: Could not guard[^\n]+$",
    ):
        graphs.export_graph(stock, tmp_path / "a.onnx")
    assert not capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_release_has_graphs_beside_it(checkpoints, tmp_path):
    out = release_checkpoint(checkpoints["bert"], tmp_path / "out", also="onnx")
    encoder, tokenizer = load_encoder(out, dtype="fp32")
    texts = ["query: " + text for text in TEXTS[:2]]
    batch = AutoTokenizer.from_pretrained(out / "onnx")(texts, padding=True, return_tensors="pt")
    vectors = graphs.run_graph(out / "onnx" / "sentence_embedding.onnx", batch)
    # The library's vectors; the prompt stands in the texts here.
    np.testing.assert_allclose(
        vectors, unit_length(encode(encoder, tokenizer, TEXTS[:2])), atol=1e-5
    )
    header = yaml.safe_load((out / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert "onnx" in header["tags"]
    assert {"model_quantized.onnx", "modules.json"} < set(os.listdir(out / "onnx"))
    assert not contents_of(out).left_out
