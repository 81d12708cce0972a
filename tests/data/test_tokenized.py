"""Tokenized pairs: ids equal the tokenizer's, independent of its earlier calls; saving, loading, selecting."""

import logging

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.tokenized import TokenizedParallel, tokenize_parallel

NAMES = ("source", "source_lang", "target", "target_lang", "provenance", "hard_negatives")
FIRST = ("un chat.", "fra_Latn", "one cat.", "eng_Latn", "primary", ["two cats.", "a dog."])
SECOND = ("кот </s> <SEP>", "rus_Cyrl", "one cat.", "eng_Latn", "mined", [])
THIRD = ("один", "rus_Cyrl", "un", "fra_Latn", "dictionary", None)
FOURTH = ("x = 1", "python", "neuf 猫 oiseaux", "fra_Latn", "code", ["neuf"])
ROWS = [dict(zip(NAMES, row)) for row in (FIRST, SECOND, THIRD, FOURTH)]


@pytest.fixture
def dataset():
    return Dataset.from_list(ROWS)


def body(tokenizer, text):
    """The text's ids by the tokenizer's own call, without CLS, <s>, language and </s>."""
    ids = tokenizer(text, lang="fra_Latn")["input_ids"]
    return ids[ids.index(tokenizer.sep_token_id) + 1 : -1]


def check(tokenized, tokenizer, cut=10**6):
    assert len(tokenized) == len(ROWS)
    keys = {}
    for i, row in enumerate(ROWS):
        have = tokenized[i]
        assert have["index"] == i
        for side in ("source", "target"):
            assert have[side].tolist() == body(tokenizer, row[side])[:cut]
            assert have[f"{side}_lang"] == row[f"{side}_lang"]
            keys.setdefault(row[side], set()).add(have[f"{side}_key"])
        assert have["provenance"] == row["provenance"]
        negatives = [body(tokenizer, negative)[:cut] for negative in row["hard_negatives"] or []]
        assert [negative.tolist() for negative in have["negatives"]] == negatives
    assert all(len(found) == 1 for found in keys.values())
    assert len(set.union(*keys.values())) == len(keys)


def test_ids_are_the_tokenizers(dataset, toy_tokenizer):
    tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False)
    check(tokenized, toy_tokenizer)
    lengths = tokenized.lengths(encoder_sides=3, prefix=5, prompt=9)
    source, target = (
        np.array([len(body(toy_tokenizer, row[s])) for row in ROWS]) for s in ("source", "target")
    )
    np.testing.assert_array_equal(
        lengths, np.stack([source + 5, target + 5, target + 5, target + 9], 1)
    )
    assert tokenized.lengths().shape == (4, 2)


def test_texts_of_one_normal_form_have_one_key(toy_tokenizer):
    rows = [("Un chat.", "One cat."), ("un\u00a0chat.", "ONE  CAT."), ("un chat", "One cat!")]
    dataset = Dataset.from_list(
        [ROWS[0] | {"source": source, "target": target} for source, target in rows]
    )
    tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False)
    for name in ("source_key", "target_key"):
        keys = [row[name] for row in tokenized]
        assert keys[0] == keys[1] != keys[2]
    assert [row["target"].tolist() for row in tokenized] == [
        body(toy_tokenizer, target) for _, target in rows
    ]


def test_what_the_tokenizer_did_before_does_not_matter(dataset, toy, tmp_path):
    """Ids and cache folder are the same for a new tokenizer, after a padded call, and after a truncated call."""
    whole = dict(text=["a " * 100], padding="max_length", truncation=True, max_length=40)
    calls = (
        dict(text=["a", "a b c d"], padding=True),
        whole,
        dict(text="<SEP>", split_special_tokens=False),
    )
    for call in (None, *calls):
        tokenizer = toy.make_tokenizer()
        if call:
            tokenizer(**call)
        check(tokenize_parallel(dataset, tokenizer, progress=False, cache_dir=tmp_path), tokenizer)
    assert len(list(tmp_path.iterdir())) == 1


def test_saved_pairs_are_the_same(dataset, toy_tokenizer, tmp_path):
    tokenize_parallel(dataset, toy_tokenizer, progress=False).save(tmp_path)
    loaded = TokenizedParallel.load(tmp_path)
    check(loaded, toy_tokenizer)
    assert isinstance(loaded.source.values, np.memmap)  # a million pairs stay on disk


def test_saved_pairs_without_negatives(dataset, toy_tokenizer, tmp_path):
    rows = dataset.remove_columns("hard_negatives")
    tokenize_parallel(rows, toy_tokenizer, progress=False).save(tmp_path)
    loaded = TokenizedParallel.load(tmp_path)
    assert loaded.negatives is None
    assert "negatives" not in loaded[0]


def test_cache(dataset, toy_tokenizer, tmp_path, monkeypatch):
    first = tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path)
    calls = []
    text_ids = type(toy_tokenizer).text_ids
    monkeypatch.setattr(
        type(toy_tokenizer), "text_ids", lambda s, texts: calls.extend(texts) or text_ids(s, texts)
    )
    check(
        tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path), toy_tokenizer
    )
    assert calls == []
    # Another length, other data and other words each have their own folder.
    tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path, max_length=2)
    assert len(calls) == 10  # two rows share a target, which is tokenized once
    tokenize_parallel(dataset.select([1]), toy_tokenizer, progress=False, cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    # A folder that a killed process left half written is written again.
    folder = min(tmp_path.iterdir(), key=lambda path: path.stat().st_ctime_ns)
    (folder / "names.json").unlink()
    (folder / "source_values.npy").write_bytes(b"half")
    check(
        tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path), toy_tokenizer
    )
    assert len(first) == 4


def test_long_texts_are_cut_with_one_warning(dataset, toy_tokenizer, caplog):
    with caplog.at_level(logging.WARNING):
        tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False, max_length=2)
    check(tokenized, toy_tokenizer, cut=2)
    everything = [row["source"] for row in ROWS] + list({row["target"] for row in ROWS})
    everything += [t for row in ROWS for t in row["hard_negatives"] or []]
    long = sum(len(body(toy_tokenizer, text)) > 2 for text in everything)
    assert caplog.messages == [f"{long} texts are longer than 2 tokens and were cut (max_length)"]
    assert 0 < long < len(everything)
