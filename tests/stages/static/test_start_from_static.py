"""An encoder that starts from static embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hf_echo.inference import encode
from hf_echo.stages import start_from_static, static_encoder

pytestmark = pytest.mark.trains


STATIC = dict(hidden_size=16, embedding_size=16, head_dim=8, pooling="mean", final_norm=False, num_hidden_layers=2)


TEXTS = ["un chat rouge dort.", "", "one two <SEP> nine", "Кот!  спит", "zebra 12 ∑ éèê 猫", "a" * 40]


@pytest.mark.parametrize("bias", [False, True])
def test_start_from_static(static, toy, toy_tokenizer, bias):
    """Before a step is trained the encoder is the static, for any text; each layer can learn."""
    model = toy.make_model(toy_tokenizer, **STATIC, attention_bias=bias, mlp_bias=bias)
    for name, weight in model.encoder.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    teacher = static_encoder(static, toy_tokenizer)
    assert start_from_static(model, teacher) is model
    rng = np.random.default_rng(0)
    texts = TEXTS + ["".join(map(chr, rng.integers(32, 0x2000, size=rng.integers(1, 40)))) for _ in range(50)]
    have, want = (encode(m, toy_tokenizer, texts, None, on_long="split") for m in (model, teacher))
    np.testing.assert_allclose(have, want, atol=1e-6)
    cosine = F.cosine_similarity(torch.from_numpy(have), torch.from_numpy(want))
    assert cosine.min() > 1 - 1e-5

    batch = toy_tokenizer(TEXTS[:1], lang="fra_Latn", return_tensors="pt")
    model(**batch).sentence_embedding.square().sum().backward()
    for layer in model.encoder.layers:  # what is zero gets a gradient, so the layer wakes up with the first step
        assert layer.self_attn.o_proj.weight.grad.abs().max() > 0
        assert layer.mlp.down_proj.weight.grad.abs().max() > 0


def test_short_vectors_are_lifted(static, toy, toy_tokenizer):
    """The same embeddings from vectors of a size that layers can work with."""
    short = static_encoder(static, toy_tokenizer)
    short.embed_tokens.weight.data *= 0.001
    model = start_from_static(toy.make_model(toy_tokenizer, **STATIC), short)
    assert float(model.encoder.embed_tokens.weight.detach().square().mean().sqrt()) == pytest.approx(0.1, rel=1e-4)
    have, want = (encode(m, toy_tokenizer, TEXTS, None, on_long="split") for m in (model, short))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-9)


def test_start_from_static_gives_the_decoder_its_words(static, toy, toy_tokenizer):
    """Directions of the static, size of a fresh decoder: the output is tied, long vectors would be too sure."""
    model = start_from_static(toy.make_model(toy_tokenizer, **STATIC), static_encoder(static, toy_tokenizer))
    words, vectors = model.decoder.model.embed_tokens.weight, static.weighted()
    assert model.decoder.lm_head.weight is words
    assert F.cosine_similarity(words, vectors).min() > 1 - 1e-5
    torch.testing.assert_close(words.norm(dim=1), torch.full((len(words),), 0.02 * 16**0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 32}, r"static_embeddings are \(400, 16\) \(vocabulary, size\), the encoder \(400, 32\)"),
        ({"pooling": "cls"}, "needs pooling='mean' and final_norm=False"),
        ({"final_norm": True}, "needs pooling='mean' and final_norm=False"),
    ],
)
def test_an_encoder_that_cannot_be_static(static, toy, toy_tokenizer, changes, message):
    model = toy.make_model(toy_tokenizer, **STATIC | changes)
    with pytest.raises(ValueError, match=message):
        start_from_static(model, static_encoder(static, toy_tokenizer))


def test_words_of_the_sentence_are_likely_from_the_start(static, toy, toy_tokenizer):
    """With as many key-value heads as heads the embedding reaches the output: a word's own token leads there."""
    toy_static = static_encoder(static, toy_tokenizer)
    model = start_from_static(toy.make_model(toy_tokenizer, **STATIC | dict(num_key_value_heads=2)), toy_static).eval()
    tokens = torch.arange(100, 160)
    vectors = F.normalize(static.weighted()[tokens], dim=1)
    start = torch.full((len(tokens), 1), toy_tokenizer.bos_token_id)

    def ranks(embedding):
        with torch.no_grad():
            logits = model.decoder(decoder_input_ids=start, sentence_embedding=embedding).logits[:, 0]
        return (logits > logits.gather(1, tokens[:, None])).sum(1).float()

    assert ranks(vectors).median() < 5  # of 400
    assert ranks(torch.zeros_like(vectors)).median() > 100
