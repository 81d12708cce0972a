"""Deduplication keys against loops over strings."""

import random
import unicodedata

import pytest

from hf_echo.data.normal_form import normal_forms
from hf_echo.data.pipeline.filters import ExactDuplicates

PAIRS = [("un", "one"), ("deux", "two"), ("UN ", "uno"), ("trois", "Two"), ("un", "one"), ("four", "quatre")]
PAIRS.append(("cinq", "FOUR"))
KEPT = {"source": [0, 1, 3, 5, 6], "target": [0, 1, 2, 5, 6], "either": [0, 1, 5, 6], "both": [0, 1, 2, 3, 5, 6]}
KEPT["corpus"] = [0, 1, 5]


def test_sides(rows, first_of_keys):
    assert {side: first_of_keys(ExactDuplicates(side=side), rows(*PAIRS)) for side in KEPT} == KEPT
    # row 1 goes for its source; its target is then new in row 2
    assert first_of_keys(ExactDuplicates(), rows(("a", "x"), ("a", "y"), ("b", "y"))) == [0, 2]
    table = rows(("OK", "a"), ("OK", "b"), ("OK", "c"), source_lang=["fra_Latn", "deu_Latn", "fra_Latn"])
    assert first_of_keys(ExactDuplicates(side="source"), table) == [0]
    assert first_of_keys(ExactDuplicates(side="source", by_language=True), table) == [0, 1]
    both = ExactDuplicates(side="both", by_language=True)
    assert first_of_keys(both, rows(("ab", "c"), ("a", "bc"), ("a", "bc"))) == [0, 1]
    turned = rows(("a", "a"), ("a", "a"), source_lang=["fra_Latn", "deu_Latn"], target_lang=["deu_Latn", "fra_Latn"])
    assert first_of_keys(both, turned) == [0, 1]


def test_normal_forms():
    assert normal_forms(["  Straße\t№ 5 "]) == ["strasse no 5"]
    assert normal_forms(["ﬁne", "ＡＢ", "e\u0301"]) == ["fine", "ab", "é"]
    assert normal_forms(["Well, 3 cats!"], ("punctuation",)) == ["well 3 cats"]
    assert normal_forms(["Well, 3 cats!"], ("punctuation", "digits")) == ["well cats"]
    assert normal_forms(["!!!", "हिन्दी।"], ("punctuation",)) == ["!!!", "हिन्दी"]  # marks are no punctuation
    assert set(normal_forms([f"l{sign}eau" for sign in "'’‘ʼ′`＇"])) == {"l'eau"}
    assert set(normal_forms([f"rendez{sign}vous" for sign in "-‐‑−－"])) == {"rendez-vous"}
    assert set(normal_forms(["l'eau", "l’eau pure"])) == {"l'eau", "l'eau pure"}
    assert set(normal_forms([f"{a}oui{b}" for a, b in ('""', "“”", "„“", "″″")])) == {'"oui"'}


# soft hyphen, zero-width non-joiner, byte order mark, right-to-left isolate, variation selector
@pytest.mark.parametrize("sign", ["\u00ad", "\u200c", "\ufeff", "\u2067", "\ufe0f"])
def test_invisible_signs_do_not_make_another_text(rows, first_of_keys, sign):
    texts = [f"l'{sign}été", f"{sign}l'été", f"l'été{sign}", f"l'é{sign}té"]
    assert normal_forms(texts) == ["l'été"] * 4
    assert first_of_keys(ExactDuplicates(side="source"), rows(("l'été", "a"), *((text, "b") for text in texts))) == [0]


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
