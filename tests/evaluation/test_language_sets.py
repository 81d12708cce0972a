"""Sets of languages: their sizes as the papers print them, and what must be in them and what
not."""

import pytest

from hf_echo.evaluation.language_sets import LANGUAGE_SETS
from hf_echo.languages import LANGUAGES, meanings


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("common-80", 80),  # OS Table 4
        ("clt-80", 80),  # OS Table 18
        ("mexma-81", 81),  # MEXMA 4.1
        ("mexma-72", 72),  # MEXMA Table 1
        ("mexma-34", 34),  # MEXMA Table 1
        ("tatoeba-head", 36),  # EMMA-X A.1
        ("tatoeba-long-tail", 76),  # EMMA-X A.1
        ("flores-head", 68),  # EMMA-X B.1
    ],
)
def test_a_set_has_the_number_of_languages_that_its_paper_counts(name, size):
    assert len(LANGUAGE_SETS[name].codes) == size


def test_the_long_tail_of_flores_has_the_135_languages_that_emma_x_counts():
    flores = {code for code, language in LANGUAGES.items() if language.nllb}

    assert len(flores - LANGUAGE_SETS["flores-head"].codes - {"eng_Latn"}) == 135


HEAD = LANGUAGE_SETS["tatoeba-head"].codes
LONG_TAIL = LANGUAGE_SETS["tatoeba-long-tail"].codes


def test_no_language_is_in_head_or_tail_twice():
    assert not HEAD & LONG_TAIL


def test_english_is_the_other_side_of_tatoeba():
    assert "eng_Latn" not in HEAD | LONG_TAIL


def test_tatoeba_has_the_languages_that_mteb_has():
    mteb = pytest.importorskip("mteb")
    languages = set()
    for subset in mteb.get_task("Tatoeba").metadata.hf_subsets_to_langscripts:
        iso, _ = subset.split("-")
        codes = meanings(iso) or (iso,)
        languages.add(codes[0].split("_")[0])

    assert {code.split("_")[0] for code in HEAD | LONG_TAIL} == languages


def test_the_smaller_sets_of_mexma_are_parts_of_the_larger():
    assert (
        LANGUAGE_SETS["mexma-34"].codes
        < LANGUAGE_SETS["mexma-72"].codes
        < LANGUAGE_SETS["mexma-81"].codes
    )


@pytest.mark.parametrize("code", ["acm_Arab", "snd_Arab", "ckb_Arab"])
def test_what_labse_lacks_is_not_in_its_set(code):
    assert code in LANGUAGE_SETS["mexma-81"]
    assert code not in LANGUAGE_SETS["mexma-72"]


def test_transfer_from_french_leaves_french_out():
    assert "fra_Latn" not in LANGUAGE_SETS["clt-80"]
    assert "eng_Latn" in LANGUAGE_SETS["clt-80"]


@pytest.mark.parametrize("code", ["arg_Latn", "nqo_Nkoo", "uzs_Arab", "oci_Latn_aran1260"])
def test_a_language_that_flores_200_lacks_is_new_in_flores_plus(code):
    assert code in LANGUAGE_SETS["flores-plus-new"]


@pytest.mark.parametrize("code", ["fra_Latn", "zho_Hans", "ktu_Latn", "zgh_Tfng"])
def test_a_language_of_flores_200_is_not_new_under_another_code(code):
    assert code not in LANGUAGE_SETS["flores-plus-new"]
