"""Stage 0 with character n-grams: vectors that tokens share while they learn, folded into one vector a token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hf_echo.inference import encode
from hf_echo.stages import StaticConfig, StaticTrainer, static_encoder
from hf_echo.stages.static_embeddings import StaticEmbeddings
from hf_echo.vocabulary.ngrams import token_ngrams

pytestmark = pytest.mark.trains

NGRAMS = [[0, 2], [], [1], [0, 1, 3], [], [3]]


@pytest.fixture
def bag():
    torch.manual_seed(0)
    bag = StaticEmbeddings(6, 4, NGRAMS)
    bag.log_weight.data.normal_()
    return bag


def by_hand(bag, ids):
    own, weight = bag.embedding.weight.detach().numpy(), np.exp(bag.log_weight.detach().numpy())
    shared = bag.ngram_embedding.weight.detach().numpy()
    means = [np.mean([shared[n] for n in NGRAMS[i]], axis=0) if NGRAMS[i] else np.zeros(4) for i in ids]
    return np.stack([(own[i] + mean) * weight[i] for i, mean in zip(ids, means)])


def test_vectors(bag):
    ids = [3, 0, 1, 1, 4, 5, 2]
    np.testing.assert_allclose(bag.vectors(torch.tensor(ids)).detach(), by_hand(bag, ids), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(bag.weighted(), by_hand(bag, range(6)), rtol=1e-6, atol=1e-7)
    sums = bag(torch.tensor(ids), torch.tensor([0, 2, 3])).detach()
    want = [by_hand(bag, ids[a:b]).sum(0) for a, b in ((0, 2), (2, 3), (3, 7))]
    np.testing.assert_allclose(sums, want, rtol=1e-5, atol=1e-6)


def test_gradient_of_a_shared_ngram(bag):
    """N-gram 0 is half of token 0 and a third of token 3; what fills up short rows never learns."""
    bag.log_weight.data.zero_()
    bag(torch.tensor([0, 3]), torch.tensor([0])).sum().backward()
    gradient = bag.ngram_embedding.weight.grad
    np.testing.assert_allclose(gradient[:, 0], [1 / 2 + 1 / 3, 1 / 3, 1 / 2, 1 / 3, 0], rtol=1e-6)
    assert not bag.ngram_embedding.weight[-1].any()


def test_no_token_has_any():
    bag = StaticEmbeddings(3, 4, [[], [], []])
    torch.testing.assert_close(bag.weighted(), bag.embedding.weight.detach())


def test_start_from_keeps_the_other_bag(bag):
    vectors = torch.randn(6, 4)
    other = StaticEmbeddings(6, 4, NGRAMS)
    other.start_from(vectors)
    assert torch.equal(other.weighted(), vectors)
    other(torch.arange(6), torch.tensor([0])).sum().backward()
    assert other.ngram_embedding.weight.grad[:4].abs().min() > 0  # silent, not dead


@pytest.fixture
def make(toy_data, toy_tokenizer, tmp_path):
    def make(start=None, **fields):
        options = dict(
            rows=64,
            dim=16,
            max_steps=30,
            learning_rate=2e-2,
            logging_steps=5,
            save_strategy="no",
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        args = StaticConfig(str(tmp_path), **options | fields)
        torch.manual_seed(0)
        return StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, start=start)

    return make


def test_trained(make, toy_tokenizer):
    trainer = make(char_ngrams=True)
    bag, ngrams = trainer.model, token_ngrams(toy_tokenizer)
    for i in (150, 300, 399):
        row = bag.ngrams[i]
        assert row[row != bag.ngram_embedding.padding_idx].tolist() == ngrams[i]
    before = bag.ngram_embedding.weight.detach().clone()
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < 0.5 * losses[0] and not torch.equal(bag.ngram_embedding.weight, before)
    encoder = static_encoder(bag, toy_tokenizer)
    assert sum(p.numel() for p in encoder.parameters()) == 400 * 16 + 16 * 16  # as large as without n-grams
    ids = torch.tensor(toy_tokenizer("un chat", lang="fra_Latn")["input_ids"])
    want = bag(ids, torch.tensor([0]))[0] / len(ids)
    have = encode(encoder, toy_tokenizer, ["un chat"], "fra_Latn")[0]
    np.testing.assert_allclose(have, want.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("char_ngrams", [False, True])
def test_it_goes_on_from_a_whitened_bag(make, toy_tokenizer, char_ngrams):
    """What stands in the projection is not lost: the vectors are those behind it."""
    start = static_encoder(StaticEmbeddings(len(toy_tokenizer), 16), toy_tokenizer)
    start.projection.weight.data.add_(torch.randn(16, 16))
    again = static_encoder(make(start, char_ngrams=char_ngrams).model, toy_tokenizer)
    texts = ["un chat", "Кот спит", "zebra"]
    have, want = (encode(e, toy_tokenizer, texts) for e in (again, start))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
