"""Rows of the teacher-student stages: directions, English with itself, single sentences,
temperature."""

from collections import Counter

import pytest
from datasets import Dataset

from hf_echo.data.directions import extension_pairs, monolingual, resample

from ..refusals import refusals

BASE = ["eng_Latn", "fra_Latn", "deu_Latn"]


def pairs(*directions: tuple[str, str, int]) -> Dataset:
    """Rows of (source language, target language, number);
    targets of a direction repeat after three rows."""
    columns = {
        name: [] for name in ("source", "source_lang", "target", "target_lang", "provenance")
    }
    for source_lang, target_lang, number in directions:
        for row in range(number):
            columns["source"].append(f"{source_lang} {row}")
            columns["source_lang"].append(source_lang)
            columns["target"].append(f"{target_lang} {row % 3}")
            columns["target_lang"].append(target_lang)
            columns["provenance"].append("primary")
    return Dataset.from_dict(columns)


def sizes_of_directions(dataset: Dataset) -> Counter:
    return Counter(zip(dataset["source_lang"], dataset["target_lang"], strict=True))


@pytest.fixture
def data() -> Dataset:
    """Into base languages from base ones and from Tatar, which is new;
    and two directions out of English and French."""
    return pairs(
        ("fra_Latn", "eng_Latn", 4),
        ("deu_Latn", "fra_Latn", 3),
        ("tat_Cyrl", "fra_Latn", 2),
        ("tat_Cyrl", "eng_Latn", 5),
        ("eng_Latn", "fra_Latn", 2),
        ("fra_Latn", "tat_Cyrl", 2),
    )


# Pairs of the extension (OS 4.5.2)


def test_targets_are_base_languages(data):
    """Three English targets differ, and become rows of English to itself."""
    selected = extension_pairs(data, BASE)

    assert sizes_of_directions(selected) == {
        ("fra_Latn", "eng_Latn"): 4,
        ("deu_Latn", "fra_Latn"): 3,
        ("tat_Cyrl", "fra_Latn"): 2,
        ("tat_Cyrl", "eng_Latn"): 5,
        ("eng_Latn", "eng_Latn"): 3,
    }


def test_english_comes_only_to_itself(data):
    english = extension_pairs(data, BASE).filter(lambda row: row["source_lang"] == "eng_Latn")

    assert english["source"] == english["target"]
    assert len(set(english["source"])) == 3


def test_no_pair_goes_into_a_worse_language(data):
    """German has 2 % of errors and French 3 %: German may not learn from French."""
    selected = extension_pairs(data, BASE, {"eng_Latn": 0.0, "deu_Latn": 2.0, "fra_Latn": 3.0})

    assert ("deu_Latn", "fra_Latn") not in sizes_of_directions(selected)
    assert ("fra_Latn", "eng_Latn") in sizes_of_directions(selected)


def test_a_new_language_is_worse_than_every_base_language(data):
    selected = extension_pairs(data, BASE, {"eng_Latn": 0.0, "deu_Latn": 2.0, "fra_Latn": 3.0})

    assert ("tat_Cyrl", "fra_Latn") in sizes_of_directions(selected)


def test_pairs_of_equally_good_languages_stay(data):
    selected = extension_pairs(data, BASE, {"eng_Latn": 0.0, "deu_Latn": 3.0, "fra_Latn": 3.0})

    assert sizes_of_directions(selected)["deu_Latn", "fra_Latn"] == 3


def test_english_has_no_more_rows_than_the_largest_source():
    """Nine English texts, and two rows of each other source language."""
    data = pairs(
        ("fra_Latn", "eng_Latn", 2), ("deu_Latn", "eng_Latn", 2), ("eng_Latn", "fra_Latn", 9)
    )

    selected = extension_pairs(data, BASE)

    assert sizes_of_directions(selected)["eng_Latn", "eng_Latn"] == 2


def test_number_of_english_rows_can_be_chosen(data):
    selected = extension_pairs(data, BASE, english_rows=2, seed=1)

    assert sizes_of_directions(selected)["eng_Latn", "eng_Latn"] == 2


def test_the_same_seed_draws_the_same_english_rows(data):
    first = extension_pairs(data, BASE, english_rows=2, seed=1)
    second = extension_pairs(data, BASE, english_rows=2, seed=1)

    assert first["source"] == second["source"]


# Single sentences


def test_monolingual_is_every_text_once(data):
    """Of sources and targets, as a loop over the rows finds them."""
    french_texts = set()
    for row in data:
        for side in ("source", "target"):
            if row[f"{side}_lang"] == "fra_Latn":
                french_texts.add(row[side])

    selected = monolingual(data, ["fra_Latn"])

    assert sorted(selected["source"]) == sorted(french_texts)
    assert selected["target"] == selected["source"]
    assert set(selected["source_lang"]) == {"fra_Latn"}


def test_monolingual_without_languages_takes_all(data):
    assert set(monolingual(data)["source_lang"]) == {*BASE, "tat_Cyrl"}


DATA_WITHOUT_ITALIAN = pairs(("fra_Latn", "eng_Latn", 1), ("deu_Latn", "fra_Latn", 1))
test_nothing_left = refusals(
    (
        lambda: extension_pairs(DATA_WITHOUT_ITALIAN, ["ita_Latn"]),
        "no direction is left: base languages are ita_Latn, directions are",
    ),
    (
        lambda: monolingual(DATA_WITHOUT_ITALIAN, ["ita_Latn"]),
        "no text is in ita_Latn; the data hold deu_Latn, eng_Latn, fra_Latn",
    ),
)


# Temperature


@pytest.mark.parametrize("exponent", [1.0, 0.6, 0.0])
def test_resample_has_the_proportions_of_the_formula(exponent):
    """p ~ (n / N) ** exponent, for 900 and 100 rows."""
    data = pairs(("fra_Latn", "eng_Latn", 900), ("tat_Cyrl", "eng_Latn", 100))
    tatar_share = 0.1**exponent / (0.1**exponent + 0.9**exponent)

    counts = Counter(resample(data, exponent)["source_lang"])

    assert counts["tat_Cyrl"] == round(1000 * tatar_share)
    assert counts.total() == 1000


@pytest.mark.parametrize("exponent", [1.0, 0.6, 0.0])
def test_resample_keeps_the_number_of_rows(exponent):
    """Of 40 small languages every share is rounded, but none of the 79 rows gets lost."""
    directions = [(f"l{number:02}", "eng_Latn", 1 + number % 3) for number in range(40)]

    assert len(resample(pairs(*directions), exponent)) == 79


@pytest.fixture
def uniform_sample() -> Dataset:
    """50 rows each of a language with 90 and one with 10."""
    return resample(pairs(("fra_Latn", "eng_Latn", 90), ("tat_Cyrl", "eng_Latn", 10)), 0.0, seed=3)


def test_resample_repeats_a_small_language_evenly(uniform_sample):
    tatar = Counter(text for text in uniform_sample["source"] if text.startswith("tat"))

    assert len(tatar) == 10
    assert set(tatar.values()) == {5}


def test_resample_repeats_no_row_of_a_large_language(uniform_sample):
    french = Counter(text for text in uniform_sample["source"] if text.startswith("fra"))

    assert len(french) == 50
    assert set(french.values()) == {1}


def test_resample_depends_on_its_seed(uniform_sample):
    data = pairs(("fra_Latn", "eng_Latn", 90), ("tat_Cyrl", "eng_Latn", 10))

    assert resample(data, 0.0, seed=3)["source"] == uniform_sample["source"]
    assert resample(data, 0.0, seed=4)["source"] != uniform_sample["source"]
