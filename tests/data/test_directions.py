"""Rows of the teacher-student stages: directions, English with itself, single sentences, temperature."""

from collections import Counter

import pytest
from datasets import Dataset

from hf_echo.data.directions import extension_pairs, monolingual, resample

from ..refusals import refusals


def rows(*directions):
    numbered = [(s, t, i) for s, t, n in directions for i in range(n)]
    languages = dict(source_lang=[s for s, *_ in numbered], target_lang=[t for _, t, _ in numbered])
    texts = dict(source=[f"{s} {i}" for s, _, i in numbered], target=[f"{t} {i % 3}" for _, t, i in numbered])
    return Dataset.from_dict(texts | languages | {"provenance": ["primary"] * len(numbered)})


INTO = [("fra_Latn", "eng_Latn", 4), ("deu_Latn", "fra_Latn", 3)]
INTO += [("tat_Cyrl", "fra_Latn", 2), ("tat_Cyrl", "eng_Latn", 5)]
DATA = rows(*INTO, ("eng_Latn", "fra_Latn", 2), ("fra_Latn", "tat_Cyrl", 2))
BASE = ["eng_Latn", "fra_Latn", "deu_Latn"]


def directions(dataset):
    return Counter(zip(dataset["source_lang"], dataset["target_lang"]))


def test_targets_are_base_and_english_comes_only_to_itself():
    found = extension_pairs(DATA, BASE)
    assert directions(found) == {(s, t): n for s, t, n in [*INTO, ("eng_Latn", "eng_Latn", 3)]}
    english = found.filter(lambda row: row["source_lang"] == "eng_Latn")
    assert english["source"] == english["target"] and len(set(english["source"])) == 3
    # Never into a worse language.
    found = directions(extension_pairs(DATA, BASE, {"eng_Latn": 0.0, "deu_Latn": 2.0, "fra_Latn": 3.0}))
    assert ("deu_Latn", "fra_Latn") not in found  # 2 to 3
    assert ("tat_Cyrl", "fra_Latn") in found and ("fra_Latn", "eng_Latn") in found  # new is worst
    found = directions(extension_pairs(DATA, BASE, {"eng_Latn": 0.0, "deu_Latn": 3.0, "fra_Latn": 3.0}))
    assert found["deu_Latn", "fra_Latn"] == 3  # equal
    by_source = rows(("fra_Latn", "eng_Latn", 2), ("deu_Latn", "eng_Latn", 2), ("eng_Latn", "fra_Latn", 9))
    assert directions(extension_pairs(by_source, BASE))["eng_Latn", "eng_Latn"] == 2  # of 9, as the largest source has
    found = extension_pairs(DATA, BASE, english_rows=2, seed=1)
    assert directions(found)["eng_Latn", "eng_Latn"] == 2
    assert found["source"] == extension_pairs(DATA, BASE, english_rows=2, seed=1)["source"]


test_nothing_left = refusals(
    (lambda: extension_pairs(DATA, ["ita_Latn"]), "no direction is left: base languages are ita_Latn, directions are"),
    (lambda: monolingual(DATA, ["ita_Latn"]), "no text is in ita_Latn; the data hold deu_Latn, eng_Latn"),
)


def test_monolingual_is_every_text_once():
    found = monolingual(DATA, ["fra_Latn"])
    assert found["source"] == found["target"] and set(found["source_lang"]) == {"fra_Latn"}
    want = {r["source"] for r in DATA if r["source_lang"] == "fra_Latn"}
    want |= {r["target"] for r in DATA if r["target_lang"] == "fra_Latn"}
    assert sorted(found["source"]) == sorted(want)
    assert set(monolingual(DATA)["source_lang"]) == {*BASE, "tat_Cyrl"}


@pytest.mark.parametrize("exponent", [1.0, 0.6, 0.0])
def test_resample_has_the_proportions(exponent):
    data = rows(("fra_Latn", "eng_Latn", 900), ("tat_Cyrl", "eng_Latn", 100))
    counts = Counter(resample(data, exponent)["source_lang"])
    share = 0.1**exponent / (0.1**exponent + 0.9**exponent)
    assert counts["tat_Cyrl"] == round(1000 * share) and sum(counts.values()) == 1000
    assert len(resample(rows(*((f"l{i:02}", "eng_Latn", 1 + i % 3) for i in range(40))), exponent)) == 79


def test_resample_repeats_as_little_as_it_can():
    data = rows(("fra_Latn", "eng_Latn", 90), ("tat_Cyrl", "eng_Latn", 10))
    found = resample(data, 0.0, seed=3)
    tatar = Counter(text for text in found["source"] if text.startswith("tat"))
    assert set(tatar.values()) == {5} and len(tatar) == 10
    french = Counter(text for text in found["source"] if text.startswith("fra"))
    assert max(french.values()) == 1 and len(french) == 50
    assert found["source"] == resample(data, 0.0, seed=3)["source"] != resample(data, 0.0, seed=4)["source"]
