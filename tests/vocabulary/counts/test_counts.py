"""Word counts against collections.Counter; processes, spilling and merging must not change them."""

from __future__ import annotations

import json
import random
from collections import Counter

import pyarrow.parquet as pq
import pytest

from hf_echo.vocabulary.counts import count as counting
from hf_echo.vocabulary.counts.count import WordCounts
from hf_echo.vocabulary.counts.shards import word_groups
from hf_echo.vocabulary.pretokenizer import PATTERNS, split_words

from .toy_counts import as_counters, count, expected, failing


@pytest.mark.parametrize("pattern", ["echo", "llama3"])
def test_counts_equal_a_counter(corpus, tmp_path, pattern):
    counts = count(corpus, tmp_path / "counts.parquet", pattern=pattern)
    truth = expected(corpus, pattern)
    assert as_counters(counts) == truth
    assert counts.languages == ["eng_Latn", "fra_Latn", "hin_Deva", "khm_Khmr"]
    for entry in counts.entries:
        table = truth[entry.lang, entry.kind]
        assert entry.words == table.total() and entry.distinct == len(table)
        assert entry.characters == sum(len(word) * n for word, n in table.items())
    sentences = {(e.lang, e.kind): e.sentences for e in counts.entries}
    assert sentences == {
        ("eng_Latn", "monolingual"): 6,
        ("eng_Latn", "parallel"): 29,
        ("fra_Latn", "parallel"): 29,
        ("hin_Deva", "monolingual"): 6,
        ("khm_Khmr", "monolingual"): 10,
    }
    assert (counts.pattern, counts.regex) == (pattern, PATTERNS[pattern])
    assert not (tmp_path / "counts.parquet.parts").exists()


def test_order_of_the_file(corpus, tmp_path):
    rows = count(corpus, tmp_path / "c.parquet").table().to_pylist()
    key = [(r["lang"], r["kind"], -r["count"], r["word"].encode()) for r in rows]
    assert key == sorted(key)


@pytest.mark.parametrize("options", [{"processes": 2}, {"max_words": 2}, {"processes": 2, "max_words": 5}])
def test_processes_and_spilling_change_nothing(corpus, tmp_path, options):
    one = count(corpus, tmp_path / "one.parquet")
    other = count(corpus, tmp_path / "other.parquet", **options)
    assert one.path.read_bytes() == other.path.read_bytes()


def test_spilling_takes_place(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(counting.shutil, "rmtree", lambda folder: None)
    count(corpus, tmp_path / "c.parquet", max_words=2)
    assert list((tmp_path / "c.parquet.parts").glob("*.0.arrow"))


def test_long_texts_make_shards_of_fewer_blocks(corpus, tmp_path, monkeypatch):
    whole = count(corpus, tmp_path / "whole.parquet")
    monkeypatch.setattr(counting, "SHARD_CHARACTERS", 1)
    failing(monkeypatch, -1, shards := [])
    assert count(corpus, tmp_path / "c.parquet").path.read_bytes() == whole.path.read_bytes()
    assert len(shards) == 10 + 8 + 5  # 29, 24 and 15 lines, three to a block


def test_merge_is_the_sum(corpus, tmp_path):
    parts = [count(file, tmp_path / f"{i}.parquet") for i, file in enumerate(corpus)]
    whole = count(corpus, tmp_path / "whole.parquet")
    merged = WordCounts.merge([*parts[:2], parts[2].path], tmp_path / "merged.parquet", progress=False)
    assert merged.path.read_bytes() == whole.path.read_bytes()
    twice = WordCounts.merge([whole, whole], tmp_path / "twice.parquet", progress=False)
    assert as_counters(twice) == {key: table + table for key, table in expected(corpus).items()}
    assert twice.balanced() == whole.balanced()


def test_counts_of_different_patterns_do_not_merge(corpus, tmp_path):
    a = count(corpus, tmp_path / "a.parquet")
    b = count(corpus, tmp_path / "b.parquet", pattern="llama3")
    with pytest.raises(ValueError, match=r"a.parquet was counted with .*'echo'.*b.parquet with .*'llama3'") as caught:
        WordCounts.merge([a, b], tmp_path / "m.parquet")
    assert "\n" not in str(caught.value)
    a.check_pattern("echo")
    a.check_pattern(PATTERNS["echo"])
    with pytest.raises(ValueError, match="'echo', the tokenizer has 'llama3': count again with pattern 'llama3'"):
        a.check_pattern(PATTERNS["llama3"])
    with pytest.raises(ValueError, match="'echo', toy has another"):
        a.check_pattern("[a-z]+", "toy")


def test_pairs_of_language_and_text(tmp_path):
    """An iterable, a language outside the table, one that has a region, and a decomposed letter."""
    texts = [
        ("xyz_Latn", "e\u0301te\u0301"),
        ("por_Latn_BR", "uma casa"),
        ("xyz_Latn", " \u00e9t\u00e9 "),
    ] * 4
    counts = count([(pair for pair in texts)], tmp_path / "c.parquet", kind="parallel")
    assert as_counters(counts) == {
        ("xyz_Latn", "parallel"): Counter({" été": 8}),
        ("por_Latn_BR", "parallel"): Counter({" uma": 4, " casa": 4}),
    }


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_groups_of_words_are_split_as_the_whole_text(pattern):
    rng, many = random.Random(0), 0
    letters = [*"ab1'.,-(’%_é🙂", "\u0301", "'s", "...", "123456", "ក្ម", "हूँ", "ཀ་", "中文", *" " * 6]
    spaces = ["  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "\u180e", "\u200b"]
    for _ in range(3000):
        bits = letters + spaces * rng.randrange(2)
        text = "".join(rng.choices(bits, k=rng.randrange(1, 12)))
        if text.strip():
            groups = word_groups(text)
            many += len(groups) > 1
            words = [word for group in groups for word in split_words(group, pattern)]
            assert words == split_words(text, pattern), text
    assert many > 300


def test_long_words_are_cut(tmp_path):
    counts = count([[("tha_Thai", "ก" * 7)]], tmp_path / "c.parquet", max_word_length=3)
    assert as_counters(counts)["tha_Thai", "monolingual"] == Counter({" กก": 1, "กกก": 1, "กก": 1})


def test_metadata_is_in_the_file(corpus, tmp_path):
    counts = count(corpus, tmp_path / "c.parquet")
    meta = json.loads(pq.read_metadata(counts.path).metadata[b"hf_echo_word_counts"])
    assert meta["pattern"] == "echo" and meta["regex"] == PATTERNS["echo"] and meta["normalisation"] == "NFC"
    assert WordCounts.load(counts.path) == counts
