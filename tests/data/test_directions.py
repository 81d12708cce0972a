"""Rows of the teacher-student stages: directions, English with itself, single sentences, temperature."""

from collections import Counter

import pytest
from datasets import Dataset

from hf_echo.data.directions import extension_pairs, monolingual, resample


def rows(*directions):
    return Dataset.from_list(
        [
            dict(source=f"{s} {i}", source_lang=s, target=f"{t} {i % 3}", target_lang=t, provenance="primary")
            for s, t, n in directions
            for i in range(n)
        ]
    )


DATA = rows(
    ("fra_Latn", "eng_Latn", 4),
    ("eng_Latn", "fra_Latn", 2),
    ("deu_Latn", "fra_Latn", 3),
    ("tat_Cyrl", "fra_Latn", 2),
    ("fra_Latn", "tat_Cyrl", 2),
    ("tat_Cyrl", "eng_Latn", 5),
)
BASE = ["eng_Latn", "fra_Latn", "deu_Latn"]


def directions(dataset):
    return Counter(zip(dataset["source_lang"], dataset["target_lang"]))


def test_targets_are_base_and_english_comes_only_to_itself():
    assert directions(extension_pairs(DATA, BASE)) == {
        ("fra_Latn", "eng_Latn"): 4,
        ("deu_Latn", "fra_Latn"): 3,
        ("tat_Cyrl", "fra_Latn"): 2,
        ("tat_Cyrl", "eng_Latn"): 5,
        ("eng_Latn", "eng_Latn"): 3,
    }
    english = extension_pairs(DATA, BASE).filter(lambda row: row["source_lang"] == "eng_Latn")
    assert english["source"] == english["target"] and len(set(english["source"])) == 3


def test_never_into_a_worse_language():
    found = directions(extension_pairs(DATA, BASE, {"eng_Latn": 0.0, "deu_Latn": 2.0, "fra_Latn": 3.0}))
    assert ("deu_Latn", "fra_Latn") not in found  # 2 to 3
    assert ("tat_Cyrl", "fra_Latn") in found and ("fra_Latn", "eng_Latn") in found  # new is worst


def test_number_of_english_rows_and_seed():
    found = extension_pairs(DATA, BASE, english_rows=2, seed=1)
    assert directions(found)["eng_Latn", "eng_Latn"] == 2
    assert found["source"] == extension_pairs(DATA, BASE, english_rows=2, seed=1)["source"]


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="no direction is left: base languages are ita_Latn, directions are"):
        extension_pairs(DATA, ["ita_Latn"])


def test_monolingual_is_every_text_once():
    found = monolingual(DATA, ["fra_Latn"])
    assert found["source"] == found["target"] and set(found["source_lang"]) == {"fra_Latn"}
    want = {r["source"] for r in DATA if r["source_lang"] == "fra_Latn"}
    want |= {r["target"] for r in DATA if r["target_lang"] == "fra_Latn"}
    assert sorted(found["source"]) == sorted(want)
    assert set(monolingual(DATA)["source_lang"]) == {*BASE, "tat_Cyrl"}
    with pytest.raises(ValueError, match="no text is in ita_Latn; the data hold deu_Latn, eng_Latn"):
        monolingual(DATA, ["ita_Latn"])


@pytest.mark.parametrize("exponent", [1.0, 0.6, 0.0])
def test_resample_has_the_proportions(exponent):
    data = rows(("fra_Latn", "eng_Latn", 900), ("tat_Cyrl", "eng_Latn", 100))
    counts = Counter(resample(data, exponent)["source_lang"])
    share = 0.1**exponent / (0.1**exponent + 0.9**exponent)
    assert counts["tat_Cyrl"] == round(1000 * share) and sum(counts.values()) == 1000


def test_resample_repeats_as_little_as_it_can():
    data = rows(("fra_Latn", "eng_Latn", 90), ("tat_Cyrl", "eng_Latn", 10))
    found = resample(data, 0.0, seed=3)
    tatar = Counter(text for text in found["source"] if text.startswith("tat"))
    assert set(tatar.values()) == {5} and len(tatar) == 10
    french = Counter(text for text in found["source"] if text.startswith("fra"))
    assert max(french.values()) == 1 and len(french) == 50
    assert found["source"] == resample(data, 0.0, seed=3)["source"] != resample(data, 0.0, seed=4)["source"]
