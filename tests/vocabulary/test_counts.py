"""Word counts against collections.Counter; balancing by hand; interrupted counts;
wrong input in one line."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pyarrow.parquet as pq
import pytest

from hf_echo.data import formats, parts
from hf_echo.data.sampling import unimax
from hf_echo.vocabulary.counts import WordCounts, count_words
from hf_echo.vocabulary.pretokenizer import PATTERNS, split_words

from ..refusals import refusals, refuses

FRA = ["le chat dort", "le chien dort aussi", "l'été, déjà !", "Le chat dort"]
HIN = ["मैं स्कूल जाता हूँ", "वह स्कूल जाती है"]
ENG = ["the cat sleeps", "the dog sleeps too", "summer, already!", "The cat sleeps"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (formats, parts):
        monkeypatch.setattr(module, "BLOCK", 3)
    monkeypatch.setattr("hf_echo.vocabulary.counts.BATCH", 200)
    monkeypatch.setattr("hf_echo.vocabulary.counts.SPLIT", 5)


@pytest.fixture
def corpus(tmp_path):
    """A file of pairs (fra, eng), an n-way table (hin, eng) with a split, and a plain text."""
    rng = random.Random(0)
    rows = [rng.randrange(4) for _ in range(29)]
    pairs = pd.DataFrame({"src": [FRA[row] for row in rows], "tgt": [ENG[row] for row in rows]})
    pairs.assign(src_lang="fra_Latn", tgt_lang="eng_Latn").to_parquet(tmp_path / "pairs.parquet")
    nway = [
        (0, "hin_Deva", HIN[0], "train"),
        (0, "eng_Latn", ENG[0], "train"),
        (1, "hin_Deva", HIN[1], "dev"),
        (1, "eng_Latn", ENG[1], "dev"),
    ]
    table = pd.DataFrame(nway * 6, columns=["id", "lang", "text", "split"])
    table.to_csv(tmp_path / "nway.tsv", sep="\t", index=False)
    (tmp_path / "news.khm_Khmr.txt").write_text("ភាសាខ្មែរ\n\nខ្ញុំ ទៅ សាលា\n" * 5, encoding="utf-8")
    return [tmp_path / name for name in ("pairs.parquet", "nway.tsv", "news.khm_Khmr.txt")]


def expected(corpus, pattern="echo") -> dict[tuple[str, str], Counter]:
    """(language, kind) -> the words of its texts."""
    pairs = pd.read_parquet(corpus[0])
    nway = pd.read_csv(corpus[1], sep="\t").query("split == 'train'")
    texts_of = {
        ("fra_Latn", "parallel"): pairs.src,
        ("eng_Latn", "parallel"): pairs.tgt,
        ("hin_Deva", "monolingual"): nway[nway.lang == "hin_Deva"].text,
        ("eng_Latn", "monolingual"): nway[nway.lang == "eng_Latn"].text,
        ("khm_Khmr", "monolingual"): corpus[2].read_text(encoding="utf-8").split("\n"),
    }
    words_of = {}
    for key, texts_of_key in texts_of.items():
        words_of[key] = Counter()
        for text in texts_of_key:
            words_of[key].update(split_words(text, pattern))
    return words_of


def as_counters(counts: WordCounts) -> dict[tuple[str, str], Counter]:
    """{(language, kind of word): counts} of a file of counts."""
    tables: dict[tuple[str, str], Counter] = {}
    for row in pq.read_table(counts.path).to_pylist():
        tables.setdefault((row["lang"], row["kind"]), Counter())[row["word"]] += row["count"]
    distinct_words = sum(len(words) for words in tables.values())
    assert distinct_words == len(pq.read_table(counts.path))  # no word twice
    return tables


def count(sources, out, **options) -> WordCounts:
    return count_words(sources, out, progress=False, **options)


@pytest.fixture(params=["echo", "llama3"])
def counts(request, corpus, tmp_path):
    return count(corpus, tmp_path / "counts.parquet", pattern=request.param)


def test_counts_equal_a_counter(counts, corpus):
    assert as_counters(counts) == expected(corpus, counts.pattern)


@pytest.fixture
def mixed_folder(tmp_path):
    """A folder of a table and of plain text, which its name gives a language, or nothing does."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "pairs.tsv").write_text("lang\ttext\neng_Latn\ta cat\n", encoding="utf-8")
    (folder / "news.fra_Latn.txt").write_text("un chat\n", encoding="utf-8")
    (folder / "notes.txt").write_text("my notes\n", encoding="utf-8")
    return folder


def test_plain_text_of_a_folder_is_counted(mixed_folder, tmp_path, caplog):
    counts = count(mixed_folder, tmp_path / "counts.parquet")

    assert as_counters(counts) == {
        ("eng_Latn", "monolingual"): Counter({" a": 1, " cat": 1}),
        ("fra_Latn", "monolingual"): Counter({" un": 1, " chat": 1}),
    }
    assert "left out (1, such as notes.txt)" in caplog.text


def test_the_caller_names_the_language_of_a_folder(mixed_folder, tmp_path, caplog):
    (mixed_folder / "pairs.tsv").unlink()

    counts = count(mixed_folder, tmp_path / "counts.parquet", lang="fra_Latn")

    words = as_counters(counts)[("fra_Latn", "monolingual")]
    assert set(words) == {" un", " chat", " my", " notes"}
    assert not caplog.text


@pytest.mark.parametrize("header", ["", "source\ttarget\n", "fr\ten\n", "English\tFrench\n"])
def test_the_caller_names_the_languages_of_pairs_without_columns_for_them(tmp_path, header):
    """Python's counters of the same texts; a header named by languages says which column is
    which."""
    rows = [f"{french}\t{english}" for french, english in zip(FRA, ENG, strict=True)]
    if header.startswith("English"):
        rows = [f"{english}\t{french}" for french, english in zip(FRA, ENG, strict=True)]
    file = tmp_path / "pairs.tsv"
    file.write_text(header + "\n".join(rows) + "\n", encoding="utf-8")

    counts = count([file], tmp_path / "c.parquet", langs=("fr", "English"))

    expected_words = {}
    for lang, texts in (("fra_Latn", FRA), ("eng_Latn", ENG)):
        words = Counter()
        for text in texts:
            words.update(split_words(text, "echo"))
        expected_words[lang, "parallel"] = words
    assert as_counters(counts) == expected_words


def test_columns_of_languages_count_where_the_caller_names_others(corpus, tmp_path):
    named = count(corpus, tmp_path / "named.parquet", langs=("deu_Latn", "ita_Latn"))
    assert as_counters(named) == expected(corpus)


def test_totals_are_those_of_the_counters(counts, corpus):
    # Python's counters over the same texts.
    words_of = expected(corpus, counts.pattern)
    assert len(counts.entries) == len(words_of)
    for entry in counts.entries:
        words = words_of[entry.lang, entry.kind]
        assert entry.words == words.total()
        assert entry.distinct == len(words)
        assert entry.characters == sum(len(word) * times for word, times in words.items())


def test_sentences_by_hand(counts):
    sentences = [(entry.lang, entry.kind, entry.sentences) for entry in counts.entries]
    assert sentences == [
        ("eng_Latn", "monolingual", 6),
        ("eng_Latn", "parallel", 29),
        ("fra_Latn", "parallel", 29),
        ("hin_Deva", "monolingual", 6),
        ("khm_Khmr", "monolingual", 10),
    ]
    assert counts.languages == ["eng_Latn", "fra_Latn", "hin_Deva", "khm_Khmr"]


def test_rows_are_ordered(counts):
    rows = pq.read_table(counts.path).to_pylist()
    keys = [(row["lang"], row["kind"], -row["count"], row["word"].encode()) for row in rows]
    assert keys == sorted(keys)


def test_counts_are_opened_as_they_were_written(counts):
    assert counts.regex == PATTERNS[counts.pattern]
    assert WordCounts.load(counts.path) == counts


def test_another_pattern_than_that_of_the_counts_is_refused(counts):
    counts.check_pattern(counts.pattern)
    (other,) = PATTERNS.keys() - {counts.pattern}
    refuses(
        f"'{counts.pattern}', the tokenizer has '{other}': count again with",
        counts.check_pattern,
        other,
    )


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_texts_with_any_white_space_are_split_as_a_whole(tmp_path, pattern):
    """The count divides texts at single spaces first."""
    rng = random.Random(0)
    letters = [
        *"ab1'.,-(’%_é🙂",
        "\u0301",
        "'s",
        "...",
        "123456",
        "ក្ម",
        "हूँ",
        "ཀ་",
        "中文",
        *" " * 6,
    ]
    spaces = [
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\x1c",
        "\x85",
        "\u180e",
        "\u200b",
    ]
    # Every other text holds spaces that are no space to Python's split.
    rows = []
    words = Counter()
    for number in range(600):
        characters = letters if number % 2 == 0 else letters + spaces
        text = "".join(rng.choices(characters, k=rng.randrange(1, 12)))
        if text.strip():
            rows.append(("fra_Latn", text))
            words.update(split_words(text, pattern))

    counts = count([rows], tmp_path / "c.parquet", pattern=pattern)

    # Whole texts, split by the pattern at once.
    assert as_counters(counts) == {("fra_Latn", "monolingual"): words}


def test_an_iterable_of_languages_with_texts(tmp_path):
    """An iterable, a language outside the table, one that has a region, a decomposed letter,
    and a long word."""
    pairs = [
        ("xyz_Latn", "e\u0301te\u0301"),
        ("por_Latn_BR", "uma casa"),
        ("xyz_Latn", " \u00e9t\u00e9 "),
    ] * 4
    pairs.append(("tha_Thai", "ก" * 150))
    counts = count([iter(pairs)], tmp_path / "c.parquet", kind="parallel")
    assert as_counters(counts) == {
        ("xyz_Latn", "parallel"): Counter({" été": 8}),
        ("por_Latn_BR", "parallel"): Counter({" uma": 4, " casa": 4}),
        ("tha_Thai", "parallel"): Counter({" " + "ก" * 99: 1, "ก" * 51: 1}),
    }


def hand_made(tmp_path) -> WordCounts:
    """fra has both kinds, 10 and 40 characters; deu one kind, 20; wol one kind, 2."""
    rows = ["aa bb\taa ccccc d\tfra_Latn\tdeu_Latn", "aaa\teeeeeeee\tfra_Latn\tdeu_Latn"]
    (tmp_path / "pairs.tsv").write_text(
        "\n".join(["source\ttarget\tsource_lang\ttarget_lang", *rows]) + "\n"
    )
    monolingual = [("fra_Latn", "bbb " * 10), ("wol_Latn", "z")]
    return count([tmp_path / "pairs.tsv", monolingual], tmp_path / "hand.parquet")


def test_shares_are_unimax_over_characters(tmp_path):
    counts = hand_made(tmp_path)
    assert counts.characters == {"fra_Latn": 50, "deu_Latn": 20, "wol_Latn": 2}
    assert counts.shares() == pytest.approx(unimax(counts.characters))


def test_balanced_by_hand(tmp_path):
    """A third for each language (fewer than 126 languages); fra half parallel, half monolingual."""
    third = Fraction(1, 3)
    shares = {
        " ccccc": third / 20,
        " d": third / 20,
        " eeeeeeee": third / 20,
        " bb": third / 2 / 10,
        " aaa": third / 2 / 10,
        " aa": third / 2 / 10 + third / 20,
        " bbb": third / 2 * 10 / 40,
        " z": third / 2,
    }
    total = 1_000_003

    balanced = hand_made(tmp_path).balanced(total=total)

    # Exact fractions, rounded half up.
    half = Fraction(1, 2)
    rounded = {
        word: int(share * total / sum(shares.values()) + half) for word, share in shares.items()
    }
    assert balanced == rounded
    assert list(balanced) == sorted(rounded, key=lambda word: (-rounded[word], word))
    assert {type(times) for times in balanced.values()} == {int}


def test_upsampling_is_limited(tmp_path):
    shares = hand_made(tmp_path).shares(top_n=1, max_upsampling=5)
    assert shares == pytest.approx({"fra_Latn": 5 / 11, "deu_Latn": 5 / 11, "wol_Latn": 1 / 11})


def test_language_weights(tmp_path):
    shares = hand_made(tmp_path).shares(language_weights={"wol_Latn": 4})
    assert shares == pytest.approx({"fra_Latn": 1 / 6, "deu_Latn": 1 / 6, "wol_Latn": 4 / 6})


def test_a_language_of_weight_zero_has_no_words(tmp_path):
    assert " z" not in hand_made(tmp_path).balanced(language_weights={"wol_Latn": 0})


def test_rare_words_are_left_out(tmp_path):
    assert hand_made(tmp_path).balanced(min_count=2) == {" bbb": 10**9}


def test_words_of_frequency_zero_are_left_out(tmp_path):
    # 2.05 and 0.51; " aa" has 0.41
    assert hand_made(tmp_path).balanced(total=4) == {
        " z": 2,
        " bbb": 1,
    }


@pytest.mark.parametrize(
    "options, message",
    [
        ({"language_weights": {"ell_Grek": 2}}, "'ell_Grek', which .*hand.parquet does not have"),
        ({"language_weights": {"fra_Latn": -1}}, "fra_Latn has weight -1"),
        (
            {"language_weights": {"fra_Latn": 0, "deu_Latn": 0, "wol_Latn": 0}},
            "no sizes; give at least one language",
        ),
        ({"min_count": 99}, "no word was seen 99 times: lower the smallest count"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    refuses(message, hand_made(tmp_path).balanced, **options)


def without_characters(counts: WordCounts, lang: str) -> WordCounts:
    entries = []
    for entry in counts.entries:
        entries.append(replace(entry, characters=0) if entry.lang == lang else entry)
    return replace(counts, entries=tuple(entries))


def test_an_empty_language_needs_weight_zero(tmp_path):
    counts = without_characters(hand_made(tmp_path), "wol_Latn")
    refuses("'wol_Latn' has size 0", counts.balanced)
    assert " z" not in counts.balanced(language_weights={"wol_Latn": 0})


def stop_after(monkeypatch, batches: int) -> list:
    """Interrupt the count after so many batches of texts (-1: never);
    the list gets the batches that were counted."""
    import hf_echo.vocabulary.counts as counting

    all_batches = counting._batches
    counted = []

    def some_batches(tables):
        for batch in all_batches(tables):
            if len(counted) == batches:
                raise KeyboardInterrupt
            counted.append(batch)
            yield batch

    monkeypatch.setattr(counting, "_batches", some_batches)
    return counted


def assert_same(counts: WordCounts, other: WordCounts) -> None:
    assert counts.entries == other.entries
    assert pq.read_table(counts.path).equals(pq.read_table(other.path))


def test_an_interrupted_count_resumes_at_its_first_unfinished_file(corpus, tmp_path, monkeypatch):
    out = tmp_path / "c.parquet"
    with monkeypatch.context() as patch:
        all_batches = stop_after(patch, -1)
        whole = count(corpus, tmp_path / "whole.parquet")
    with monkeypatch.context() as patch:
        stop_after(patch, len(all_batches) - 1)  # within the last file
        with pytest.raises(KeyboardInterrupt):
            count(corpus, out)
    assert not out.exists()

    with monkeypatch.context() as patch:
        later_batches = stop_after(patch, -1)
        resumed = count(corpus, out, on_bad_row="skip")  # bad rows of a later file may be skipped

    assert len(later_batches) < len(all_batches) // 2
    assert_same(resumed, whole)
    assert not (tmp_path / "c.parquet.unfinished").exists()


@pytest.fixture
def unfinished(corpus, tmp_path):
    """The output of a count that stopped at a wrong last file."""
    empty = tmp_path / "empty.fra_Latn.txt"
    empty.write_text("\n")
    refuses("empty.fra_Latn.txt: no row", count, [*corpus, empty], tmp_path / "c.parquet")
    return tmp_path / "c.parquet"


def test_a_wrong_file_keeps_what_was_counted(corpus, unfinished, tmp_path, monkeypatch):
    whole = count(corpus, tmp_path / "whole.parquet")
    batches = stop_after(monkeypatch, 0)
    assert_same(count(corpus, unfinished), whole)
    assert not batches


@pytest.mark.parametrize("options", [{"pattern": "llama3"}, {"kind": "monolingual"}])
def test_another_setting_is_refused(corpus, unfinished, options):
    with pytest.raises(
        ValueError, match=r"pairs.parquet or a setting .* changed .* delete .*c.parquet.unfinished"
    ):
        count(corpus[:1], unfinished, **options)


def test_a_file_of_the_same_size_with_another_text_is_refused(corpus, unfinished):
    corpus[1].write_text(corpus[1].read_text().replace("cat", "cot"))
    refuses("nway.tsv or a setting has changed", count, corpus, unfinished)


def test_two_counts_into_one_file(corpus, tmp_path):
    (tmp_path / "c.parquet.unfinished").write_bytes(b"no database" * 1000)
    refuses(
        r"c.parquet.unfinished cannot be opened: another count into .* runs",
        count,
        corpus,
        tmp_path / "c.parquet",
    )


def count_wrong(sources, options, tmp_path):
    if isinstance(sources, str):
        (tmp_path / sources).write_text(options)
        sources = tmp_path / sources
        options = {}
    count(sources, tmp_path / "c.parquet", **options)


PAIRS = [[("fra_Latn", "un chat")]]
test_bad_input_is_one_line = refusals(
    (
        "a.tsv",
        "src\ttgt\tsrc_lang\ttgt_lang\nun\t\tfra_Latn\teng_Latn\n",
        r"a\.tsv:2: tgt is empty",
    ),
    ("a.tsv", "lang\ttext\n", r"a\.tsv: no row to count"),
    (
        "a.tsv",
        "lang\ttext\tsplit\nfra_Latn\tun\tdev\n",
        r"a\.tsv: no row of split 'train' to count",
    ),
    (
        "a.tsv",
        "langue\ttexte\nfra_Latn\tun\n",
        r"neither source, .* nor lang and text \(found: langue, texte\)",
    ),
    (
        "a.tsv",
        "un chat\ta cat\n",
        r"\(found: un chat, a cat\): .* --source-lang .* \(two columns without header need both\)",
    ),
    ("a.txt", "un\n", r"a\.txt: unknown language: name the file like fra_Latn\.txt"),
    (PAIRS, {"lang": "frenchish"}, "unknown language 'frenchish'"),
    (["nothing.tsv"], {}, "nothing.tsv: no such file", FileNotFoundError),
    ([], {}, "no sources"),
    call=count_wrong,
)
test_files_that_are_none = refusals(
    (
        lambda corpus, tmp_path: count([corpus[1]] * 2, tmp_path / "c.parquet"),
        "nway.tsv is given twice",
    ),
    (lambda corpus: WordCounts.load(corpus[0]), "not of word counts"),
    (lambda corpus: WordCounts.load(corpus[1]), "not a Parquet file"),
    (lambda: WordCounts.load("nothing.parquet"), "no such file of counts", FileNotFoundError),
)


def test_bad_rows_can_be_skipped_after_they_stopped_the_count(tmp_path, caplog):
    file = tmp_path / "a.tsv"
    file.write_text("lang\ttext\nfra_Latn\tun\nfrenchish\tdeux\nfra_Latn\nfra_Latn\ttrois\n")
    refuses(
        "a.tsv:3: lang: unknown .*frenchish.* set on_bad_row to skip",
        count,
        file,
        tmp_path / "c.parquet",
    )
    counts = count(file, tmp_path / "c.parquet", on_bad_row="skip")
    assert as_counters(counts) == {("fra_Latn", "monolingual"): Counter({" un": 1, " trois": 1})}
    assert "skipped 2 bad rows" in caplog.text
