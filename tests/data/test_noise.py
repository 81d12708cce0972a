"""Noise of texts: what each kind looks like, that it is drawn by text and seed alone,
and how xsim measures it."""

from collections import Counter

import numpy as np
import pytest

from hf_echo.data.noise import CASES, KINDS, noisy
from hf_echo.data.normal_form import normal_forms
from hf_echo.evaluation import evaluate_noise
from hf_echo.vocabulary.normalization import clean_text

TEXT = "Die Katze schläft unbekümmert."
EXPECTED = {
    "capitals": "DIE KATZE SCHLÄFT UNBEKÜMMERT.",
    "first word in capitals": "DIE Katze schläft unbekümmert.",
    "lower case": "die katze schläft unbekümmert.",
    "no-break spaces": "Die\u00a0Katze\u00a0schläft\u00a0unbekümmert.",
    "tabs": "Die\tKatze\tschläft\tunbekümmert.",
    "double spaces": "Die  Katze  schläft  unbekümmert.",
    "soft hyphens": "Die Katze schläft unbek\u00adümmert.",
    "byte order mark": "\ufeffDie Katze schläft unbekümmert.",
    "zero-width space": "Die Katze schläft \u200bunbekümmert.",
}


@pytest.mark.parametrize(("kind", "text"), EXPECTED.items())
def test_a_kind_changes_the_text(kind, text):
    assert noisy(TEXT, kind) == text


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(CASES)))
def test_the_normalizer_takes_back_all_but_case(kind):
    assert clean_text().normalize_str(EXPECTED[kind]) == TEXT


@pytest.mark.parametrize("kind", CASES)
def test_the_normalizer_does_not_take_back_case(kind):
    assert clean_text().normalize_str(EXPECTED[kind]) != TEXT


def test_every_kind_is_expected():
    assert set(EXPECTED) == set(KINDS)


def test_case_of_turkish():
    assert noisy("Iğdır'da iyi", "capitals", lang="tur_Latn") == "IĞDIR'DA İYİ"
    assert noisy("Iğdır İyi", "lower case", lang="tur_Latn") == "ığdır iyi"


def test_texts_too_short_for_a_kind():
    assert noisy("", "zero-width space") == "\u200b"
    assert noisy("猫", "soft hyphens") == "猫"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("lang", "text"),
    [("deu_Latn", "Die große Straße."), ("ell_Grek", "δρόμος"), ("hye_Armn", "և Եվ")],
)
def test_noisy_forms_have_one_normal_form(lang, text, kind):
    """So no form of a target is a negative of another
    (`source_key` and `target_key` of tokenized rows)."""
    plain, changed = normal_forms([text, noisy(text, kind, lang=lang)])

    assert changed == plain


def test_different_texts_have_different_normal_forms():
    texts = ["Let's talk.", "Let's talk!", "Lets talk.", "Let's walk.", "a<b", "a>b", "猫"]

    assert len(set(normal_forms(texts))) == len(texts)


@pytest.fixture
def numbered() -> list[str]:
    return [f"{TEXT} {number}" for number in range(400)]


def drawn(texts, seed: int) -> list[str]:
    return [noisy(text, seed=seed) for text in texts]


def test_a_drawn_kind_follows_from_the_seed(numbered):
    assert drawn(numbered, seed=3) == drawn(numbered, seed=3)
    assert drawn(numbered, seed=3) != drawn(numbered, seed=4)


def test_three_quarters_of_drawn_kinds_change_case(numbered):
    """Of 400; the bounds are more than four standard deviations."""
    changed_cases = 0
    for text in numbered:
        changed_cases += noisy(text, seed=3) in {noisy(text, kind) for kind in CASES}

    assert 0.65 < changed_cases / 400 < 0.85


NUMBERS = ["unbekümmert eins", "unbekümmert zwei", "unbekümmert drei", "unbekümmert vier"]


class LowerCaseReader:
    """An encoder by the lower-case text: it reads capitals, but no other characters;
    it counts its calls."""

    def __init__(self):
        self.calls = Counter()

    def __call__(self, texts, lang):
        self.calls[lang] += 1
        rows = [NUMBERS.index(text.lower()) if text.lower() in NUMBERS else 4 for text in texts]
        return np.eye(5)[rows]


def nway_rows(lang: str) -> list[dict]:
    """Four sentences in this language and, the same, in English."""
    rows = []
    for code in (lang, "eng_Latn"):
        rows += [{"id": number, "lang": code, "text": text} for number, text in enumerate(NUMBERS)]
    return rows


def worse_by_noise(table) -> dict[str, float]:
    return {row["noise"]: row["worse"] for row in table.rows}


def test_xsim_with_noise_counts_what_an_encoder_cannot_read():
    """Nothing is worse by case; without a text equal scores go to the first sentence,
    and three are wrong."""
    table = evaluate_noise(LowerCaseReader(), nway_rows("deu_Latn"), limit=4)

    worse = worse_by_noise(table)
    assert table.rows[0] == {"noise": "none", "xsim": 0.0, "worse": 0.0, "deu_Latn": 0.0}
    assert {kind for kind in worse if worse[kind] == 0} == {"none", *CASES}
    assert worse["soft hyphens"] == 75.0
    assert worse["tabs"] == 75.0


def test_xsim_with_noise_encodes_the_target_once():
    encode = LowerCaseReader()

    evaluate_noise(encode, nway_rows("deu_Latn"), limit=4)

    assert encode.calls == {"deu_Latn": 1 + len(KINDS), "eng_Latn": 1}


def test_xsim_with_noise_knows_the_case_of_a_language():
    """In Turkish the capital of i is İ, which lower() does not turn back."""
    table = evaluate_noise(LowerCaseReader(), nway_rows("tur_Latn"))

    assert worse_by_noise(table)["capitals"] == 75.0


def test_xsim_with_noise_needs_the_target_language():
    with pytest.raises(ValueError, match="no rows in 'fra_Latn': found"):
        evaluate_noise(LowerCaseReader(), nway_rows("deu_Latn"), target_lang="fra_Latn")
