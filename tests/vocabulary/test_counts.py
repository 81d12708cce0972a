"""Word counts against collections.Counter; balancing by hand; interrupted counts; wrong input in one line."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pyarrow.parquet as pq
import pytest

from hf_echo.data import formats, texts
from hf_echo.data.sampling import unimax
from hf_echo.vocabulary.counts import WordCounts, count_words
from hf_echo.vocabulary.pretokenizer import PATTERNS, split_words

from ..refusals import refusals, refuses

FRA = ["le chat dort", "le chien dort aussi", "l'été, déjà !", "Le chat dort"]
HIN = ["मैं स्कूल जाता हूँ", "वह स्कूल जाती है"]
ENG = ["the cat sleeps", "the dog sleeps too", "summer, already!", "The cat sleeps"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (formats, texts):
        monkeypatch.setattr(module, "BLOCK", 3)
    monkeypatch.setattr("hf_echo.vocabulary.counts.BATCH", 200)
    monkeypatch.setattr("hf_echo.vocabulary.counts.SPLIT", 5)


@pytest.fixture
def corpus(tmp_path):
    """A file of pairs (fra, eng), an n-way table (hin, eng) with a split, and a plain text."""
    rng = random.Random(0)
    picks = [rng.randrange(4) for _ in range(29)]
    pairs = {"src_lang": "fra_Latn", "src": [FRA[i] for i in picks]}
    pairs |= {"tgt_lang": "eng_Latn", "tgt": [ENG[i] for i in picks]}
    pd.DataFrame(pairs).to_parquet(tmp_path / "pairs.parquet")
    texts = [(i, lang, text[i]) for i in range(2) for lang, text in (("hin_Deva", HIN), ("eng_Latn", ENG))]
    rows = [(*text, "dev" if text[0] == 1 else "train") for text in texts]
    table = pd.DataFrame(rows * 6, columns=["id", "lang", "text", "split"])
    table.to_csv(tmp_path / "nway.tsv", sep="\t", index=False)
    (tmp_path / "news.khm_Khmr.txt").write_text("ភាសាខ្មែរ\n\nខ្ញុំ ទៅ សាលា\n" * 5, encoding="utf-8")
    return [tmp_path / name for name in ("pairs.parquet", "nway.tsv", "news.khm_Khmr.txt")]


def expected(corpus, pattern="echo") -> dict[tuple[str, str], Counter]:
    pairs, table = pd.read_parquet(corpus[0]), pd.read_csv(corpus[1], sep="\t")
    found = [("fra_Latn", "parallel", t) for t in pairs.src] + [("eng_Latn", "parallel", t) for t in pairs.tgt]
    found += [(r.lang, "monolingual", r.text) for r in table.itertuples() if r.split == "train"]
    found += [("khm_Khmr", "monolingual", t) for t in corpus[2].read_text(encoding="utf-8").split("\n") if t]
    tables: dict[tuple[str, str], Counter] = {}
    for lang, kind, text in found:
        tables.setdefault((lang, kind), Counter()).update(split_words(text, pattern))
    return tables


def as_counters(counts: WordCounts) -> dict[tuple[str, str], Counter]:
    tables: dict[tuple[str, str], Counter] = {}
    for row in pq.read_table(counts.path).to_pylist():
        tables.setdefault((row["lang"], row["kind"]), Counter())[row["word"]] += row["count"]
    assert sum(map(len, tables.values())) == len(pq.read_table(counts.path))  # no word twice
    return tables


def count(sources, out, **options) -> WordCounts:
    return count_words(sources, out, progress=False, **options)


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
    assert [entry.lang for entry in counts.entries] == ["eng_Latn", *counts.languages]
    assert [entry.sentences for entry in counts.entries] == [6, 29, 29, 6, 10]
    rows = pq.read_table(counts.path).to_pylist()
    key = [(r["lang"], r["kind"], -r["count"], r["word"].encode()) for r in rows]
    assert key == sorted(key)
    assert (counts.pattern, counts.regex) == (pattern, PATTERNS[pattern]) and WordCounts.load(counts.path) == counts
    counts.check_pattern(pattern)
    wrong = "echo" if pattern == "llama3" else "llama3"
    refuses(f"'{pattern}', the tokenizer has '{wrong}': count again with pattern", counts.check_pattern, wrong)


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_texts_with_any_white_space_are_split_as_a_whole(tmp_path, pattern):
    """The count divides texts at single spaces first."""
    rng = random.Random(0)
    letters = [*"ab1'.,-(’%_é🙂", "\u0301", "'s", "...", "123456", "ក្ម", "हूँ", "ཀ་", "中文", *" " * 6]
    spaces = ["  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "\u180e", "\u200b"]
    many = ["".join(rng.choices(letters + spaces * (i % 2), k=rng.randrange(1, 12))) for i in range(2000)]
    many = [text for text in many if text.strip()]
    counts = count([[("fra_Latn", text) for text in many]], tmp_path / "c.parquet", pattern=pattern)
    truth = Counter(word for text in many for word in split_words(text, pattern))
    assert as_counters(counts) == {("fra_Latn", "monolingual"): truth}


def test_pairs_of_language_and_text(tmp_path):
    """An iterable, a language outside the table, one that has a region, a decomposed letter, and a long word."""
    pairs = [("xyz_Latn", "e\u0301te\u0301"), ("por_Latn_BR", "uma casa"), ("xyz_Latn", " \u00e9t\u00e9 ")] * 4
    pairs += [("tha_Thai", "ก" * 150)]
    counts = count([(pair for pair in pairs)], tmp_path / "c.parquet", kind="parallel")
    assert as_counters(counts) == {
        ("xyz_Latn", "parallel"): Counter({" été": 8}),
        ("por_Latn_BR", "parallel"): Counter({" uma": 4, " casa": 4}),
        ("tha_Thai", "parallel"): Counter({" " + "ก" * 99: 1, "ก" * 51: 1}),
    }


def hand_made(tmp_path) -> WordCounts:
    """fra has both kinds, 10 and 40 characters; deu one kind, 20; wol one kind, 2."""
    rows = ["aa bb\taa ccccc d\tfra_Latn\tdeu_Latn", "aaa\teeeeeeee\tfra_Latn\tdeu_Latn"]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget\tsource_lang\ttarget_lang", *rows]) + "\n")
    monolingual = [("fra_Latn", "bbb " * 10), ("wol_Latn", "z")]
    return count([tmp_path / "pairs.tsv", monolingual], tmp_path / "hand.parquet")


def test_balanced_by_hand(tmp_path):
    counts = hand_made(tmp_path)
    assert counts.characters == {"fra_Latn": 50, "deu_Latn": 20, "wol_Latn": 2}
    assert counts.shares() == pytest.approx(unimax(counts.characters))
    third = Fraction(1, 3)
    # a third each (fewer than 126 languages); fra half parallel, half monolingual
    truth = dict.fromkeys((" ccccc", " d", " eeeeeeee"), third / 20) | dict.fromkeys((" bb", " aaa"), third / 2 / 10)
    truth |= {" aa": third / 2 / 10 + third / 20, " bbb": third / 2 * 10 / 40, " z": third / 2}
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


def test_wrong_weights_and_empty_languages(tmp_path):
    counts = hand_made(tmp_path)
    entries = tuple(replace(e, characters=0) if e.lang == "wol_Latn" else e for e in counts.entries)
    empty = replace(counts, entries=entries)
    for asked, options, message in (
        (counts, {"language_weights": {"ell_Grek": 2}}, "'ell_Grek', which .*hand.parquet does not have"),
        (counts, {"language_weights": {"fra_Latn": -1}}, "fra_Latn has weight -1"),
        (counts, {"language_weights": dict.fromkeys(counts.languages, 0)}, "every language has weight 0"),
        (counts, {"min_count": 99}, "no word was seen 99 times: lower the smallest count"),
        (empty, {}, "wol_Latn is empty"),
    ):
        refuses(message, asked.balanced, **options)
    assert " z" not in empty.balanced(language_weights={"wol_Latn": 0})


def stop_after(monkeypatch, batches: int) -> list:
    """Interrupts the count after so many batches of texts; returns the labels of those that were counted."""
    import hf_echo.vocabulary.counts as counting

    real, seen = counting._batches, []

    def some(tables):
        for batch in real(tables):
            if len(seen) == batches:
                raise KeyboardInterrupt
            seen.append(batch)
            yield batch

    monkeypatch.setattr(counting, "_batches", some)
    return seen


def test_an_interrupted_count_resumes_at_its_first_unfinished_file(corpus, tmp_path, monkeypatch):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    with monkeypatch.context() as patch:
        every = stop_after(patch, -1)
        count(corpus, tmp_path / "again.parquet")
    with monkeypatch.context() as patch:
        stop_after(patch, len(every) - 1)  # within the last file
        with pytest.raises(KeyboardInterrupt):
            count(corpus[:2] + corpus[2:], out)
    assert not out.exists()
    with monkeypatch.context() as patch:
        again = stop_after(patch, -1)
        resumed = count(corpus, out, on_bad_row="skip")  # bad rows of a later file may be skipped
    assert len(again) < len(every) // 2
    assert pq.read_table(resumed.path).equals(pq.read_table(whole.path)) and resumed.entries == whole.entries
    assert not (tmp_path / "c.parquet.unfinished").exists()


def test_a_wrong_file_keeps_what_was_counted_and_a_changed_one_is_refused(corpus, tmp_path):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    empty = tmp_path / "empty.fra_Latn.txt"
    empty.write_text("\n")
    refuses("empty.fra_Latn.txt: no row", count, [*corpus, empty], out)
    for changed, options in ((corpus, {"pattern": "llama3"}), (corpus[:1], {"kind": "monolingual"})):
        with pytest.raises(ValueError, match=r"pairs.parquet or a setting .* changed .* delete .*c.parquet.unfinished"):
            count(changed, out, **options)
    content = corpus[1].read_text()
    corpus[1].write_text(content.replace("cat", "cot"))  # the same size
    refuses("nway.tsv or a setting has changed", count, corpus, out)
    corpus[1].write_text(content)
    assert pq.read_table(count(corpus, out).path).equals(pq.read_table(whole.path))


def test_two_counts_into_one_file(corpus, tmp_path):
    (tmp_path / "c.parquet.unfinished").write_bytes(b"no database" * 1000)
    refuses(r"c.parquet.unfinished cannot be opened: another count into .* runs", count, corpus, tmp_path / "c.parquet")


def count_wrong(sources, options, tmp_path):
    if isinstance(sources, str):
        (tmp_path / sources).write_text(options)
        sources, options = tmp_path / sources, {}
    count(sources, tmp_path / "c.parquet", **options)


PAIRS = [[("fra_Latn", "un chat")]]
test_bad_input_is_one_line = refusals(
    ("a.tsv", "src\ttgt\tsrc_lang\ttgt_lang\nun\t\tfra_Latn\teng_Latn\n", r"a\.tsv:2: tgt is empty"),
    ("a.tsv", "lang\ttext\n", r"a\.tsv: no row to count"),
    ("a.tsv", "lang\ttext\tsplit\nfra_Latn\tun\tdev\n", r"a\.tsv: no row of split 'train' to count"),
    ("a.tsv", "langue\ttexte\nfra_Latn\tun\n", r"neither source, .* nor lang and text \(found: langue, texte\)"),
    ("a.txt", "un\n", r"a\.txt: unknown language: name the file like fra_Latn\.txt"),
    (PAIRS, {"pattern": "gpt2"}, "pattern='gpt2' must be one of llama3, echo"),
    (PAIRS, {"kind": "web"}, "kind='web' is not one of parallel, monolingual"),
    (PAIRS, {"lang": "french"}, "unknown language code 'french'"),
    (["nothing.tsv"], {}, "nothing.tsv: no such file", FileNotFoundError),
    ([], {}, "no sources"),
    (*PAIRS, {}, "put .* pairs into a list"),
    ([[("fra_Latn", "un"), "un chat"]], {}, r"pairs 1:2: 'un chat' is not a pair"),
    call=count_wrong,
)
test_files_that_are_none = refusals(
    (lambda corpus, tmp_path: count([corpus[1]] * 2, tmp_path / "c.parquet"), "nway.tsv is given twice"),
    (lambda corpus: WordCounts.load(corpus[0]), "not of word counts"),
    (lambda corpus: WordCounts.load(corpus[1]), "not a Parquet file"),
    (lambda: WordCounts.load("nothing.parquet"), "no such file of counts", FileNotFoundError),
)


def test_bad_rows_can_be_skipped_after_they_stopped_the_count(tmp_path, caplog):
    file = tmp_path / "a.tsv"
    file.write_text("lang\ttext\nfra_Latn\tun\nfrench\tdeux\nfra_Latn\nfra_Latn\ttrois\n")
    refuses("a.tsv:3: lang: unknown .*french.* set on_bad_row to skip", count, file, tmp_path / "c.parquet")
    counts = count(file, tmp_path / "c.parquet", on_bad_row="skip")
    assert as_counters(counts) == {("fra_Latn", "monolingual"): Counter({" un": 1, " trois": 1})}
    assert "skipped 2 bad rows" in caplog.text
