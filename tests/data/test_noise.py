"""Noise of texts: what each kind looks like, that it is drawn by text and seed alone, and how xsim measures it."""

from collections import Counter

import numpy as np
import pytest

from hf_echo.data.noise import CASES, KINDS, noisy
from hf_echo.data.normal_form import normal_forms
from hf_echo.evaluation import evaluate_noise
from hf_echo.vocabulary.normalization import clean_text

from ..refusals import refuses

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


@pytest.mark.parametrize(("kind", "text"), EXPECTED.items())
def test_the_normalizer_takes_back_all_but_case(kind, text):
    assert (clean_text().normalize_str(text) == TEXT) == (kind not in CASES)


def test_every_kind_is_expected():
    assert set(EXPECTED) == set(KINDS)


def test_case_of_turkish():
    assert noisy("Iğdır'da iyi", "capitals", lang="tur_Latn") == "IĞDIR'DA İYİ"
    assert noisy("Iğdır İyi", "lower case", lang="tur_Latn") == "ığdır iyi"


def test_texts_too_short_for_a_kind():
    assert noisy("", "zero-width space") == "\u200b"
    assert noisy("猫", "soft hyphens") == "猫"


def test_noisy_forms_have_one_normal_form():
    """So no form of a target is a negative of another (`source_key` and `target_key` of tokenized rows)."""
    for lang, text in {
        "deu_Latn": "Die große Straße.",
        "ell_Grek": "δρόμος",
        "hye_Armn": "և Եվ",
    }.items():
        assert (
            len(set(normal_forms([text, *(noisy(text, kind, lang=lang) for kind in KINDS)]))) == 1
        )
    others = ("Let's talk.", "Let's talk!", "Lets talk.", "Let's walk.", "a<b", "a>b", "猫")
    assert len(set(normal_forms(others))) == len(others)


@pytest.fixture
def numbered() -> list[str]:
    return [f"{TEXT} {number}" for number in range(400)]


def test_a_drawn_kind_follows_from_the_seed(numbered):
    drawn = [noisy(text, seed=3) for text in numbered]
    assert drawn == [noisy(text, seed=3) for text in numbered]
    assert drawn != [noisy(text, seed=4) for text in numbered]


def test_three_quarters_of_drawn_kinds_change_case(numbered):
    cases = sum(noisy(text, seed=3) in {noisy(text, kind) for kind in CASES} for text in numbered)
    assert 0.65 < cases / len(numbered) < 0.85


def test_xsim_with_noise_counts_what_an_encoder_cannot_read():
    """An encoder by the lower-case text reads capitals, but no other characters."""
    texts = [f"unbekümmert {name}" for name in ("eins", "zwei", "drei", "vier")]
    rows = [
        {"id": n, "lang": lang, "text": text}
        for lang in ("deu_Latn", "eng_Latn")
        for n, text in enumerate(texts)
    ]
    known = {text: np.eye(5)[n] for n, text in enumerate(texts)}
    calls = Counter()

    def encode(batch, lang):
        calls[lang] += 1
        return np.stack([known.get(text.lower(), np.eye(5)[4]) for text in batch])

    table = evaluate_noise(encode, rows, limit=4)
    found = {row["noise"]: row["worse"] for row in table.rows}
    assert table.rows[0] == {"noise": "none", "xsim": 0.0, "worse": 0.0, "deu_Latn": 0.0}
    assert {kind for kind, worse in found.items() if worse == 0} == {"none", *CASES}
    assert found["soft hyphens"] == found["tabs"] == 75.0  # equal scores go to the first sentence
    assert calls == {"deu_Latn": 1 + len(KINDS), "eng_Latn": 1}
    turkish = evaluate_noise(
        encode, [row | {"lang": row["lang"].replace("deu", "tur")} for row in rows]
    )
    # in Turkish the capital of i is İ, which lower() does not turn back
    assert next(row["worse"] for row in turkish.rows if row["noise"] == "capitals") == 75.0
    refuses("no rows in 'fra_Latn': found", evaluate_noise, encode, rows, target_lang="fra_Latn")
