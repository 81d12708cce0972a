"""Deduplication keys against loops over strings, and MinHash against exact Jaccard similarity."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from hf_echo.data.pipeline.filters import ExactDuplicates, NearDuplicates
from hf_echo.data.pipeline.filters.duplicates import bands_for, grams, signatures
from hf_echo.data.pipeline.filters.normal_form import normal_forms

PAIRS = [
    ("un", "one"),
    ("deux", "two"),
    ("UN ", "uno"),
    ("trois", "Two"),
    ("un", "one"),
    ("four", "quatre"),
    ("cinq", "FOUR"),
]


@pytest.mark.parametrize(
    ("side", "kept"),
    [
        ("source", [0, 1, 3, 5, 6]),
        ("target", [0, 1, 2, 5, 6]),
        ("either", [0, 1, 5, 6]),
        ("both", [0, 1, 2, 3, 5, 6]),
        ("corpus", [0, 1, 5]),
    ],
)
def test_sides(rows, first_of_keys, side, kept):
    assert first_of_keys(ExactDuplicates(side=side), rows(*PAIRS)) == kept


def test_a_dropped_row_does_not_count_against_others(rows, first_of_keys):
    # row 1 goes for its source; its target is then new in row 2
    assert first_of_keys(ExactDuplicates(), rows(("a", "x"), ("a", "y"), ("b", "y"))) == [0, 2]


def test_language_in_the_key(rows, first_of_keys):
    table = rows(("OK", "a"), ("OK", "b"), ("OK", "c"), source_lang=["fra_Latn", "deu_Latn", "fra_Latn"])
    assert first_of_keys(ExactDuplicates(side="source"), table) == [0]
    assert first_of_keys(ExactDuplicates(side="source", by_language=True), table) == [0, 1]


def test_normal_forms():
    assert normal_forms(["  Straße\t№ 5 "]) == ["strasse no 5"]
    assert normal_forms(["ﬁne", "ＡＢ", "e\u0301"]) == ["fine", "ab", "é"]
    assert normal_forms(["Well, 3 cats!"], ("punctuation",)) == ["well 3 cats"]
    assert normal_forms(["Well, 3 cats!"], ("punctuation", "digits")) == ["well cats"]
    assert normal_forms(["!!!", "हिन्दी।"], ("punctuation",)) == ["!!!", "हिन्दी"]  # marks are no punctuation


@pytest.mark.parametrize(
    ("kind", "sign"),
    {
        "soft hyphen": "\u00ad",
        "zero-width space": "\u200b",
        "zero-width non-joiner": "\u200c",
        "word joiner": "\u2060",
        "byte order mark": "\ufeff",
        "left-to-right mark": "\u200e",
        "right-to-left isolate": "\u2067",
        "Arabic letter mark": "\u061c",
        "variation selector": "\ufe0f",
        "ideographic variation selector": "\U000e0100",
        "combining grapheme joiner": "\u034f",
    }.items(),
)
def test_invisible_signs_do_not_make_another_text(rows, first_of_keys, kind, sign):
    texts = [f"l'{sign}été", f"{sign}l'été", f"l'été{sign}", f"l'é{sign}té"]
    assert normal_forms(texts) == ["l'été"] * 4
    assert first_of_keys(ExactDuplicates(side="source"), rows(("l'été", "a"), *((text, "b") for text in texts))) == [0]


def test_apostrophes_and_quotation_marks_are_alike():
    assert set(normal_forms([f"l{sign}eau" for sign in "'’‘ʼ′`＇"])) == {"l'eau"}
    assert set(normal_forms(["l'eau", "l’eau pure"])) == {"l'eau", "l'eau pure"}
    assert set(normal_forms([f"{a}oui{b}" for a, b in ('""', "“”", "„“", "″″")])) == {'"oui"'}


def test_folding_keeps_the_normal_form():
    """The normal form of a normal form is itself, for every character (Unicode's toNFKC_Casefold)."""
    texts = [f"a{chr(c)}b" for c in range(0x20, 0x30000) if unicodedata.category(chr(c)) not in ("Cs", "Cn")]
    forms = normal_forms(texts)
    assert normal_forms(forms) == forms


def test_exact_keys_agree_with_equality_of_forms(rows):
    generator = random.Random(0)
    texts = ["".join(generator.choices("aAbB .é", k=generator.randint(0, 4))) for _ in range(400)]
    keys = ExactDuplicates(side="source").keys(rows(*((t, "x") for t in texts)))[:, 0]
    forms = normal_forms(texts)
    for i in range(400):
        assert (keys[i] == 0) == (not forms[i])
        assert [keys[i] == keys[j] for j in range(400)] == [forms[i] == forms[j] for j in range(400)]


def _jaccard(a: str, b: str, n: int) -> float:
    x, y = ({text[i : i + n] for i in range(len(text) - n + 1)} for text in (a, b))
    return len(x & y) / len(x | y)


def _noisy_pairs(count: int) -> list[tuple[str, str]]:
    generator, pairs = random.Random(1), []
    for _ in range(count):
        text = "".join(generator.choices("abcdefghijklmnopqrstuvwxyz ", k=120)).strip()
        other = list(text)
        for place in generator.sample(range(len(text)), generator.randint(0, 12)):
            other[place] = generator.choice("0123456789")
        pairs.append((text, "".join(other)))
    return pairs


def test_signatures_estimate_jaccard():
    pairs = _noisy_pairs(100)
    a, b = (signatures(list(texts), 5, 1, 256) for texts in zip(*pairs))
    error = (a == b).mean(axis=1) - [_jaccard(*pair, 5) for pair in pairs]
    assert np.abs(error).max() < 4 * 0.5 / 16 and abs(error.mean()) < 0.02  # standard error of 256 draws: <= 1/32


def test_near_duplicates_are_found_as_often_as_banding_says(rows):
    pairs = _noisy_pairs(600)
    filter_ = NearDuplicates(side="either", threshold=0.7)
    keys = filter_.keys(rows(*pairs))
    bands, length = bands_for(0.7, 64)
    assert keys.shape == (600, 2 * bands) and not filter_.shared_keys
    met = (keys[:, :bands] == keys[:, bands:]).any(axis=1)
    similarity = np.array([_jaccard(*pair, 5) for pair in pairs])
    assert met[similarity > 0.9].mean() > 0.97 and met[similarity < 0.4].mean() < 0.1
    expected = 1 - (1 - similarity**length) ** bands
    assert abs(met.mean() - expected.mean()) < 0.04


def test_near_duplicates_of_short_texts_are_equal_ones(rows, first_of_keys):
    table = rows(("Save file", "a"), ("Save files", "b"), ("save file!", "c"), ("", "d"), (" ", "e"))
    assert first_of_keys(NearDuplicates(side="source"), table) == [0, 1, 3, 4]


def test_near_duplicates_in_the_whole_corpus(rows, first_of_keys):
    text = " ".join(f"word{i}" for i in range(60))
    table = rows((text, "a"), ("x", text + " more"), (text.replace("word7 ", "other "), "b"), ("y", "c"))
    assert first_of_keys(NearDuplicates(side="corpus"), table) == [0, 3]
    assert first_of_keys(NearDuplicates(side="either"), table) == [0, 1, 3]


def test_grams_are_those_of_a_loop():
    texts = ["", "ab", "abcab", "xabcabx", "abc"]
    tokens = np.array([ord(c) for text in texts for c in text], np.uint64)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    hashes, starts = grams(tokens, offsets, 3, 1)
    expected = [[text[i : i + 3] for i in range(len(text) - 2)] or [text] for text in texts]
    assert np.diff(starts).tolist() == [len(row) for row in expected]
    flat = [gram for row in expected for gram in row]
    assert [[a == b for b in flat] for a in flat] == [[a == b for b in hashes] for a in hashes]


@pytest.mark.parametrize(("threshold", "size"), [(0.5, 32), (0.8, 64), (0.9, 128)])
def test_bands_are_the_best_of_all(threshold, size):
    bands, length = bands_for(threshold, size)
    assert bands * length <= size

    def wrong(b: int, r: int) -> float:
        s = np.linspace(0.0005, 0.9995, 1000)
        hit = 1 - (1 - s**r) ** b
        return hit[s < threshold].sum() + (1 - hit[s >= threshold]).sum()

    assert wrong(bands, length) == min(wrong(b, r) for r in range(1, size + 1) for b in range(1, size // r + 1))
