"""`hf-echo encode` with a model that is not an Echo checkpoint:
its options are followed or refused."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from hf_echo.inference.any_encoder import any_encoder

COMMAND = "encode"
TEXTS = ["un chat rouge", "deux chien", "un chat " * 6]


@pytest.fixture(scope="module")
def bert(toy, tmp_path_factory) -> str:
    """XLM-R of one layer, of at most 8 tokens."""
    folder = tmp_path_factory.mktemp("bert")
    tokenizer = toy.plain_tokenizer()
    toy.save(folder / "bert", toy.plain_encoder(tokenizer), tokenizer)
    transformer = Transformer(str(folder / "bert"), max_seq_length=8)
    SentenceTransformer(modules=[transformer, Pooling(32)]).save(str(folder / "st"))
    return str(folder / "st")


@pytest.fixture
def batches(monkeypatch):
    """The batch size and the dtype of each call of SentenceTransformer.encode."""
    encode = SentenceTransformer.encode
    seen = []

    def noting(self, texts, batch_size=32, **options):
        seen.append((batch_size, self.dtype))
        return encode(self, texts, batch_size=batch_size, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", noting)
    return seen


def test_a_budget_of_tokens_becomes_a_batch_size(bert, batches):
    """20 tokens hold two texts of 8; the vectors are those of sentence-transformers."""
    vectors = any_encoder(bert, max_tokens=20)(TEXTS)

    assert batches == [(2, torch.float32)]
    np.testing.assert_allclose(vectors, SentenceTransformer(bert).encode(TEXTS), atol=1e-6)


def test_a_text_that_is_cut_is_named(bert, caplog):
    any_encoder(bert)(TEXTS)

    assert "1 of 3 texts are longer than 8 tokens, the first is row 3" in caplog.text


def test_a_dtype_is_that_of_the_model(bert, batches):
    """Its vectors are float32 still, and near those of float32."""
    vectors = any_encoder(bert, dtype="bf16")(TEXTS)

    assert batches == [(32, torch.bfloat16)]
    assert vectors.dtype == np.float32
    distance = np.abs(vectors - SentenceTransformer(bert).encode(TEXTS)).max()
    assert 0 < distance < 0.1


@pytest.mark.parametrize("texts", [["a", None], [("a", "b")], ["a", "\ud800"], [b"a"]])
def test_what_is_no_text_is_refused(bert, texts):
    with pytest.raises(ValueError, match="text in row [12] "):
        any_encoder(bert)(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on-long", "error"], "1 of 3 texts are longer than 8 tokens, the first is row 3"),
        (["--on-long", "split"], "is not an Echo checkpoint give 'warn' or 'error'"),
        (["--dtype", "fp64"], "it must be one of auto"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(run, bert, tmp_path, options, message):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n")

    code, _, err = run("--model", bert, tmp_path / "a.txt", tmp_path / "o.npy", *options)

    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "o.npy").exists()
