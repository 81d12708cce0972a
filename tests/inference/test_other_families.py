"""`hf-echo encode` with a model that is not an Echo checkpoint: its options are followed or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from hf_echo.inference.any_encoder import any_encoder

COMMAND = "encode"
TEXTS = ["a b c", "c b", "a a a b b b c c c a a a"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> str:
    """A BERT of a few weights, of at most 8 tokens."""
    place = tmp_path_factory.mktemp("bert")
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[PAD]", "[UNK]", *"abc"])}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    BertModel(config).save_pretrained(place / "bert")
    tokenizer.save_pretrained(place / "bert")
    transformer = Transformer(str(place / "bert"), max_seq_length=8)
    SentenceTransformer(modules=[transformer, Pooling(8)]).save(str(place / "st"))
    return str(place / "st")


def test_options_are_followed(bert, caplog, monkeypatch):
    want = SentenceTransformer(bert).encode(TEXTS)
    batches = []
    real = SentenceTransformer.encode
    monkeypatch.setattr(
        SentenceTransformer,
        "encode",
        lambda self, texts, batch_size, **rest: (
            batches.append((batch_size, self.dtype)) or real(self, texts, batch_size=batch_size, **rest)
        ),
    )
    np.testing.assert_allclose(any_encoder(bert, max_tokens=20)(TEXTS), want, atol=1e-6)
    assert "1 of 3 texts are longer than 8 tokens, the first is row 3" in caplog.text
    half = any_encoder(bert, dtype="bf16")(TEXTS)
    assert batches == [(2, torch.float32), (32, torch.bfloat16)]
    assert half.dtype == np.float32 and 0 < np.abs(half - want).max() < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on-long", "error"], "1 of 3 texts are longer than 8 tokens, the first is row 3"),
        (["--on-long", "split"], "is not an Echo checkpoint give 'warn' or 'error'"),
        (["--on-long", "cut"], "it must be one of warn, error, split"),
        (["--dtype", "fp64"], "it must be one of auto"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(run, bert, tmp_path, options, message):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS) + "\n")
    code, _, err = run("--model", bert, tmp_path / "a.txt", tmp_path / "o.npy", *options)
    assert code == 2 and message in err and "Traceback" not in err
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("texts", [["a", None], [("a", "b")], ["a", "\ud800"], [b"a"]])
def test_what_is_not_text_is_refused(bert, texts):
    with pytest.raises(ValueError, match="text in row [12] "):
        any_encoder(bert)(texts)
