"""Collated batches: ids equal EchoTokenizer's, labels are shifted targets, negatives are at their index."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_echo.data.collators import IGNORE, TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel

NAMES = ("source", "source_lang", "target", "target_lang", "provenance", "hard_negatives")
FIRST = ("un chat.", "fra_Latn", "one cat.", "eng_Latn", "mined", ["two cats.", "a <SEP> dog.", "nine"])
SECOND = ("кот </s> спит", "rus_Cyrl", "one cat.", "eng_Latn", "primary", [])
THIRD = ("x = 1", "python", "neuf 猫 oiseaux", "fra_Latn", "code", ["un"])
ROWS = [dict(zip(NAMES, row)) for row in (FIRST, SECOND, THIRD)]


@pytest.fixture
def rows(toy_tokenizer):
    tokenized = tokenize_parallel(Dataset.from_list(ROWS), toy_tokenizer, progress=False)
    return [tokenized[i] for i in range(len(ROWS))]


def unpadded(ids, mask):
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]


def test_encoder_ids_are_the_tokenizers(rows, toy_tokenizer):
    """Sources, then targets, then negatives, each with the ids that the tokenizer gives."""
    batch = TranslationCollator(toy_tokenizer, encode_targets=True, max_negatives=2)(rows)
    texts = [(row[side], row[f"{side}_lang"]) for side in ("source", "target") for row in ROWS]
    texts += [(negative, row["target_lang"]) for row in ROWS for negative in row["hard_negatives"][:2]]
    want = toy_tokenizer([t for t, _ in texts], lang=[code for _, code in texts], padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], want["input_ids"])
    assert torch.equal(batch["attention_mask"], want["attention_mask"])
    assert batch["negative_index"].tolist() == [[6, 7], [-1, -1], [8, -1]]
    assert batch["index"].tolist() == [0, 1, 2]
    keys = batch["target_key"].tolist()
    assert keys[0] == keys[1] != keys[2] and len(set(batch["source_key"].tolist())) == 3


def test_labels_are_the_shifted_targets(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer)(rows)
    for i, row in enumerate(ROWS):
        prompt = toy_tokenizer.decoder_prompt_ids(row["target_lang"], row["provenance"], row["source_lang"])
        whole = [*prompt, *toy_tokenizer.text_ids([row["target"]])[0], toy_tokenizer.eos_token_id]
        length = len(whole) - 1
        ids, labels = batch["decoder_input_ids"][i].tolist(), batch["labels"][i].tolist()
        assert ids[:length] == whole[:-1] and set(ids[length:]) <= {toy_tokenizer.pad_token_id}
        # Position t predicts token t + 1; the prompt is given, so it is not counted.
        assert labels[:length] == [IGNORE] * (len(prompt) - 1) + whole[len(prompt) :]
        assert set(labels[length:]) <= {IGNORE}
        assert toy_tokenizer.decode([t for t in labels if t != IGNORE], skip_special_tokens=True) == row["target"]
    texts = [toy_tokenizer.decode(row) for row in batch["decoder_input_ids"]]
    assert texts[0].startswith("<s> This is a possible mined translation in English:<SEP>")
    assert texts[2].startswith("<s> This is a possible natural language explanation in French:<SEP>")
    program = TranslationCollator(toy_tokenizer)([rows[2] | {"provenance": "primary"}])  # known by its source
    assert program["decoder_input_ids"].tolist() == batch["decoder_input_ids"][2:].tolist()
    read = [len(TranslationCollator(toy_tokenizer, decoder_fraction=share)(rows)["labels"]) for share in (0.1, 0.6, 1)]
    assert read == [1, 2, 3]


def test_language_drop(rows, toy_tokenizer):
    none = toy_tokenizer(["un chat."], lang=None)["input_ids"][0]
    named = toy_tokenizer(["un chat."], lang="fra_Latn")["input_ids"][0]
    always = TranslationCollator(toy_tokenizer, language_drop=1.0)(rows)
    assert unpadded(always["input_ids"], always["attention_mask"])[0] == none
    own = TranslationCollator(toy_tokenizer, language_drop=1.0, language_drops={"fra_Latn": 0.0})(rows)
    assert unpadded(own["input_ids"], own["attention_mask"])[0] == named
    many = [row | {"index": i} for i, row in enumerate(rows * 100)]
    half = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)
    batch = half(many)
    found = unpadded(batch["input_ids"], batch["attention_mask"])[::3]
    assert {tuple(ids) for ids in found} == {tuple(none), tuple(named)}
    assert 30 < sum(ids == none for ids in found) < 70
    # The same rows give the same batch in any process and epoch; another seed or other rows another one.
    again = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)(many)
    assert all(torch.equal(again[name], batch[name]) for name in batch)
    other = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=4)(many)
    assert not np.array_equal(other["attention_mask"].sum(1), batch["attention_mask"].sum(1))
    shifted = half([*many[3:], *many[:3]])
    assert not np.array_equal(shifted["attention_mask"].sum(1)[:-3], batch["attention_mask"].sum(1)[3:])
    # The decoder is always told the language.
    assert torch.equal(batch["decoder_input_ids"][:3], TranslationCollator(toy_tokenizer)(rows)["decoder_input_ids"])


def test_overhead_is_what_the_layout_adds(rows, toy_tokenizer):
    """The longest name is that of a target here."""
    long = ROWS[2] | {"target_lang": "kas_Arab"}
    dataset = tokenize_parallel(Dataset.from_list([*ROWS, long]), toy_tokenizer, progress=False)
    collator = TranslationCollator(toy_tokenizer, encode_targets=True)
    overhead = collator.overhead(dataset)
    lengths = dataset.lengths(encoder_sides=2, **overhead)
    batch = collator([dataset[i] for i in range(4)])
    encoder, decoder = batch["attention_mask"].sum(1), (batch["labels"] != IGNORE).sum(1)
    assert (encoder[:4].numpy() <= lengths[:, 0]).all() and (encoder[4:].numpy() <= lengths[:, 1]).all()
    assert batch["labels"].shape[1] <= lengths[:, 2].max() and (decoder.numpy() <= lengths[:, 2]).all()
    none, kashmiri = (len(toy_tokenizer("", lang=lang)["input_ids"]) for lang in (None, "kas_Arab"))
    assert overhead["prefix"] == kashmiri > none


def test_a_decoder_with_the_first_part_of_the_vocabulary(toy, toy_tokenizer):
    """Other ids are unknown to the decoder; the encoder reads all. English targets and a Russian one."""
    rows = [row | {"hard_negatives": []} for row in toy.parallel_rows()[:6]]
    rows[2] |= {"target": "кот спит", "target_lang": "rus_Cyrl"}
    data = tokenize_parallel(Dataset.from_list(rows), toy_tokenizer, progress=False)
    batch = [data[i] for i in range(6)]
    whole = TranslationCollator(toy_tokenizer, encode_targets=True)(batch)
    size = min(i for i in whole["labels"].flatten().tolist() if i >= 330)  # the first unknown id occurs
    small = TranslationCollator(toy_tokenizer, encode_targets=True, decoder_vocab_size=size)(batch)
    for name, unknown in (("labels", IGNORE), ("decoder_input_ids", toy_tokenizer.sep_token_id)):
        want = [[i if i < size else unknown for i in row] for row in whole[name].tolist()]
        assert small[name].tolist() == want != whole[name].tolist()
    assert (small["labels"][2] == IGNORE).sum() > (whole["labels"][2] == IGNORE).sum()
    assert whole["input_ids"].max() >= size
    for name in set(whole) - {"labels", "decoder_input_ids"}:
        assert torch.equal(small[name], whole[name]), name
