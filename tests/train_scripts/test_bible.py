"""The Bible builder on small editions with known errors:
removed verses, kept verses, and the report."""

import json
import random
from pathlib import Path

import bible
import bible_filters as filters
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from bible import build_bible
from bible_filters import label_of
from bible_sources import find_sources
from sacrebleu.metrics import CHRF

from hf_echo.data import load_nway, load_parallel

from ..refusals import refuses

# A small Bible in invented languages, with known translations: 60 verses to train on, 10 for dev,
# 10 for test.
VERSES = [f"GEN {chapter}:{verse}" for chapter in (1, 2, 3) for verse in range(1, 21)]
VERSES += [f"JHN {chapter}:{verse}" for chapter in (1, 11) for verse in range(1, 11)]
TRAIN = 60
HELD_OUT = 10
CODES = ["eng", "fra", "spa", "deu", "rus", "por", "ita", "nld", "pol", "ces", "fin", "hun", "tur"]
PIVOTS = ["deu_Latn", "eng_Latn", "fra_Latn", "rus_Cyrl", "spa_Latn"]
_rng = random.Random(7)
MEANINGS = {verse: [_rng.randrange(300) for _ in range(_rng.randint(6, 14))] for verse in VERSES}


def edition(code: str, number: int = 0) -> dict[str, str]:
    """An edition of a language: source 0 has the usual words;
    the others replace every fourth word."""
    letters = "абвгдежзиклмнопрстуфхцчшщэюя" if code == "rus" else "abcdefghijklmnopqrstuvwxyz"
    of_language = random.Random(code)
    lexicon = [
        "".join(of_language.choices(letters, k=of_language.randint(4, 6))) for _ in range(300)
    ]
    if number:
        of_edition = random.Random(f"{code}{number}")
        for place in range(300):
            if of_edition.random() < 0.25:
                lexicon[place] = "".join(of_edition.choices(letters, k=5))
    return {
        verse: " ".join(lexicon[word] for word in meaning) + "."
        for verse, meaning in MEANINGS.items()
    }


def garbage(texts: dict[str, str]) -> dict[str, str]:
    """Imitate OCR of a bad scan: lengths stay, most letters change."""
    rng = random.Random(3)
    scanned = {}
    for verse, text in texts.items():
        letters = [rng.choice("klmnop|1;") if c != " " and rng.random() < 0.6 else c for c in text]
        scanned[verse] = "".join(letters)
    return scanned


def write(folder: Path, lang: str, name: str, texts: dict[str, str]) -> None:
    (folder / lang).mkdir(parents=True, exist_ok=True)
    lines = [f"{verse}\t{text}\n" for verse, text in texts.items()]
    (folder / lang / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def words(text: str) -> set[str]:
    return set(text.replace(".", "").split())


LEXICONS = {code: words(" ".join(edition(code).values())) for code in CODES}


def lid(texts: list[str]) -> list[str | None]:
    """Identify a language by its words; None for a text without known words."""
    codes = []
    for text in texts:
        counts = {code: len(lexicon & words(text)) for code, lexicon in LEXICONS.items()}
        best = max(counts, key=counts.get)
        codes.append(best if counts[best] else None)
    return codes


class Built:
    """A built Bible: its report, also by source, its verses and its removed verses."""

    def __init__(self, sources: Path, out: Path, **options):
        self.out = out
        self.report = build_bible(find_sources([sources]), out, progress=False, **options)
        self.by_source = {row["source"]: row for row in self.report["by_source"]}
        self.verses = pq.read_table(out / "nway.parquet").to_pandas()
        self.removed = pq.read_table(out / "removed.parquet").to_pandas()


@pytest.fixture(scope="module")
def clean_sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for code in CODES:
        write(folder, code, "a", edition(code))
    return folder


@pytest.fixture(scope="module")
def clean(clean_sources, tmp_path_factory):
    """The Bible of one sound edition of each language."""
    return Built(clean_sources, tmp_path_factory.mktemp("out"))


@pytest.fixture
def folder(clean_sources, tmp_path):
    """The sound editions, to which a test adds."""
    copy = tmp_path / "in"
    for file in clean_sources.rglob("*.tsv"):
        target = copy / file.relative_to(clean_sources)
        target.parent.mkdir(parents=True)
        target.write_bytes(file.read_bytes())
    return copy


def test_clean_sources_lose_nothing(clean):
    assert clean.removed.empty
    assert clean.report["sources"] == clean.report["languages"] == len(CODES)
    assert clean.report["verses"] == {
        "train": TRAIN * 13,
        "dev": HELD_OUT * 13,
        "test": HELD_OUT * 13,
    }


def test_each_language_is_paired_with_the_pivots_of_other_languages(clean):
    assert clean.report["pairs"]["dev"] == dict.fromkeys(PIVOTS, HELD_OUT * 12)
    pairs = load_parallel(clean.out / "pairs", split="test")
    assert len(pairs) == 5 * HELD_OUT * 12
    assert set(pairs["provenance"]) == {"primary"}


def test_a_pair_is_one_verse_in_two_languages(clean):
    pairs = load_parallel(clean.out / "pairs", split="test").to_pandas()
    of_languages = pairs[(pairs.source_lang == "tur_Latn") & (pairs.target_lang == "rus_Cyrl")]

    found = dict(zip(of_languages.source, of_languages.target))

    turkish = edition("tur")
    russian = edition("rus")
    assert found == {
        turkish[verse]: russian[verse] for verse in VERSES if verse.startswith("JHN 11:")
    }


def test_the_nway_table_is_read_by_the_package(clean):
    assert len(load_nway(clean.out / "nway.parquet", split=None)) == len(VERSES) * 13


def test_the_texts_on_the_way_are_not_left(clean):
    assert not list(clean.out.glob(".texts*"))


@pytest.fixture(scope="module")
def faulty(clean_sources, tmp_path_factory):
    """Finnish with two more sound editions, a bad scan, shifted verses and a Hungarian text;
    Italian with two long verses in one and an empty one."""
    folder = tmp_path_factory.mktemp("faulty")
    for code in CODES:
        write(folder, code, "a", edition(code))
    for number in (1, 2):
        write(folder, "fin", f"good{number}", edition("fin", number))
    write(folder, "fin", "ocr", garbage(edition("fin", 3)))
    swapped = edition("fin", 4)
    texts = list(swapped.values())
    write(folder, "fin", "swapped", dict(zip(swapped, texts[50:] + texts[:50])))
    write(folder, "fin", "mislabelled", edition("hun", 1))
    merged = edition("ita")
    merged["GEN 1:4"] += " " + merged["GEN 1:5"] + " " + merged["GEN 1:6"]
    merged["GEN 1:7"] = "  \u00a0 "
    write(folder, "ita", "a", merged)
    return Built(folder, tmp_path_factory.mktemp("out"), lid=lid)


@pytest.mark.parametrize("name", ["ocr", "swapped"])
def test_a_source_unlike_the_others_is_removed(faulty, name):
    assert faulty.by_source[name]["removed"] == "quality"
    assert faulty.by_source[name]["quality"] < 0.75
    assert faulty.report["removed_sources"] == {"quality": 2}


def test_a_sound_second_edition_stays(faulty):
    assert faulty.by_source["good1"]["removed"] is None
    assert faulty.by_source["good1"]["quality"] > 0.85
    finnish = faulty.verses[faulty.verses.lang == "fin_Latn"]
    assert set(finnish.source) == {"a", "good1", "good2"}


def test_a_mislabelled_source_gets_its_language(faulty):
    assert faulty.by_source["mislabelled"]["lang"] == "hun_Latn"
    assert faulty.by_source["mislabelled"]["predicted"] == "hun"
    relabelled = [(row["source"], row["lang"]) for row in faulty.report["relabelled"]]
    assert relabelled == [("mislabelled", "hun_Latn")]


def test_long_verses_are_removed_with_a_reason_as_empty_ones_are(faulty):
    italian = faulty.removed[faulty.removed.lang == "ita_Latn"]

    reasons = dict(zip(italian.id, italian.reason))

    assert reasons == {"GEN 1:4": "crosslingual length", "GEN 1:7": "empty"}


def test_every_verse_is_kept_or_removed_once(faulty):
    both = pd.concat([faulty.verses, faulty.removed])
    assert not both.duplicated(["lang", "source", "id"]).any()
    assert len(both) == len(VERSES) * (len(CODES) + 5)
    assert sum(faulty.report["removed_verses"].values()) == len(faulty.removed)


def test_held_out_verses_are_those_of_the_best_source_which_comes_first(faulty):
    finnish = faulty.verses[faulty.verses.lang == "fin_Latn"]
    best = [
        row["source"]
        for row in faulty.report["by_source"]
        if row["best"] and row["lang"] == "fin_Latn"
    ]
    assert set(finnish[finnish.split != "train"].source) == set(best)
    assert [finnish.source.iloc[0]] == best


def test_the_report_is_written(faulty):
    assert json.loads((faulty.out / "report.json").read_text()) == faulty.report


@pytest.fixture
def with_second_english(folder):
    """Another English edition, which lacks one verse; returns its texts."""
    second = edition("eng", 1)
    del second["GEN 2:1"]
    write(folder, "eng", "z", second)
    return second


def english_targets(out: Path) -> set[str]:
    pairs = load_parallel(out / "pairs").to_pandas()
    return set(pairs[(pairs.source_lang == "fra_Latn") & (pairs.target_lang == "eng_Latn")].target)


def test_a_scorer_chooses_the_pivot_text(folder, with_second_english, tmp_path):
    first = edition("eng")
    only_second = set(with_second_english.values()) - set(first.values())

    def likes_second(a, b, a_langs, b_langs):
        return [float(x in only_second or y in only_second) for x, y in zip(a, b, strict=True)]

    Built(folder, tmp_path / "out", scorer=likes_second)

    chosen = with_second_english | {"GEN 2:1": first["GEN 2:1"]}  # only one source has it
    assert english_targets(tmp_path / "out") == {
        text for verse, text in chosen.items() if verse.startswith("GEN")
    }


def test_without_a_scorer_the_pivot_text_is_the_best_source(folder, with_second_english, tmp_path):
    Built(folder, tmp_path / "out", sample=20)

    chosen = edition("eng")
    assert english_targets(tmp_path / "out") == {
        text for verse, text in chosen.items() if verse.startswith("GEN")
    }


def test_a_scorer_of_another_shape_is_refused(folder, with_second_english, tmp_path):
    message = r"the scorer returned shape \(1,\) for"
    refuses(message, Built, folder, tmp_path / "out", scorer=lambda *columns: [1.0])


def test_the_same_sources_give_the_same_bytes(folder, with_second_english, tmp_path):
    first = Built(folder, tmp_path / "first", sample=20)
    again = Built(folder, tmp_path / "again", sample=20)
    for name in ("nway.parquet", "removed.parquet", "pairs/train.parquet", "report.json"):
        assert (first.out / name).read_bytes() == (again.out / name).read_bytes()


@pytest.fixture(scope="module")
def finnish():
    """Three editions as `mutual_chrf` takes them: number of the verse -> text;
    the last lacks the first forty."""
    editions = [pd.Series(list(edition("fin", number).values())) for number in range(3)]
    editions[2] = editions[2][40:]
    return editions


@pytest.fixture(scope="module")
def mean_chrf(finnish):
    """By sacrebleu: the mean of each edition against the two others,
    on the verses that both have."""
    corpus_score = CHRF(word_order=2).corpus_score
    means = []
    for texts in finnish:
        scores = []
        for others in finnish:
            if others is not texts:
                shared = texts.index.intersection(others.index)
                scores.append(corpus_score(list(texts[shared]), [list(others[shared])]).score)
        means.append(sum(scores) / 2)
    return means


def test_chrf_is_that_of_sacrebleu(finnish, mean_chrf):
    assert filters.mutual_chrf(finnish, sample=None) == pytest.approx(mean_chrf)


def test_chrf_of_a_sample_is_near_that_of_all(finnish, mean_chrf):
    assert filters.mutual_chrf(finnish, sample=20) == pytest.approx(mean_chrf, abs=15)


def test_an_edition_alone_has_no_chrf(finnish):
    assert filters.mutual_chrf(finnish[:1]) == [None]


def test_outliers_within_a_language():
    verse = np.array([0, 0, 0, 1, 1, 2])
    length = np.array([100, 110, 200, 50, 52, 9])

    outliers = filters.monolingual_outliers(verse, length, 0.4)

    # means 136.7, 51, 9: only 200 lies more than 40 % away
    assert outliers.tolist() == [False, False, True, False, False, False]


@pytest.fixture
def many_languages():
    """lang, verse and length of 200 verses in 20 languages, each with a scale of its own;
    and the scales."""
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.3, 2, 20)
    base = rng.uniform(40, 200, 200)
    length = base * scale[:, None] * rng.normal(1, 0.05, (20, 200))
    lang, verse = np.divmod(np.arange(4000), 200)
    return lang, verse, length.ravel(), scale


def test_factors_are_the_scales_of_the_languages(many_languages):
    lang, verse, length, scale = many_languages

    factors = filters.language_factors(lang, verse, length)

    assert factors / factors.mean() == pytest.approx(scale / scale.mean(), rel=0.02)


def test_two_verses_in_one_are_an_outlier_across_languages(many_languages):
    lang, verse, length, _ = many_languages
    place = 3 * 200 + 7
    length[place] *= 2

    outliers = np.flatnonzero(filters.crosslingual_outliers(lang, verse, length))

    assert place in outliers
    assert len(outliers) < 10


def test_nobody_lies_three_deviations_off_among_ten(many_languages):
    lang, verse, length, _ = many_languages
    length[3 * 200 + 7] *= 2
    few = lang < 10
    assert not filters.crosslingual_outliers(lang[few], verse[few], length[few]).any()


def test_factors_do_not_depend_on_which_books_a_language_has():
    rng = np.random.default_rng(1)
    # a book of short verses, one of long ones
    base = np.concatenate([np.full(50, 50.0), np.full(50, 200.0)])
    lang = np.repeat([0, 1, 2], [100, 50, 50])
    verse = np.concatenate([np.arange(100), np.arange(50), np.arange(50, 100)])
    scale = np.array([1, 0.5, 0.5])
    length = base[verse] * scale[lang] * rng.normal(1, 0.01, 200)

    factors = filters.language_factors(lang, verse, length)

    assert factors[1:] / factors[0] == pytest.approx(0.5, rel=0.02)


RUSSIAN = ["В начале было Слово"]
CHINESE = ["太初有道，道與神同在"]
JAPANESE = ["初めに言があった。言は神と共にあった"]


@pytest.mark.parametrize(
    "texts, script", [(RUSSIAN, "Cyrl"), (CHINESE, "Hani"), (JAPANESE, "Jpan"), (["1 2 3"], None)]
)
def test_script_of_a_text(texts, script):
    assert filters.script_of(texts) == script


@pytest.mark.parametrize(
    "texts, declared, predictions, lang",
    [
        (RUSSIAN, "ru", None, "rus_Cyrl"),
        (RUSSIAN, "aai", None, "aai_Cyrl"),  # no table knows Arifama-Miniafia; its script is seen
        (CHINESE, "zho_Hant", None, "zho_Hant"),
        (CHINESE, "zho_Hant", ["cmn"], "zho_Hant"),
        (CHINESE, "zh", ["zho_Hant"], "zho_Hant"),
        (RUSSIAN * 4, "bul", ["rus", "rus", "rus", "bul"], "rus_Cyrl"),
        (RUSSIAN * 4, "bul", ["rus", None, "ukr", "bul"], "bul_Cyrl"),  # no majority
        (RUSSIAN, None, None, None),
    ],
)
def test_label_of_texts(texts, declared, predictions, lang):
    identify = predictions and (lambda texts: predictions)
    assert label_of(texts, declared, identify).lang == lang


def test_a_label_has_the_share_of_the_prediction():
    label = label_of(RUSSIAN * 4, "bul", lambda texts: ["rus", "rus", "rus", "bul"])
    assert label == ("rus_Cyrl", "rus", 0.75)


def test_a_prediction_that_does_not_contradict_changes_nothing():
    label = label_of(
        RUSSIAN,
        "aai",
        lambda texts: ["rus"],
        contradicts=lambda code, predicted: code != "aai_Cyrl",
    )
    assert label.lang == "aai_Cyrl"


@pytest.fixture
def broken_folder(folder):
    """An edition that is not UTF-8, and one with a row of an unknown book."""
    (folder / "xho").mkdir()
    (folder / "xho" / "b.usfm").write_bytes(b"\\id GEN\n\\c 1\n\\p\n\\v 1 \xff\n")
    write(folder, "zul", "odd", {"GEN 1:1": "x" * 40, "XYZ 1:1": "y"})
    return folder


def test_a_broken_file_stops_the_build(broken_folder, tmp_path):
    refuses(r"b.usfm:4: not UTF-8", Built, broken_folder, tmp_path / "out")


def test_a_broken_row_stops_the_build(broken_folder, tmp_path):
    (broken_folder / "xho" / "b.usfm").unlink()
    refuses(r"odd.tsv:2: unknown book 'XYZ'", Built, broken_folder, tmp_path / "out")


def test_broken_files_are_skipped_by_flag(broken_folder, tmp_path):
    report = Built(broken_folder, tmp_path / "out", on_bad="skip").report

    (unreadable,) = report["unreadable"]
    assert "b.usfm:4: not UTF-8" in unreadable["reason"]
    assert "skipped 1 bad row (unknown book 'XYZ'" in report["bad_rows"]
    assert "odd.tsv:2" in report["bad_rows"]


def test_a_ces_file_tells_its_own_language(folder, tmp_path):
    segments = []
    for verse, text in edition("por", 5).items():
        place = verse.replace("JHN", "JOH").replace(" ", ".").replace(":", ".")
        segments.append(f'<seg id="b.{place}" type="verse">{text}</seg>\n')
    header = '<cesDoc><language id="gv" iso639="glv">Manx</language>\n'
    (folder / "Manx.xml").write_text(header + "".join(segments) + "</cesDoc>", encoding="utf-8")

    manx = Built(folder, tmp_path / "out").by_source["Manx"]

    assert manx["lang"] == "glv_Latn"
    assert manx["declared"] == "glv"
    assert manx["kept"] == len(VERSES)


def test_the_command_prints_the_report(clean_sources, tmp_path, run_main):
    code, out, _ = run_main(
        bible.main, clean_sources, "--out", tmp_path / "out", "--pivots", "eng,fr"
    )

    report = json.loads(out)
    assert code == 0
    assert report["languages"] == 13
    assert set(report["pairs"]["train"]) == {"eng_Latn", "fra_Latn"}


def test_the_command_names_a_missing_folder(tmp_path, main_refused):
    main_refused("no file or folder", bible.main, tmp_path / "none", "--out", tmp_path / "out")


def test_the_command_asks_for_an_unknown_language(tmp_path, run_main):
    (tmp_path / "plain.tsv").write_text("GEN 1:1\thello there\n")

    code, _, err = run_main(bible.main, tmp_path / "plain.tsv", "--out", tmp_path / "out")

    assert code == 2
    assert "unknown language; write fra_Latn=" in err


def test_the_command_refuses_another_way_with_bad_rows(clean_sources, tmp_path, main_refused):
    words = [bible.main, clean_sources, "--out", tmp_path / "out", "--on-bad", "sometimes"]
    main_refused("on_bad_row is 'sometimes'", *words)
