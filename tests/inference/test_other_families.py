"""`hf-echo encode` with a model that is not an Echo checkpoint: its options are followed or refused."""

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
    place = tmp_path_factory.mktemp("bert")
    tokenizer = toy.plain_tokenizer()
    transformer = Transformer(
        str(toy.save(place / "bert", toy.plain_encoder(tokenizer), tokenizer)), max_seq_length=8
    )
    SentenceTransformer(modules=[transformer, Pooling(32)]).save(str(place / "st"))
    return str(place / "st")


def test_options_are_followed(bert, caplog, monkeypatch):
    want = SentenceTransformer(bert).encode(TEXTS)
    batches = []
    real = SentenceTransformer.encode

    def watched(self, texts, batch_size, **options):
        batches.append((batch_size, self.dtype))
        return real(self, texts, batch_size=batch_size, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", watched)
    np.testing.assert_allclose(any_encoder(bert, max_tokens=20)(TEXTS), want, atol=1e-6)
    assert "1 of 3 texts are longer than 8 tokens, the first is row 3" in caplog.text
    half = any_encoder(bert, dtype="bf16")(TEXTS)
    assert batches == [(2, torch.float32), (32, torch.bfloat16)]
    assert half.dtype == np.float32
    assert 0 < np.abs(half - want).max() < 0.1
    for texts in (["a", None], [("a", "b")], ["a", "\ud800"], [b"a"]):
        pytest.raises(ValueError, any_encoder(bert), texts).match("text in row [12] ")


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
