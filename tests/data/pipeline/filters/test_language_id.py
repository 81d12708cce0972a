"""Language identification by script, and by heliport."""

import numpy as np
import pytest

from hf_echo.data.pipeline.filters import LanguageId
from hf_echo.data.pipeline.filters.columns import script_numbers, scripts
from hf_echo.languages import LANGUAGES

pytest.importorskip("heliport")
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


TEXTS = (FRENCH, ENGLISH, GERMAN, RUSSIAN, CHINESE, JAPANESE)
CODES = ("fra_Latn", "eng_Latn", "deu_Latn", "rus_Cyrl", "zho_Hans", "jpn_Jpan")


def test_rows_with_the_right_label_stay(kept):
    assert all(kept(*zip(TEXTS, CODES)))


def test_rows_with_a_wrong_label_go(kept):
    assert not any(kept(*zip(TEXTS, CODES[1:] + CODES[:1])))


def test_the_script_alone_rejects_a_text(kept):
    wrong = (
        (ENGLISH, "kat_Geor"),
        (RUSSIAN, "nqo_Nkoo"),
        (CHINESE, "jpn_Jpan"),
        (JAPANESE, "zho_Hant"),
    )
    assert not any(kept(*wrong))


def test_what_the_identifier_cannot_judge_stays(kept):
    """Short texts, a few foreign words in another script, and Bambara,
    which heliport does not know."""
    text = "Чтобы установить расширение, откройте Firefox Extension Manager."
    assert kept((text, "rus_Cyrl"), ("Mozilla Firefox Extension Manager", "rus_Cyrl")) == [
        True,
        False,
    ]
    assert all(
        kept(("Guten Tag", "fra_Latn"), ("USB", "rus_Cyrl"), ("", "fra_Latn"), ("再见", "zho_Hant"))
    )
    # nine letters and three
    assert kept(("再见你", "fra_Latn"), ("再", "fra_Latn")) == [
        False,
        True,
    ]
    assert kept((GERMAN, "fra_Latn"), min_letters=1000) == [True]
    assert all(kept(("Mɔgɔ bɛɛ ka kan ka sɔrɔ ka taa a fɛ.", "bam_Latn"), (FRENCH, "bam_Latn")))


def test_neighbours_of_a_macrolanguage_stay(kept):
    texts = {
        "arz_Arab ary_Arab": "أكلنا الخبز والجبن في مطبخ جدتي الصغير يوم الجمعة الماضي.",
        "nob_Latn nno_Latn": "Vi spiste brød og ost på det lille kjøkkenet til bestemoren min i går kveld.",
        "bos_Latn": "Jeli smo hljeb i sir u maloj kuhinji moje bake prošle sedmice.",
        "zsm_Latn ind_Latn": "Kami makan roti dan keju di dapur kecil nenek saya pada minggu lalu.",
        "ast_Latn": "Ayer comimos pan con queso en la cocina pequeña de mi abuela.",
        "yue_Hant": "我們在祖母的小廚房裡吃麵包和奶酪。",
    }
    assert all(kept(*((text, code) for codes, text in texts.items() for code in codes.split())))


CODE = "for i in range(3): pass"


@pytest.fixture
def labelled(rows):
    """As labelled; sides swapped; French twice; Python; French as German."""
    langs = ["fra_Latn", "fra_Latn", "fra_Latn", "python", "deu_Latn"]
    pairs = [
        (FRENCH, ENGLISH),
        (ENGLISH, FRENCH),
        (FRENCH, FRENCH),
        (CODE, ENGLISH),
        (FRENCH, ENGLISH),
    ]
    return rows(*pairs, source_lang=langs)


@pytest.mark.parametrize(
    ("sides", "stay"),
    [
        ("source", [True, False, True, True, False]),
        ("target", [True, False, False, True, True]),
        ("both", [True, False, False, True, False]),
    ],
)
def test_sides_that_are_judged(labelled, sides, stay):
    assert LanguageId(sides=sides).keep(labelled).tolist() == stay


def test_no_row_is_no_error(labelled):
    assert LanguageId().keep(labelled.slice(0, 0)).shape == (0,)


def test_every_language_has_a_script_with_letters():
    counts = np.bincount(scripts(), minlength=256)

    few_letters = []
    for code, language in LANGUAGES.items():
        if language.script and counts[script_numbers(code)].sum() < 30:
            few_letters.append(code)

    assert few_letters == []
