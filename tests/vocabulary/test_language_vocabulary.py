"""Vocabulary of one language: shared tokens keep their embeddings,
new ones are combinations of shared ones."""

import random

import pytest
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import PreTrainedTokenizerFast

from hf_echo.vocabulary.initialise import initialise, train_auxiliary
from hf_echo.vocabulary.match import language_vocabulary, match_vocabularies

from ..refusals import refusals

OLD = ["haus", "katze", "rot", "hund"]
NEW = [*OLD, "wasser", "brot"]


@pytest.fixture(scope="module")
def old() -> PreTrainedTokenizerFast:
    trained = BertWordPieceTokenizer()
    trained.train_from_iterator(
        [*OLD * 3, "wasserbrot", "wabrotasserb"], vocab_size=60, show_progress=False
    )
    special = dict(
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **special)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(NEW, k=6)) for _ in range(100)]


@pytest.fixture(scope="module")
def german(old, texts):
    """(old embeddings, new tokenizer, its embeddings)"""
    embeddings = torch.randn(len(old), 8, generator=torch.Generator().manual_seed(0))
    return embeddings, *language_vocabulary(old, embeddings, texts, 80)


def test_shared_tokens_keep_their_rows(old, german):
    embeddings, tokenizer, rows = german
    assert rows.shape == (len(tokenizer), 8)
    old_ids = old.get_vocab()
    new_ids = tokenizer.get_vocab()
    shared = old_ids.keys() & new_ids.keys()
    assert {"haus", "katze", "[CLS]", "[MASK]"} <= shared
    for token in shared:
        assert torch.equal(rows[new_ids[token]], embeddings[old_ids[token]])


def test_a_new_token_is_a_combination_of_shared_ones(old, german):
    _, tokenizer, rows = german
    assert old.tokenize("wasser") != ["wasser"]
    assert tokenizer.tokenize("wasser") == ["wasser"]
    new_ids = tokenizer.get_vocab()
    shared_rows = torch.stack(
        [rows[new_ids[token]] for token in old.get_vocab().keys() & new_ids.keys()]
    )
    row = rows[new_ids["wasser"]]
    assert (row >= shared_rows.min(0).values - 1e-5).all()
    assert (row <= shared_rows.max(0).values + 1e-5).all()


def test_auxiliary_vectors_have_300_dimensions(old):
    """Modular B.2. Of 150 words that occur often, 100 dimensions would be a cut."""
    draw = random.Random(1)
    syllables = ["ba", "do", "ki", "lu", "me", "no", "pi", "ra", "su", "te", "vo", "wa", "zi"]
    words = [a + b for a in syllables for b in syllables][:150]
    texts = [" ".join([*draw.choices(words, k=9), *draw.choices(OLD, k=3)]) for _ in range(600)]
    embeddings = torch.randn(len(old), 8, generator=torch.Generator().manual_seed(0))

    tokenizer, rows = language_vocabulary(old, embeddings, texts, 260)

    match, _ = match_vocabularies(old, tokenizer)
    vectors = train_auxiliary(texts, tokenizer, dim=300)
    assert (vectors != 0).any(1).sum() > 100
    torch.testing.assert_close(rows, initialise(embeddings, match, "focus", auxiliary=vectors))


def refuse(texts, size, old):
    language_vocabulary(old, torch.randn(len(old), 8), texts, size)


SMALL, SHORT = "vocab_size=5 must be above the 5 special tokens", "give more text"
test_bad_input = refusals((NEW, 5, SMALL), (["haus"], 80, SHORT), call=refuse)
