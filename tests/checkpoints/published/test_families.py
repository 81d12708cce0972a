"""Published embedders keep their vectors as Echo checkpoints and as stock folders, or are refused
by name.

The truth is the original folder, opened by sentence-transformers.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints import convert_encoder
from hf_echo.export import export_checkpoint
from hf_echo.export.graphs import run_graph
from hf_echo.export.stock import open_stock
from hf_echo.inference.any_encoder import any_encoder, is_echo
from hf_echo.modeling import EchoEncoder

from .families import FAMILIES, TEXTS, write_family

COMMAND = "convert encoder"
KEPT = [
    pytest.param(name, marks=pytest.mark.slow if family.like else ())
    for name, family in FAMILIES.items()
    if family.refused is None
]
REFUSED = [name for name, family in FAMILIES.items() if family.refused is not None]
LEAST_COSINE = 0.9999


@dataclass
class Converted:
    """The folders of a family: as published, as an Echo checkpoint, exported from it;
    and the first two opened."""

    source: Path
    echo: Path
    stock: Path
    original: SentenceTransformer
    echo_model: SentenceTransformer


@pytest.fixture(scope="module", params=KEPT)
def family(request, tmp_path_factory) -> Converted:
    place = tmp_path_factory.mktemp("family")
    source = write_family(request.param, place / "source")
    echo = convert_encoder(source, place / "echo")
    export_checkpoint(echo, place / "stock", to="stock")
    original, echo_model = (
        SentenceTransformer(str(folder), device="cpu") for folder in (source, echo)
    )
    return Converted(source, echo, place / "stock", original, echo_model)


def least_cosine(vectors: np.ndarray, expected: np.ndarray) -> float:
    assert vectors.shape == expected.shape
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
    return float(((vectors * expected).sum(1) / lengths).min())


def assert_same(converted: SentenceTransformer, original: SentenceTransformer) -> None:
    """Vectors of texts of several lengths, padded, and everything that a user sets or reads."""
    # Direction and length of the vectors of the published model.
    expected = original.encode(TEXTS)
    vectors = converted.encode(TEXTS)
    assert least_cosine(vectors, expected) >= LEAST_COSINE
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=1), np.linalg.norm(expected, axis=1), rtol=1e-3
    )
    some_texts = TEXTS[:8]
    # Prompts: one by name, one as text, and the two of queries and documents.
    for prompt in ("", "other: "):
        expected = original.encode(some_texts, prompt=prompt)
        assert least_cosine(converted.encode(some_texts, prompt=prompt), expected) >= LEAST_COSINE
    query = original.encode_query(some_texts)
    assert least_cosine(converted.encode_query(some_texts), query) >= LEAST_COSINE
    document = original.encode_document(some_texts)
    assert least_cosine(converted.encode_document(some_texts), document) >= LEAST_COSINE
    # What a user sets.
    for name in ("similarity_fn_name", "truncate_dim", "default_prompt_name"):
        assert getattr(converted, name) == getattr(original, name)
    for name, prompt in original.prompts.items():
        assert (converted.prompts.get(name) or "") == (prompt or "")


def test_the_checkpoint_is_the_original(family):
    assert_same(family.echo_model, family.original)


def test_the_exported_folder_is_the_original(family):
    assert_same(SentenceTransformer(str(family.stock), device="cpu"), family.original)


def test_hf_echo_gives_the_same_vectors(family):
    assert is_echo(str(family.echo))
    vectors = any_encoder(str(family.echo), dtype="fp32")(TEXTS)
    assert least_cosine(vectors, family.original.encode(TEXTS)) >= LEAST_COSINE


def test_auto_model_gives_the_same_vectors_without_a_prompt(family):
    model = AutoModel.from_pretrained(family.echo)
    tokenizer = AutoTokenizer.from_pretrained(family.echo)
    assert type(model) is EchoEncoder
    batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        vectors = model(**batch).sentence_embedding.numpy()
    # The vectors of the published model, by sentence-transformers.
    expected = family.original.encode(TEXTS, prompt="")
    assert least_cosine(vectors[:, : expected.shape[1]], expected) >= LEAST_COSINE


@pytest.mark.slow
def test_onnx_gives_the_same_vectors(family, tmp_path):
    export_checkpoint(family.echo, tmp_path / "onnx", to="onnx")
    batch = open_stock(family.echo).batch(TEXTS)
    vectors = run_graph(tmp_path / "onnx" / "onnx" / "sentence_embedding.onnx", batch)
    expected = family.original.encode(TEXTS)
    assert least_cosine(vectors[:, : expected.shape[1]], expected) >= LEAST_COSINE


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_place_is_refused_by_name(run, tmp_path, name):
    source = write_family(name, tmp_path / "source")
    code, _, err = run(source, tmp_path / "out")
    *_, last_line = err.splitlines()  # transformers may show how it reads the weights
    assert code == 2
    assert last_line.startswith("hf-echo: ")
    assert FAMILIES[name].refused in last_line
    assert not (tmp_path / "out").exists()
