"""Tokenized pairs: ids equal the tokenizer's, independent of its earlier calls; saving, loading, selecting."""

import logging

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.tokenized import TokenizedParallel, tokenize_parallel

ROWS = [
    dict(source="un chat.", source_lang="fra_Latn", target="one cat.", target_lang="eng_Latn", provenance="primary"),
    dict(
        source="кот </s> <SEP>", source_lang="rus_Cyrl", target="one cat.", target_lang="eng_Latn", provenance="mined"
    ),
    dict(source="один", source_lang="rus_Cyrl", target="un", target_lang="fra_Latn", provenance="dictionary"),
    dict(source="x = 1", source_lang="python", target="neuf 猫 oiseaux", target_lang="fra_Latn", provenance="code"),
]
NEGATIVES = [["two cats.", "a dog."], [], None, ["neuf"]]


@pytest.fixture
def dataset():
    return Dataset.from_list([row | {"hard_negatives": n} for row, n in zip(ROWS, NEGATIVES, strict=True)])


def body(tokenizer, text):
    """The text's ids by the tokenizer's own call, without CLS, <s>, language and </s>."""
    ids = tokenizer(text, lang="fra_Latn")["input_ids"]
    return ids[ids.index(tokenizer.sep_token_id) + 1 : -1]


def check(tokenized, tokenizer, rows, negatives=NEGATIVES, cut=10**6):
    assert len(tokenized) == len(rows)
    keys = {}
    for i, (row, own) in enumerate(zip(rows, negatives, strict=True)):
        have = tokenized[i]
        assert have["index"] == i
        for side in ("source", "target"):
            assert have[side].tolist() == body(tokenizer, row[side])[:cut]
            assert have[f"{side}_lang"] == row[f"{side}_lang"]
        assert have["provenance"] == row["provenance"]
        keys.setdefault(row["target"], set()).add(have["target_key"])
        assert [n.tolist() for n in have["negatives"]] == [body(tokenizer, n)[:cut] for n in own or []]
    assert all(len(found) == 1 for found in keys.values())
    assert len(set.union(*keys.values())) == len(keys)


def test_ids_are_the_tokenizers(dataset, toy_tokenizer):
    tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False)
    check(tokenized, toy_tokenizer, ROWS)
    lengths = tokenized.lengths(encoder_sides=3, prefix=5, prompt=9)
    source, target = (np.array([len(body(toy_tokenizer, row[s])) for row in ROWS]) for s in ("source", "target"))
    np.testing.assert_array_equal(lengths, np.stack([source + 5, target + 5, target + 5, target + 9], 1))
    assert tokenized.lengths().shape == (4, 2)


def test_what_the_tokenizer_did_before_does_not_matter(dataset, toy, tmp_path):
    """Ids and cache folder are the same for a new tokenizer, after a padded call, and after a truncated call."""
    for call in (
        None,
        dict(text=["a", "a b c d"], padding=True),
        dict(text=["a " * 100], padding="max_length", truncation=True, max_length=40),
        dict(text="<SEP>", split_special_tokens=False),
    ):
        tokenizer = toy.make_tokenizer()
        if call:
            tokenizer(**call)
        check(tokenize_parallel(dataset, tokenizer, progress=False, cache_dir=tmp_path), tokenizer, ROWS)
    assert len(list(tmp_path.iterdir())) == 1


def test_save_and_load(dataset, toy_tokenizer, tmp_path):
    tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False)
    tokenized.save(tmp_path)
    again = TokenizedParallel.load(tmp_path)
    check(again, toy_tokenizer, ROWS)
    assert isinstance(again.source.values, np.memmap)  # a million pairs stay on disk

    plain = tokenize_parallel(dataset.remove_columns("hard_negatives"), toy_tokenizer, progress=False)
    plain.save(tmp_path / "plain")
    again = TokenizedParallel.load(tmp_path / "plain")
    assert again.negatives is None and "negatives" not in again[0]


def test_cache(dataset, toy_tokenizer, tmp_path, monkeypatch):
    first = tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path)
    calls, text_ids = [], type(toy_tokenizer).text_ids
    monkeypatch.setattr(type(toy_tokenizer), "text_ids", lambda s, texts: calls.extend(texts) or text_ids(s, texts))
    check(tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path), toy_tokenizer, ROWS)
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
    check(tokenize_parallel(dataset, toy_tokenizer, progress=False, cache_dir=tmp_path), toy_tokenizer, ROWS)
    assert len(first) == 4


def test_long_texts_are_cut_with_one_warning(dataset, toy_tokenizer, caplog):
    with caplog.at_level(logging.WARNING):
        tokenized = tokenize_parallel(dataset, toy_tokenizer, progress=False, max_length=2)
    check(tokenized, toy_tokenizer, ROWS, cut=2)
    everything = [row["source"] for row in ROWS] + list({row["target"] for row in ROWS})
    everything += [t for n in NEGATIVES for t in n or []]
    long = sum(len(body(toy_tokenizer, text)) > 2 for text in everything)
    assert [r.getMessage() for r in caplog.records] == [
        f"{long} texts are longer than 2 tokens and were cut (max_length)"
    ]
    assert 0 < long < len(everything)
