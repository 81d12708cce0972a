"""Language identification by script, and by heliport."""

import numpy as np
import pytest

from hf_echo.data.pipeline.filters import LanguageId
from hf_echo.data.pipeline.filters.columns import script_numbers, scripts
from hf_echo.languages import LANGUAGES

FRENCH = "Nous avons mangé du pain avec du fromage dans la petite cuisine de ma grand-mère."
ENGLISH = "We ate bread and cheese in the small kitchen of my grandmother."
GERMAN = "Wir haben in der kleinen Küche meiner Großmutter Brot mit Käse gegessen."
RUSSIAN = "Мы ели хлеб с сыром на маленькой кухне моей бабушки."
CHINESE = "我们在祖母的小厨房里吃面包和奶酪。"
JAPANESE = "私たちは祖母の小さな台所でパンとチーズを食べました。"


@pytest.fixture
def kept(rows):
    """kept((text, code), ...): which texts stay, as targets."""

    def call(*texts, sides="target", **fields):
        table = rows(*(("x", text) for text, _ in texts), target_lang=[code for _, code in texts])
        return LanguageId(sides=sides, **fields).keep(table).tolist()

    return call


def test_right_labels_stay_and_wrong_ones_go(kept):
    pytest.importorskip("heliport")
    right = [
        (FRENCH, "fra_Latn"),
        (ENGLISH, "eng_Latn"),
        (GERMAN, "deu_Latn"),
        (RUSSIAN, "rus_Cyrl"),
        (CHINESE, "zho_Hans"),
        (JAPANESE, "jpn_Jpan"),
    ]
    assert all(kept(*right))
    texts, codes = zip(*right)
    assert not any(kept(*zip(texts, codes[1:] + codes[:1])))


def test_script_judges_without_an_identifier(kept):
    """The script alone rejects these texts, so the model is not called."""
    assert not any(kept((ENGLISH, "kat_Geor"), (RUSSIAN, "nqo_Nkoo"), (CHINESE, "jpn_Jpan"), (JAPANESE, "zho_Hant")))


def test_a_few_foreign_words_do_not_make_another_script(kept):
    pytest.importorskip("heliport")
    text = "Чтобы установить расширение, откройте Firefox Extension Manager."
    assert kept((text, "rus_Cyrl"), ("Mozilla Firefox Extension Manager", "rus_Cyrl")) == [True, False]


def test_short_texts_stay(kept):
    pytest.importorskip("heliport")
    assert kept(("Guten Tag", "fra_Latn"), ("USB", "rus_Cyrl"), ("", "fra_Latn"), ("再见", "zho_Hans")) == [True] * 4
    assert kept((GERMAN, "fra_Latn"), min_letters=1000) == [True]


def test_languages_that_the_identifier_does_not_know_stay(kept):
    """heliport does not know Bambara, so every text in Latin script stays."""
    pytest.importorskip("heliport")
    assert kept(("Mɔgɔ bɛɛ ka kan ka sɔrɔ ka taa a fɛ.", "bam_Latn"), (FRENCH, "bam_Latn")) == [True, True]


@pytest.mark.parametrize(
    "code", ["arz_Arab", "ary_Arab", "nob_Latn", "nno_Latn", "bos_Latn", "zsm_Latn", "ind_Latn", "ast_Latn", "yue_Hant"]
)
def test_macrolanguages_and_neighbours(kept, code):
    pytest.importorskip("heliport")
    texts = {
        "Arab": "أكلنا الخبز والجبن في مطبخ جدتي الصغير يوم الجمعة الماضي.",
        "nob": "Vi spiste brød og ost på det lille kjøkkenet til bestemoren min i går kveld.",
        "bos": "Jeli smo hljeb i sir u maloj kuhinji moje bake prošle sedmice.",
        "zsm": "Kami makan roti dan keju di dapur kecil nenek saya pada minggu lalu.",
        "ast": "Ayer comimos pan con queso en la cocina pequeña de mi abuela.",
        "Hant": "我們在祖母的小廚房裡吃麵包和奶酪。",
    }
    key = {"nno": "nob", "ind": "zsm"}.get(code[:3], code[:3])
    assert kept((texts.get(code[4:], texts.get(key)), code)) == [True]


def test_sides_code_and_equal_texts(rows):
    pytest.importorskip("heliport")
    table = rows(
        (FRENCH, ENGLISH),
        (ENGLISH, FRENCH),
        (FRENCH, FRENCH),
        ("for i in range(3): pass", ENGLISH),
        (FRENCH, ENGLISH),
        source_lang=["fra_Latn", "fra_Latn", "fra_Latn", "python", "deu_Latn"],
    )
    assert LanguageId(sides="source").keep(table).tolist() == [True, False, True, True, False]
    assert LanguageId(sides="target").keep(table).tolist() == [True, False, False, True, True]
    assert LanguageId().keep(table).tolist() == [True, False, False, True, False]
    assert LanguageId().keep(table.slice(0, 0)).shape == (0,)


def test_every_language_has_a_script_with_letters():
    counts = np.bincount(scripts(), minlength=256)
    for code, language in LANGUAGES.items():
        if language.script:
            assert counts[script_numbers(code)].sum() >= 30, code
