"""Deduplication keys against loops over strings."""

import random
import unicodedata

import numpy as np
import pytest

from hf_echo.data.normal_form import normal_forms
from hf_echo.data.pipeline.filters import ExactDuplicates

PAIRS = [
    ("un", "one"),
    ("deux", "two"),
    ("UN ", "uno"),  # the source of row 0
    ("trois", "Two"),  # the target of row 1
    ("un", "one"),  # row 0
    ("four", "quatre"),
    ("cinq", "FOUR"),  # its target is a source of row 5
]


@pytest.mark.parametrize(
    ("side", "kept_rows"),
    [
        ("source", [0, 1, 3, 5, 6]),
        ("target", [0, 1, 2, 5, 6]),
        ("either", [0, 1, 5, 6]),
        ("both", [0, 1, 2, 3, 5, 6]),
        ("corpus", [0, 1, 5]),
    ],
)
def test_side_says_which_texts_must_be_new(rows, first_of_keys, side, kept_rows):
    assert first_of_keys(ExactDuplicates(side=side), rows(*PAIRS)) == kept_rows


def test_texts_of_a_dropped_row_are_still_new(rows, first_of_keys):
    """Row 1 goes for its source; its target is then new in row 2."""
    table = rows(("a", "x"), ("a", "y"), ("b", "y"))

    assert first_of_keys(ExactDuplicates(), table) == [0, 2]


def test_equal_texts_of_two_languages_are_duplicates(rows, first_of_keys):
    table = rows(("OK", "a"), ("OK", "b"), source_lang=["fra_Latn", "deu_Latn"])

    assert first_of_keys(ExactDuplicates(side="source"), table) == [0]


def test_key_of_a_pair_knows_where_the_source_ends(rows, first_of_keys):
    table = rows(("ab", "c"), ("a", "bc"), ("a", "bc"))

    assert first_of_keys(ExactDuplicates(side="both"), table) == [0, 1]


# Normal forms


@pytest.mark.parametrize(
    ("text", "normal_form"),
    [
        ("  Straße\t№ 5 ", "strasse no 5"),  # spaces, case, compatibility characters
        ("ﬁne", "fine"),
        ("ＡＢ", "ab"),
        ("e\u0301", "é"),
    ],
)
def test_normal_form_of_a_text(text, normal_form):
    assert normal_forms([text]) == [normal_form]


@pytest.mark.parametrize("apostrophe", "'’‘ʼ′`＇")
def test_apostrophes_have_one_normal_form(apostrophe):
    assert normal_forms([f"l{apostrophe}eau"]) == ["l'eau"]


@pytest.mark.parametrize("hyphen", "-‐‑−－")
def test_hyphens_have_one_normal_form(hyphen):
    assert normal_forms([f"rendez{hyphen}vous"]) == ["rendez-vous"]


@pytest.mark.parametrize("quotes", ['""', "“”", "„“", "″″"])
def test_quotation_marks_have_one_normal_form(quotes):
    assert normal_forms([f"{quotes[0]}oui{quotes[1]}"]) == ['"oui"']


# soft hyphen, zero-width non-joiner, byte order mark, right-to-left isolate, variation selector
INVISIBLE = ["\u00ad", "\u200c", "\ufeff", "\u2067", "\ufe0f"]


@pytest.mark.parametrize("sign", INVISIBLE)
@pytest.mark.parametrize("text", ["l'{}été", "{}l'été", "l'été{}", "l'é{}té"])
def test_invisible_signs_do_not_make_another_text(rows, first_of_keys, sign, text):
    with_sign = text.format(sign)

    assert normal_forms([with_sign]) == ["l'été"]
    assert first_of_keys(
        ExactDuplicates(side="source"), rows(("l'été", "a"), (with_sign, "b"))
    ) == [0]


def test_normal_form_of_a_normal_form_is_itself():
    """For every character (Unicode's toNFKC_Casefold)."""
    texts = []
    for number in range(0x20, 0x30000):
        character = chr(number)
        if unicodedata.category(character) not in ("Cs", "Cn"):
            texts.append(f"a{character}b")

    forms = normal_forms(texts)

    assert normal_forms(forms) == forms


@pytest.fixture
def short_texts():
    """400 texts, many of them equal but for case and spaces."""
    generator = random.Random(0)
    return ["".join(generator.choices("aAbB .é", k=generator.randint(0, 4))) for _ in range(400)]


@pytest.fixture
def keys(rows, short_texts):
    table = rows(*[(text, "x") for text in short_texts])
    return ExactDuplicates(side="source").keys(table)[:, 0]


def test_keys_are_equal_where_normal_forms_are(short_texts, keys):
    forms = np.array(normal_forms(short_texts))

    has_equal_key = keys[:, None] == keys
    has_equal_form = forms[:, None] == forms
    np.testing.assert_array_equal(has_equal_key, has_equal_form)


def test_an_empty_form_has_the_key_0(short_texts, keys):
    forms = np.array(normal_forms(short_texts))

    np.testing.assert_array_equal(keys == 0, forms == "")
