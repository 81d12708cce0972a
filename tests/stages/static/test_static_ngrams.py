"""Stage 0 with character n-grams: vectors that tokens share while they learn, folded into one vector a token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hf_echo.inference import encode
from hf_echo.stages import static_encoder
from hf_echo.stages.static_embeddings import StaticEmbeddings
from hf_echo.vocabulary.ngrams import token_ngrams

pytestmark = pytest.mark.trains

NGRAMS = [[0, 2], [], [1], [0, 1, 3], [], [3]]


@pytest.fixture
def static():
    torch.manual_seed(0)
    static = StaticEmbeddings(6, 4, NGRAMS)
    static.log_weight.data.normal_()
    return static


def by_hand(static, ids):
    own, weight = static.embedding.weight.detach().numpy(), np.exp(static.log_weight.detach().numpy())
    shared = static.ngram_embedding.weight.detach().numpy()
    means = [np.mean([shared[n] for n in NGRAMS[i]], axis=0) if NGRAMS[i] else np.zeros(4) for i in ids]
    return np.stack([(own[i] + mean) * weight[i] for i, mean in zip(ids, means)])


def test_vectors(static):
    ids = [3, 0, 1, 1, 4, 5, 2]
    np.testing.assert_allclose(static.vectors(torch.tensor(ids)).detach(), by_hand(static, ids), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(static.weighted(), by_hand(static, range(6)), rtol=1e-6, atol=1e-7)
    sums = static(torch.tensor(ids), torch.tensor([0, 2, 3])).detach()
    want = [by_hand(static, ids[a:b]).sum(0) for a, b in ((0, 2), (2, 3), (3, 7))]
    np.testing.assert_allclose(sums, want, rtol=1e-5, atol=1e-6)


def test_gradient_of_a_shared_ngram(static):
    """N-gram 0 is half of token 0 and a third of token 3; what fills up short rows never learns."""
    static.log_weight.data.zero_()
    static(torch.tensor([0, 3]), torch.tensor([0])).sum().backward()
    gradient = static.ngram_embedding.weight.grad
    np.testing.assert_allclose(gradient[:, 0], [1 / 2 + 1 / 3, 1 / 3, 1 / 2, 1 / 3, 0], rtol=1e-6)
    assert not static.ngram_embedding.weight[-1].any()


def test_no_token_has_any():
    static = StaticEmbeddings(3, 4, [[], [], []])
    torch.testing.assert_close(static.weighted(), static.embedding.weight.detach())


def test_start_from_keeps_other_static(static):
    vectors = torch.randn(6, 4)
    other = StaticEmbeddings(6, 4, NGRAMS)
    other.start_from(vectors)
    assert torch.equal(other.weighted(), vectors)
    other(torch.arange(6), torch.tensor([0])).sum().backward()
    assert other.ngram_embedding.weight.grad[:4].abs().min() > 0  # silent, not dead


def test_trained(make_trainer, toy_tokenizer):
    trainer = make_trainer(char_ngrams=True, max_steps=30)
    static, ngrams = trainer.model, token_ngrams(toy_tokenizer)
    for i in (150, 300, 399):
        row = static.ngrams[i]
        assert row[row != static.ngram_embedding.padding_idx].tolist() == ngrams[i]
    before = static.ngram_embedding.weight.detach().clone()
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < 0.5 * losses[0] and not torch.equal(static.ngram_embedding.weight, before)
    encoder = static_encoder(static, toy_tokenizer)
    assert sum(p.numel() for p in encoder.parameters()) == 400 * 16 + 16 * 16  # as large as without n-grams
    ids = torch.tensor(toy_tokenizer("un chat", lang="fra_Latn")["input_ids"])
    want = static(ids, torch.tensor([0]))[0] / len(ids)
    have = encode(encoder, toy_tokenizer, ["un chat"], "fra_Latn")[0]
    np.testing.assert_allclose(have, want.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("char_ngrams", [False, True])
def test_it_continues_from_whitened_embeddings(make_trainer, toy_tokenizer, char_ngrams):
    """What stands in the projection is not lost: the vectors are those behind it."""
    start = static_encoder(StaticEmbeddings(len(toy_tokenizer), 16), toy_tokenizer)
    start.projection.weight.data.add_(torch.randn(16, 16))
    again = static_encoder(make_trainer(start, char_ngrams=char_ngrams).model, toy_tokenizer)
    texts = ["un chat", "Кот спит", "zebra"]
    have, want = (encode(e, toy_tokenizer, texts) for e in (again, start))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
