"""Vocabulary of one language: shared tokens keep their embeddings, new ones are combinations of shared ones."""

import random

import pytest
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import PreTrainedTokenizerFast

from hf_echo.vocabulary.match import language_vocabulary

from ..refusals import refusals

OLD = "haus katze rot hund".split()
NEW = [*OLD, "wasser", "brot"]


@pytest.fixture(scope="module")
def old() -> PreTrainedTokenizerFast:
    trained = BertWordPieceTokenizer()
    trained.train_from_iterator([*OLD * 3, "wasserbrot", "wabrotasserb"], vocab_size=60, show_progress=False)
    special = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **special)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(NEW, k=6)) for _ in range(100)]


def test_shared_tokens_keep_their_rows_and_new_ones_are_combinations(old, texts):
    embeddings = torch.randn(len(old), 8, generator=torch.Generator().manual_seed(0))
    new, rows = language_vocabulary(old, embeddings, texts, 80)
    assert rows.shape == (len(new), 8)
    before, after = old.get_vocab(), new.get_vocab()
    shared = set(before) & set(after)
    assert {"haus", "katze", "[CLS]", "[MASK]"} <= shared
    for token in shared:
        assert torch.equal(rows[after[token]], embeddings[before[token]])
    assert new.tokenize("wasser") == ["wasser"] and old.tokenize("wasser") != ["wasser"]
    anchors = torch.stack([rows[after[token]] for token in shared])
    made = rows[after["wasser"]]
    assert (made >= anchors.min(0).values - 1e-5).all() and (made <= anchors.max(0).values + 1e-5).all()
    assert new("haus")["input_ids"][0] == new.cls_token_id or new.mask_token_id is not None


def refuse(texts, size, old):
    language_vocabulary(old, torch.randn(len(old), 8), texts, size)


SMALL, SHORT = "vocab_size=5 must be above the 5 special tokens", "give more text"
test_bad_input = refusals((NEW, 5, SMALL), (["haus"], 80, SHORT), call=refuse)
