"""Sets of languages: their sizes as the papers print them, and what must be in them and what not."""

import pytest

from hf_echo.evaluation.language_sets import LANGUAGE_SETS
from hf_echo.languages import LANGUAGES


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


def test_head_and_long_tail_share_no_language():
    head = LANGUAGE_SETS["tatoeba-head"].codes
    tail = LANGUAGE_SETS["tatoeba-long-tail"].codes

    assert not head & tail
    assert "eng_Latn" not in head | tail


def test_head_and_long_tail_are_the_languages_of_tatoeba_in_mteb():
    mteb = pytest.importorskip("mteb")
    from hf_echo.languages import meanings

    task = mteb.get_task("Tatoeba")
    languages = set()
    for subset in task.metadata.hf_subsets_to_langscripts:
        iso = subset.split("-")[0]
        languages.add((meanings(iso) or (f"{iso}_",))[0].split("_")[0])

    both = LANGUAGE_SETS["tatoeba-head"].codes | LANGUAGE_SETS["tatoeba-long-tail"].codes
    assert {code.split("_")[0] for code in both} == languages


def test_the_smaller_sets_of_mexma_are_parts_of_the_larger():
    assert LANGUAGE_SETS["mexma-34"].codes < LANGUAGE_SETS["mexma-72"].codes < LANGUAGE_SETS["mexma-81"].codes


@pytest.mark.parametrize("code", ["acm_Arab", "snd_Arab", "ckb_Arab"])
def test_what_labse_lacks_is_not_in_its_set(code):
    assert code in LANGUAGE_SETS["mexma-81"]
    assert code not in LANGUAGE_SETS["mexma-72"]


def test_transfer_from_french_leaves_french_out_and_english_in():
    assert "fra_Latn" not in LANGUAGE_SETS["clt-80"]
    assert "eng_Latn" in LANGUAGE_SETS["clt-80"]


@pytest.mark.parametrize("code", ["arg_Latn", "nqo_Nkoo", "uzs_Arab", "oci_Latn_aran1260"])
def test_a_language_that_flores_200_lacks_is_new_in_flores_plus(code):
    assert code in LANGUAGE_SETS["flores-plus-new"]


@pytest.mark.parametrize("code", ["fra_Latn", "zho_Hans", "ktu_Latn", "zgh_Tfng"])
def test_a_language_of_flores_200_is_not_new_under_another_code(code):
    assert code not in LANGUAGE_SETS["flores-plus-new"]
