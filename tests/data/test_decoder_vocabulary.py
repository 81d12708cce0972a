"""A decoder with only the first part of the vocabulary: its inputs and labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_echo.data.collators import IGNORE, TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel

SIZE = 330


@pytest.fixture
def batches(toy, toy_tokenizer):
    """(the whole vocabulary, the first SIZE ids), English targets and a Russian one."""
    rows = [row | {"hard_negatives": []} for row in toy.parallel_rows()[:6]]
    rows[2] |= {"target": "кот спит", "target_lang": "rus_Cyrl"}
    data = tokenize_parallel(Dataset.from_list(rows), toy_tokenizer, progress=False)
    collators = [TranslationCollator(toy_tokenizer, encode_targets=True, decoder_vocab_size=s) for s in (None, SIZE)]
    return [collator([data[i] for i in range(len(data))]) for collator in collators]


def test_unknown_ids(batches, toy_tokenizer):
    whole, small = batches
    for name, unknown in (("labels", IGNORE), ("decoder_input_ids", toy_tokenizer.sep_token_id)):
        want = [[i if i < SIZE else unknown for i in row] for row in whole[name].tolist()]
        assert small[name].tolist() == want != whole[name].tolist()
    assert (small["labels"][2] == IGNORE).sum() > (whole["labels"][2] == IGNORE).sum()


def test_the_encoder_reads_all(batches):
    whole, small = batches
    assert whole["input_ids"].max() >= SIZE
    for name in set(whole) - {"labels", "decoder_input_ids"}:
        assert torch.equal(small[name], whole[name]), name


def test_a_vocabulary_that_holds_everything(toy_tokenizer, toy_data):
    rows = [toy_data[i] for i in range(5)]
    whole, same = (TranslationCollator(toy_tokenizer, decoder_vocab_size=s)(rows) for s in (None, len(toy_tokenizer)))
    assert all(np.array_equal(same[name], whole[name]) for name in whole)
