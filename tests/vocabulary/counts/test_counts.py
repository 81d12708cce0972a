"""Word counts against collections.Counter; processes, spilling, interruption and merging must not change them."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pyarrow.parquet as pq
import pytest

from hf_echo.data import formats
from hf_echo.data.sampling import unimax
from hf_echo.vocabulary.counts import count as counting
from hf_echo.vocabulary.counts.count import Source, WordCounts, count_words
from hf_echo.vocabulary.counts.shards import word_groups
from hf_echo.vocabulary.pretokenizer import PATTERNS, split_words

FRA = ["le chat dort", "le chien dort aussi", "l'été, déjà !", "Le chat dort"]
HIN = ["मैं स्कूल जाता हूँ", "वह स्कूल जाती है"]
ENG = ["the cat sleeps", "the dog sleeps too", "summer, already!", "The cat sleeps"]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Three rows a block, two blocks a shard, so that a small file has several shards."""
    monkeypatch.setattr(formats, "BLOCK", 3)
    monkeypatch.setattr(counting, "SHARD_BLOCKS", 2)


@pytest.fixture
def corpus(tmp_path):
    """A file of pairs (fra, eng), an n-way table (hin, eng) with a split, and a plain text."""
    rng = random.Random(0)
    picks = [rng.randrange(4) for _ in range(29)]
    pairs = pd.DataFrame(
        {"src_lang": "fra_Latn", "src": [FRA[i] for i in picks], "tgt_lang": "eng_Latn", "tgt": [ENG[i] for i in picks]}
    )
    pairs.to_parquet(tmp_path / "pairs.parquet")
    rows = [
        (i, lang, text, "dev" if i == 1 else "train")
        for i in range(2)
        for lang, text in (("hin_Deva", HIN[i]), ("eng_Latn", ENG[i]))
    ]
    table = pd.DataFrame(rows * 6, columns=["id", "lang", "text", "split"])
    table.to_csv(tmp_path / "nway.tsv", sep="\t", index=False)
    (tmp_path / "news.khm_Khmr.txt").write_text("ភាសាខ្មែរ\n\nខ្ញុំ ទៅ សាលា\n" * 5, encoding="utf-8")
    return [tmp_path / name for name in ("pairs.parquet", "nway.tsv", "news.khm_Khmr.txt")]


def expected(corpus, pattern="echo") -> dict[tuple[str, str], Counter]:
    pairs, table = pd.read_parquet(corpus[0]), pd.read_csv(corpus[1], sep="\t")
    texts = [("fra_Latn", "parallel", t) for t in pairs.src] + [("eng_Latn", "parallel", t) for t in pairs.tgt]
    texts += [(r.lang, "monolingual", r.text) for r in table.itertuples() if r.split == "train"]
    texts += [("khm_Khmr", "monolingual", t) for t in corpus[2].read_text(encoding="utf-8").split("\n") if t]
    tables: dict[tuple[str, str], Counter] = {}
    for lang, kind, text in texts:
        tables.setdefault((lang, kind), Counter()).update(split_words(text, pattern))
    return tables


def as_counters(counts: WordCounts) -> dict[tuple[str, str], Counter]:
    tables: dict[tuple[str, str], Counter] = {}
    for row in counts.table().to_pylist():
        tables.setdefault((row["lang"], row["kind"]), Counter())[row["word"]] += row["count"]
    assert sum(map(len, tables.values())) == len(counts.table())  # no word twice
    return tables


def count(sources, out, **options) -> WordCounts:
    return count_words(sources, out, **({"processes": 1, "progress": False} | options))


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


def failing(monkeypatch, after: int, called: list) -> None:
    """Lets so many shards through; `called` collects them."""
    real = counting.count_shard

    def count_shard(shard, settings):
        if len(called) == after:
            raise KeyboardInterrupt
        called.append((shard.label, shard.number))
        return real(shard, settings)

    monkeypatch.setattr(counting, "count_shard", count_shard)


def test_an_interrupted_count_resumes(corpus, tmp_path, monkeypatch):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    with monkeypatch.context() as patch:
        failing(patch, -1, shards := [])
        count(corpus, tmp_path / "again.parquet")
    assert len(shards) == 5 + 4 + 3  # 29, 24 and 15 rows (5 lines are empty), six to a shard
    for stop in (0, 3, 6):
        with monkeypatch.context() as patch:
            failing(patch, stop, first := [])
            with pytest.raises(KeyboardInterrupt):
                count(corpus, out, max_words=2)
            assert not out.exists()
        with monkeypatch.context() as patch:
            failing(patch, -1, second := [])
            resumed = count(corpus, out, max_words=2)
        assert sorted(first + second) == sorted(shards) and len(first) == stop
        assert resumed.path.read_bytes() == whole.path.read_bytes()
        out.unlink()


def test_half_a_shard_is_counted_again(corpus, tmp_path, monkeypatch):
    """Killed between two pieces of a shard: the pieces without a last one do not count."""
    whole = count(corpus, tmp_path / "whole.parquet")
    real, written = counting.count_shard.__globals__["_PartWriter"].finish, []

    def finish(self, figures):
        written.append(self.pieces)
        if len(written) == 2:
            raise KeyboardInterrupt
        real(self, figures)

    with monkeypatch.context() as patch:
        patch.setattr(counting.count_shard.__globals__["_PartWriter"], "finish", finish)
        with pytest.raises(KeyboardInterrupt):
            count(corpus, tmp_path / "c.parquet", max_words=1)
    assert written[-1] > 0  # pieces lie about
    assert count(corpus, tmp_path / "c.parquet").path.read_bytes() == whole.path.read_bytes()


def die_at_the_second(shard, settings):
    if shard.number == 1:
        os._exit(1)
    return REAL(shard, settings)


REAL = counting.count_shard


def test_a_killed_process_is_told_and_resumes(corpus, tmp_path, monkeypatch):
    whole = count(corpus, tmp_path / "whole.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(counting, "count_shard", die_at_the_second)
        with pytest.raises(ChildProcessError, match="repeat the call to resume"):
            count(corpus, tmp_path / "c.parquet", processes=2)
    assert count(corpus, tmp_path / "c.parquet").path.read_bytes() == whole.path.read_bytes()


def interrupted(monkeypatch, corpus, out) -> None:
    with monkeypatch.context() as patch:
        failing(patch, 2, [])
        with pytest.raises(KeyboardInterrupt):
            count(corpus, out)


def test_a_changed_input_is_an_error(corpus, tmp_path, monkeypatch):
    out = tmp_path / "c.parquet"
    interrupted(monkeypatch, corpus, out)
    with pytest.raises(ValueError, match=r"parts has an interrupted count with another pattern: .* delete"):
        count(corpus, out, pattern="llama3")
    with pytest.raises(ValueError, match=r"pairs.parquet has changed \(kind\) since its count was interrupted"):
        count([Source(corpus[0], kind="monolingual"), *corpus[1:]], out)
    with open(corpus[1], "a") as file:
        file.write("9\teng_Latn\tone more\ttrain\n")
    with pytest.raises(ValueError, match=r"nway.tsv has changed \(size\)") as caught:
        count(corpus, out)
    assert "\n" not in str(caught.value)


def test_sources_may_be_added_to_an_interrupted_count(corpus, tmp_path, monkeypatch):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    interrupted(monkeypatch, corpus[:2], out)
    assert count(corpus, out).path.read_bytes() == whole.path.read_bytes()


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


def hand_made(tmp_path) -> WordCounts:
    """fra has both kinds, 10 and 40 characters; deu one kind, 20; wol one kind, 2."""
    parallel = [
        ("fra_Latn", "aa bb"),
        ("fra_Latn", "aaa"),
        ("deu_Latn", "aa ccccc d"),
        ("deu_Latn", "eeeeeeee"),
    ]
    monolingual = [("fra_Latn", "bbb " * 10), ("wol_Latn", "z")]
    for name, pairs in (("parallel", parallel), ("monolingual", monolingual)):
        pd.DataFrame(pairs, columns=["lang", "text"]).to_parquet(tmp_path / f"{name}.parquet")
    sources = [Source(tmp_path / f"{kind}.parquet", kind=kind) for kind in ("parallel", "monolingual")]
    return count(sources, tmp_path / "hand.parquet")


def test_balanced_by_hand(tmp_path):
    counts = hand_made(tmp_path)
    assert counts.characters == {"fra_Latn": 50, "deu_Latn": 20, "wol_Latn": 2}
    assert counts.shares() == pytest.approx(unimax(counts.characters))
    third = Fraction(1, 3)
    truth = {  # a third each (fewer than 126 languages); fra half parallel, half monolingual
        " aa": third / 2 / 10 + third / 20,
        " bb": third / 2 / 10,
        " aaa": third / 2 / 10,
        " bbb": third / 2 * 10 / 40,
        " ccccc": third / 20,
        " d": third / 20,
        " eeeeeeee": third / 20,
        " z": third / 2,
    }
    total = 1_000_003
    whole = {w: int(f * total / sum(truth.values()) + Fraction(1, 2)) for w, f in truth.items()}
    balanced = counts.balanced(total=total)
    assert balanced == whole
    assert list(balanced) == sorted(whole, key=lambda w: (-whole[w], w))
    assert all(type(n) is int for n in balanced.values())


def test_balanced_options(tmp_path):
    counts = hand_made(tmp_path)
    capped = counts.shares(top_n=1, max_upsampling=5)
    assert capped == pytest.approx({"fra_Latn": 5 / 11, "deu_Latn": 5 / 11, "wol_Latn": 1 / 11})
    weighted = counts.shares(language_weights={"wol_Latn": 4})
    assert weighted == pytest.approx({"fra_Latn": 1 / 6, "deu_Latn": 1 / 6, "wol_Latn": 4 / 6})
    assert " z" not in counts.balanced(language_weights={"wol_Latn": 0})
    assert counts.balanced(min_count=2) == {" bbb": 10**9}
    assert counts.balanced(total=4) == {" z": 2, " bbb": 1}  # 2.05 and 0.51; " aa" has 0.41


def test_kinds_weigh_alike(tmp_path):
    """A language's monolingual text may be a hundred times its parallel text: each is half the sample."""
    rows = [
        Source([("fra_Latn", "aaaa")], kind="parallel"),
        Source([("fra_Latn", "bbbb")] * 100, kind="monolingual"),
    ]
    balanced = count(rows, tmp_path / "c.parquet").balanced()
    assert balanced == {" aaaa": 500_000_000, " bbbb": 500_000_000}


def test_metadata_is_in_the_file(corpus, tmp_path):
    counts = count(corpus, tmp_path / "c.parquet")
    meta = json.loads(pq.read_metadata(counts.path).metadata[b"hf_echo_word_counts"])
    assert meta["pattern"] == "echo" and meta["regex"] == PATTERNS["echo"] and meta["normalisation"] == "NFC"
    assert WordCounts.load(counts.path) == counts


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "lang\ttext\nfra_Latn\tun\nfra_Latn\n", r"a\.tsv:3: 1 fields instead of 2"),
        ("a.tsv", "lang\ttext\nfra_Latn\tun\nfrench\tdeux\n", r"a\.tsv:3: lang: unknown language code 'french'"),
        ("a.tsv", "lang\ttext\nfra_Latn\t \n", r"a\.tsv:2: text is empty"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"lang": 3, "text": "un"}\n', r"a\.jsonl:2: lang is not text"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"text": "un"}\n', r"a\.jsonl:2: lang is missing"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"lang"\n', r"a\.jsonl:2: not valid JSON"),
        ("a.tsv", "src\ttgt\tsrc_lang\ttgt_lang\nun\t\tfra_Latn\teng_Latn\n", r"a\.tsv:2: tgt is empty"),
        ("a.tsv", "lang\ttext\n", r"a\.tsv: no row to count"),
        ("a.tsv", "lang\ttext\tsplit\nfra_Latn\tun\tdev\n", r"a\.tsv: no row of split 'train' to count"),
        ("a.tsv", "langue\ttexte\nfra_Latn\tun\n", r"neither source, .* nor lang and text \(found: langue, texte\)"),
        ("a.txt", "un\n", r"a\.txt: unknown language: name the file like fra_Latn\.txt"),
        ("a.fra_Latn.txt", "\n\n", r"a\.fra_Latn\.txt: no row to count"),
    ],
)
def test_bad_input_is_one_line(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        count(write(tmp_path / name, text), tmp_path / "c.parquet")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "c.parquet").exists()


def test_not_utf8_in_a_text(tmp_path):
    (tmp_path / "fra_Latn.txt").write_bytes(b"un\n\xff\n")
    with pytest.raises(ValueError, match=r"fra_Latn\.txt:2: not UTF-8"):
        count(tmp_path / "fra_Latn.txt", tmp_path / "c.parquet")


def test_bad_rows_can_be_skipped(tmp_path, caplog):
    file = write(tmp_path / "a.tsv", "lang\ttext\nfra_Latn\tun\nfrench\tdeux\nfra_Latn\nfra_Latn\ttrois\n")
    counts = count(file, tmp_path / "c.parquet", on_bad_row="skip")
    assert as_counters(counts) == {("fra_Latn", "monolingual"): Counter({" un": 1, " trois": 1})}
    assert "skipped 2 bad rows" in caplog.text


def test_an_error_keeps_what_was_counted(corpus, tmp_path):
    """A wrong file among good ones: after it is fixed, the count resumes."""
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    empty = write(tmp_path / "empty.fra_Latn.txt", "\n")
    with pytest.raises(ValueError, match="empty.fra_Latn.txt: no row"):
        count([*corpus, empty], out)
    assert count(corpus, out).path.read_bytes() == whole.path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "gpt2"}, "pattern='gpt2' must be one of llama3, echo"),
        ({"kind": "web"}, "kind='web' must be one of parallel, monolingual"),
        ({"processes": 0}, "processes=0"),
        ({"lang": "french"}, "unknown language code 'french'"),
        ({"on_bad_row": "ignore"}, "on_bad_row='ignore'"),
    ],
)
def test_wrong_options(corpus, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        count(corpus, tmp_path / "c.parquet", **options)


def test_wrong_sources(corpus, tmp_path):
    out = tmp_path / "c.parquet"
    with pytest.raises(FileNotFoundError, match="nothing.tsv: no such file"):
        count([tmp_path / "nothing.tsv"], out)
    with pytest.raises(ValueError, match=r"nway.tsv is given twice"):
        count([corpus[1], corpus[1]], out)
    with pytest.raises(ValueError, match="no sources"):
        count([], out)
    with pytest.raises(ValueError, match="put .* pairs into a list"):
        count([("fra_Latn", "un chat")], out)
    with pytest.raises(ValueError, match=r"pairs 1:2: 'un chat' is not a pair"):
        count([[("fra_Latn", "un"), "un chat"]], out)


def test_wrong_weights_and_empty_languages(tmp_path):
    counts = hand_made(tmp_path)
    with pytest.raises(ValueError, match="'ell_Grek', which .*hand.parquet does not have"):
        counts.balanced(language_weights={"ell_Grek": 2})
    with pytest.raises(ValueError, match="fra_Latn has weight -1"):
        counts.balanced(language_weights={"fra_Latn": -1})
    with pytest.raises(ValueError, match="leaves no language"):
        counts.shares(language_weights=dict.fromkeys(counts.languages, 0))
    with pytest.raises(ValueError, match="min_count=99"):
        counts.balanced(min_count=99)
    entries = [replace(e, characters=0) if e.lang == "wol_Latn" else e for e in counts.entries]
    empty = replace(counts, entries=tuple(entries))
    with pytest.raises(ValueError, match="wol_Latn is empty"):
        empty.balanced()
    assert " z" not in empty.balanced(language_weights={"wol_Latn": 0})


def test_not_a_file_of_counts(corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file of counts"):
        WordCounts.load(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="not of word counts"):
        WordCounts.load(corpus[0])
    with pytest.raises(ValueError, match="not a Parquet file"):
        WordCounts.load(corpus[1])
