"""Static embeddings open in plain sentence-transformers; a text's embedding is the mean of its token vectors."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from hf_echo.checkpoints import export_static
from hf_echo.modeling import EchoConfig, EchoEncoder
from hf_echo.stages import static_encoder
from hf_echo.stages.static_embeddings import StaticEmbeddings

pytestmark = pytest.mark.trains

COMMAND = "convert"
TEXTS = ["Un chat rouge dort.", "two cats", "Кот спит", "x"]


@pytest.fixture(scope="module")
def static(toy_tokenizer, tmp_path_factory):
    torch.manual_seed(0)
    static = StaticEmbeddings(len(toy_tokenizer), 16)
    static.log_weight.data.normal_()
    folder = tmp_path_factory.mktemp("static")
    static_encoder(static, toy_tokenizer).save_pretrained(folder)
    toy_tokenizer.save_pretrained(folder)
    return folder, static.weighted()


def test_embeddings_are_means_of_the_vectors(static, toy_tokenizer, tmp_path):
    folder, vectors = static
    export_static(folder, tmp_path / "static")
    model = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    assert [type(module).__name__ for module in model] == ["StaticEmbedding", "Normalize"]
    ids = toy_tokenizer.text_ids(TEXTS)
    expected = np.stack([vectors[torch.tensor(i)].mean(0).numpy() for i in ids])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = model.encode(TEXTS)
    assert np.abs(found - expected).max() < 0.02  # 8 bits
    assert (found * expected).sum(1).min() > 0.9995
    # One byte a number, a scale a row.
    size = (tmp_path / "static" / "model.safetensors").stat().st_size
    assert size < len(toy_tokenizer) * (16 + 4) + 1000


def test_it_opens_without_this_package(static, run, tmp_path):
    folder, _ = static
    run("static", folder, tmp_path / "static")
    code = (
        "import sys; sys.modules['hf_echo'] = None\n"
        "from sentence_transformers import SentenceTransformer as S\n"
        f"print(S({str(tmp_path / 'static')!r}, device='cpu').encode(['un chat', '']).shape)"
    )
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # it would import hf_echo
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout.strip() == "(2, 16)", done.stderr


def test_a_model_that_does_not_average_token_vectors_is_refused(refused, toy_tokenizer, tmp_path):
    config = EchoConfig(
        vocab_size=len(toy_tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=16,
    )
    EchoEncoder(config).save_pretrained(tmp_path / "layers")
    toy_tokenizer.save_pretrained(tmp_path / "layers")
    refused("has no static embeddings", "static", tmp_path / "layers", tmp_path / "out")
    assert not (tmp_path / "out").exists()
