"""Sets of languages over which the papers average, by name, as NLLB codes, with their source.

A paper that prints the number of languages and not their names has its set derived here: `source`
says how, and the number agrees with the paper's. A table of X to English has no row for English, so
a set with English then has one row less than its number.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..languages import COMMON_80, ENGLISH, LANGUAGES


@dataclass(frozen=True)
class LanguageSet:
    """`codes`: the languages of the set; with `all_others` the set is every language that is not
    among them."""

    codes: frozenset[str]
    source: str
    all_others: bool = False

    def __contains__(self, code: str) -> bool:
        return (code in self.codes) != self.all_others


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


FRENCH = frozenset({"fra_Latn"})

# Of MEXMA's 81 languages, those that LaBSE's list of 109 lacks, and those that are not among
# XTREME's 36 (DAP).
NOT_IN_LABSE = _codes(
    "acm_Arab aeb_Arab ary_Arab arz_Arab azb_Arab ckb_Arab nno_Latn san_Deva snd_Arab"
)

# XTREME's languages of Tatoeba.
TATOEBA_HEAD = _codes("""
    afr_Latn arb_Arab ben_Beng bul_Cyrl deu_Latn ell_Grek est_Latn eus_Latn fin_Latn fra_Latn heb_Hebr
    hin_Deva hun_Latn ind_Latn ita_Latn jav_Latn jpn_Jpan kat_Geor kaz_Cyrl kor_Hang mal_Mlym mar_Deva
    nld_Latn pes_Arab por_Latn rus_Cyrl spa_Latn swh_Latn tam_Taml tel_Telu tgl_Latn tha_Thai tur_Latn
    urd_Arab vie_Latn zho_Hans
""")
# The other languages of LASER's Tatoeba test set (112 languages).
TATOEBA_LONG_TAIL = _codes("""
    als_Latn amh_Ethi ang_Latn arq_Arab arz_Arab ast_Latn awa_Deva azj_Latn bel_Cyrl ber_Latn bos_Latn
    bre_Latn cat_Latn cbk_Latn ceb_Latn ces_Latn cha_Latn cor_Latn csb_Latn cym_Latn dan_Latn dsb_Latn
    dtp_Latn epo_Latn fao_Latn fry_Latn gla_Latn gle_Latn glg_Latn gsw_Latn hrv_Latn hsb_Latn hye_Armn
    ido_Latn ile_Latn ina_Latn isl_Latn kab_Latn khk_Cyrl khm_Khmr kmr_Latn kzj_Latn lat_Latn lfn_Latn
    lit_Latn lvs_Latn max_Latn mhr_Cyrl mkd_Cyrl nds_Latn nno_Latn nob_Latn nov_Latn oci_Latn orv_Cyrl
    pam_Latn pms_Latn pol_Latn ron_Latn slk_Latn slv_Latn srp_Cyrl swe_Latn swg_Latn tat_Cyrl tuk_Latn
    tzl_Latn uig_Arab ukr_Cyrl uzn_Latn war_Latn wuu_Hans xho_Latn ydd_Hebr yue_Hant zsm_Latn
""")
FLORES_HEAD = _codes("""
    bel_Cyrl bos_Latn hun_Latn epo_Latn khm_Khmr urd_Arab srp_Cyrl jav_Latn hye_Armn gla_Latn por_Latn
    lit_Latn bul_Cyrl slk_Latn mal_Mlym ita_Latn nno_Latn mar_Deva hrv_Latn hin_Deva kat_Geor ben_Beng
    fin_Latn cym_Latn oci_Latn cat_Latn fao_Latn xho_Latn spa_Latn ron_Latn amh_Ethi ces_Latn swe_Latn
    nld_Latn tat_Cyrl kor_Hang glg_Latn fra_Latn eus_Latn ind_Latn dan_Latn tha_Thai deu_Latn tel_Telu
    afr_Latn pol_Latn est_Latn uig_Arab ukr_Cyrl uzn_Latn heb_Hebr kaz_Cyrl nob_Latn rus_Cyrl vie_Latn
    arb_Arab zho_Hans tuk_Latn khk_Cyrl jpn_Jpan ell_Grek isl_Latn tam_Taml slv_Latn tur_Latn mkd_Cyrl
    tgl_Latn gle_Latn
""")

_MEXMA_81 = COMMON_80 | {ENGLISH}
_FLORES_200 = frozenset(code for code, language in LANGUAGES.items() if language.nllb)
# FLORES+ gives two languages of FLORES-200 new codes: Kikongo and Central Atlas Tamazight.
_RENAMED = _codes("ktu_Latn zgh_Tfng")

LANGUAGE_SETS: dict[str, LanguageSet] = {
    "common-80": LanguageSet(
        COMMON_80,
        "ECHO Tables 1, 4, 14; OS Tables 4, 10: the 81 languages of OS Table 33 that all compared models have, without "
        "English (`hf_echo.languages`)",
    ),
    "clt-80": LanguageSet(
        (COMMON_80 | {ENGLISH}) - FRENCH,
        "ECHO Table 4, OS Table 18, column common: taught in French, tested on the other 80 of the 81 common "
        "languages. The column all is the average of the whole table: the 199 languages are not printed",
    ),
    "mexma-81": LanguageSet(
        _MEXMA_81,
        "MEXMA Table 13, which our copy lacks: the languages of the training command that MEXMA publishes, and "
        "English. They are the 81 of OS Table 33",
    ),
    "mexma-72": LanguageSet(
        _MEXMA_81 - NOT_IN_LABSE,
        "MEXMA Table 1, o-xsim: supported by LaBSE, too. Only the number is printed; nine of the 81 are not among "
        "the 109 languages that LaBSE's authors list",
    ),
    "mexma-34": LanguageSet(
        (_MEXMA_81 & (TATOEBA_HEAD | {"zho_Hant"})) | {ENGLISH},
        "MEXMA Tables 1 and 7, d-xsim: supported by DAP, too. Only the number is printed; DAP is trained on XTREME's "
        "36 languages, of which 33 are among the 81 (with Chinese in traditional script), and on English",
    ),
    "flores-plus-new": LanguageSet(
        _FLORES_200 | _RENAMED,
        'OS Table 8: "only the 11 languages not in FLORES200". They are not printed: the set is every language of the '
        "table that is not one of FLORES-200's 204 (OS Table 32)",
        all_others=True,
    ),
    "tatoeba-head": LanguageSet(
        TATOEBA_HEAD,
        "EMMA-X A.1 counts 36 languages of XTREME and prints 42 codes. English and the five that XTREME's "
        "Tatoeba lacks (az, lt, pl, ro, uk) are left out here; the rest then has 76 languages, as it counts",
    ),
    "tatoeba-long-tail": LanguageSet(
        TATOEBA_LONG_TAIL, "EMMA-X A.1: the remaining 76 languages in Tatoeba"
    ),
    "flores-head": LanguageSet(
        FLORES_HEAD, "EMMA-X B.1: 68 of FLORES-200's languages, printed; the others are its tail"
    ),
}
