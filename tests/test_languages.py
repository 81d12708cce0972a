import importlib.util
import json
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from hf_echo import languages as table
from hf_echo.languages import ISO_639_1, LANGUAGES, find_language, hub_code, is_language, language
from hf_echo.modeling.language_names_echo import LANGUAGE_NAMES

from .refusals import refusals, refuses


def test_published_counts():
    nllb = [entry for entry in LANGUAGES.values() if entry.nllb]
    assert len(nllb) == 204  # OS Table 32, and FLORES-200
    assert Counter(entry.resource for entry in nllb) == {"high": 54, "low": 150}
    assert sum(entry.base for entry in nllb) == 202  # OS Table 33: "202 languages total"
    # "81 languages supported across all compared models"
    assert sum(entry.common80 for entry in nllb) == 80
    assert len({entry.family for entry in nllb}) == 22
    assert Counter(entry.script for entry in nllb)["Arabic"] == 22


def test_tables_hold_only_known_codes():
    in_families = " ".join(table.FAMILIES.values()).split()
    assert len(in_families) == len(set(in_families))  # each once
    groups = [
        in_families,
        table.COMMON_80,
        table.HIGH_RESOURCE,
        table.MODULAR_23,
        table.EMMA_X_PAIRS,
    ]
    groups += [ISO_639_1.values(), table.OTHER_CODES.values()]
    for codes in groups:
        assert set(codes) <= set(LANGUAGES)
    assert set(table.OTHER_NAMES.values()) <= set(LANGUAGES)
    assert set(in_families) >= table.COMMON_80 | table.HIGH_RESOURCE


MODULAR_TABLE_5 = """
    am Amharic Ge'ez; ar Arabic Arabic; az Azerbaijani Latin; cs Czech Latin; de German Latin; en English Latin;
    es Spanish Latin; fr French Latin; ha Hausa Latin; it Italian Latin; kk Kazakh Cyrillic; ko Korean Hangul;
    ky Kyrgyz Cyrillic; mr Marathi Devanagari; nl Dutch Latin; pl Polish Latin; ru Russian Cyrillic;
    rw Kinyarwanda Latin; te Telugu Telugu; tr Turkish Latin; ug Uyghur Arabic; uz Uzbek Latin;
    zh Chinese Han_(Simplified)
"""


def test_the_languages_of_modular_table_5_are_those_printed():
    """Codes, names and scripts; "Italish" and the Ge'ez of Telugu are corrected."""
    codes = set()
    for row in MODULAR_TABLE_5.split(";"):
        short, name, script = row.split()
        code = ISO_639_1[short]
        assert find_language(name) == code
        assert LANGUAGES[code].script == script.replace("_", " ")
        codes.add(code)
    assert len(codes) == 23
    assert codes == table.MODULAR_23


def test_the_pairs_of_emma_x_sum_to_the_printed_billions():
    """A.1: "94 languages" and "3.2 billion sentence pairs"; two rows of Table 1."""
    assert len(table.EMMA_X_PAIRS) == 94
    assert sum(table.EMMA_X_PAIRS.values()) == pytest.approx(3200, abs=50)
    assert (table.EMMA_X_PAIRS["zho_Hans"], table.EMMA_X_PAIRS["gla_Latn"]) == (379.4, 0.05)


def test_names_are_unique():
    assert len({name.lower() for name in LANGUAGE_NAMES.values()}) == len(LANGUAGE_NAMES)


def test_names_are_plain():
    for name in LANGUAGE_NAMES.values():
        assert name
        assert name == name.strip()
        assert ":" not in name


def test_names_of_varieties():
    assert LANGUAGE_NAMES["por_Latn_BR"] == "Brazilian Portuguese"
    assert LANGUAGE_NAMES["zho_Hant"] == "Chinese (Traditional)"


def test_rows_as_printed():
    french = language("fra_Latn")
    assert (french.name, french.script, french.family, french.resource) == (
        "French",
        "Latin",
        "Indo-European",
        "high",
    )
    assert (french.nllb, french.base, french.common80) == (True, True, True)
    tigrinya = language("tir_Ethi")
    assert (tigrinya.script, tigrinya.resource) == ("Ge'ez", "low")


def test_languages_that_some_sets_lack():
    assert not language("eng_Latn").common80
    assert not language("min_Arab").base
    assert language("bre_Latn").resource is None
    python = language("python")
    assert (python.name, python.script, python.family) == ("Python", None, None)


def test_a_language_is_not_changed():
    with pytest.raises(FrozenInstanceError):
        language("fra_Latn").code = "x"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("French", "fra_Latn"),
        (" french ", "fra_Latn"),
        ("fr", "fra_Latn"),
        ("fra", "fra_Latn"),
        ("fre", "fra_Latn"),
        ("fra_Latn", "fra_Latn"),
        ("FRA_LATN", "fra_Latn"),
        ("fr-CH", "fra_Latn"),
        ("ga", "gle_Latn"),
        ("ga-IE", "gle_Latn"),
        ("Ga", "gaa_Latn"),
        ("gaa", "gaa_Latn"),
        ("pt_BR", "por_Latn_BR"),
        ("por_Latn_BR", "por_Latn_BR"),
        ("zh", "zho_Hans"),
        ("Chinese", "zho_Hans"),
        ("zh-Hant", "zho_Hant"),
        ("zh-TW", "zho_Hant"),
        ("zho_TW", "zho_Hant"),
        ("zh-HK", "zho_Hant"),
        ("zh-Hant-HK", "zho_Hant"),
        ("cmn_Hant", "zho_Hant"),
        ("zh-CN", "zho_Hans"),
        ("yue-HK", "yue_Hant"),
        ("fa-AF", "prs_Arab"),
        ("pa-PK", "pan_Arab"),
        ("ekk_Latn", "est_Latn"),  # of FLORES+
        ("jw", "jav_Latn"),  # of Whisper
        ("ku-Arab", "ckb_Arab"),
        ("Arabic", "arb_Arab"),
        ("ara", "arb_Arab"),
        ("kas", "kas_Arab"),
        ("Kashmiri", "kas_Arab"),
        ("Swahili", "swh_Latn"),
        ("sr", "srp_Cyrl"),
        ("sr-Latn", "srp_Latn"),
        ("sat_Beng", "sat_Olck"),
        ("c++", "cpp"),
        ("LaTeX", "latex"),
        ("python", "python"),
    ],
)
def test_find_language(text, code):
    assert find_language(text) == code


def test_two_letter_codes():
    """Each ISO 639-1 code finds its language, as a code and as the first suggestion of an error."""
    for iso, code in ISO_639_1.items():
        assert find_language(iso) == code
        assert find_language(iso.upper()) == code
        refuses(f"did you mean {code} ", language, iso)


@pytest.mark.parametrize("code", ["aa", "bi", "av"])
def test_similar_letters_are_no_help_for_two_letters(code):
    """Afar, Bislama and Avar are not in the table."""
    refuses(": docs/languages.md lists the codes, such as fra_Latn", find_language, code)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("frx", "fra_Latn (French), frp_Latn (Arpitan) or frr_Latn (Northern Frisian)"),
        ("enl", "eng_Latn (English) or ell_Grek (Greek)"),
    ],
)
def test_three_letters_get_the_codes_of_one_other_letter(word, nearest):
    """Those of the same first letters come first, and of them those with much text."""
    refuses(f"unknown language {word!r}: did you mean {nearest}?", find_language, word)


def test_the_page_lists_every_code():
    """The message about an unknown language sends the reader there."""
    page = (Path(__file__).parents[1] / "docs" / "languages.md").read_text(encoding="utf-8")
    listing = " ".join(page.partition("\n## All codes\n")[2].split())

    for code, name in LANGUAGE_NAMES.items():
        assert f"`{code}` {name}" in listing, code


def test_two_letter_codes_agree_with_iso_639_3():
    """mteb has the table of the standard; it knows no `sh` (withdrawn).
    Both codes find the same language."""
    # without the slow import
    folder = Path(importlib.util.find_spec("mteb").submodule_search_locations[0])
    standard = json.loads(
        (folder / "languages" / "iso_639_1_to_3.json").read_text(encoding="utf-8")
    )
    assert set(ISO_639_1) - set(standard) == {"sh"}
    for iso in set(ISO_639_1) & set(standard):
        assert find_language(iso) == find_language(standard[iso]), iso


def test_every_code_finds_itself():
    for code in LANGUAGE_NAMES:
        assert find_language(code) == code
        assert is_language(code)


def test_every_name_finds_its_code():
    for code, name in LANGUAGE_NAMES.items():
        assert find_language(name) == code


@pytest.mark.parametrize("text", ["fra", "Fra_Latn"])
def test_another_spelling_is_no_code(text):
    assert not is_language(text)


@pytest.mark.parametrize(
    "code, short",
    [
        ("fra_Latn", "fr"),
        ("por_Latn_BR", "pt"),
        ("zho_Hant", "zh"),
        ("srp_Latn", "sr"),
        ("ast_Latn", "ast"),
    ],
)
def test_the_hub_files_languages_by_the_shortest_code(code, short):
    assert hub_code(code) == short


test_wrong_codes = refusals(
    ("fra_Lant", "unknown language code 'fra_Lant': did you mean fra_Latn (French)?"),
    ("fr", "unknown language code 'fr'"),
    (None, "unknown language code None"),
    call=language,
)
test_wrong_names = refusals(
    ("Frensh", "unknown language 'Frensh': did you mean fra_Latn (French)?"),
    ("fra_Hebr", "unknown language 'fra_Hebr'"),
    ("", "unknown language ''"),
    ("%%%%", "unknown language '%%%%': docs/languages.md lists the codes"),
    call=find_language,
)
