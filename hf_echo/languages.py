"""Languages: codes, names, scripts, families, resource levels and subsets (OS Tables 32 and 33).

``LANGUAGES["fra_Latn"]`` is a :class:`Language`; ``find_language("French")``, ``("fr")`` and
``("fra")`` return its code. A language outside Table 32 (from another corpus, or code and
mathematics) has no family and no resource level. The languages that a checkpoint was trained on are
in its configuration.

The tables: FAMILIES and HIGH_RESOURCE are Table 32 (204 languages; those not in HIGH_RESOURCE are
"low"). COMMON_80 is Table 33 without English. The text extraction of that table shows only one mark
on its 202 cells; the 81 cells without the mark are as many as the caption counts as bold
("supported across all compared models"), so they are taken as these. The other tables map common
codes and names to NLLB codes. The package langcodes has no such table: 65 of the 255 codes differ
(its "sq" is a group, the table has ``als_Latn``), it reads "tl" as Filipino, and has names only
with more data. It splits BCP 47 tags into their parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .modeling.language_names_echo import LANGUAGE_NAMES
from .utils.did_you_mean import nearest

__all__ = [
    "ENGLISH",
    "LANGUAGES",
    "Language",
    "as_code",
    "bcp47",
    "find_language",
    "hub_code",
    "is_language",
    "language",
    "language_fit",
    "meanings",
    "tagged_code",
]


ENGLISH = "eng_Latn"  # the pivot: other languages are aligned with it, and measured against it


def lookup(text: str, separator: str = "=") -> dict[str, str]:
    """ "key=value; key=value" -> {key: value};
    without semicolons white space separates the pairs."""
    entries = text.split(";") if ";" in text else text.split()
    table = {}
    for entry in entries:
        key, value = entry.split(separator)
        table[key.strip()] = " ".join(value.split())
    return table


FAMILIES: dict[str, str] = {
    "Indo-European": """
        afr_Latn als_Latn asm_Beng ast_Latn awa_Deva bel_Cyrl ben_Beng bho_Deva bos_Latn bul_Cyrl
        cat_Latn ces_Latn ckb_Arab cym_Latn dan_Latn deu_Latn ell_Grek eng_Latn fao_Latn fra_Latn
        fur_Latn gla_Latn gle_Latn glg_Latn guj_Gujr hat_Latn hin_Deva hne_Deva hrv_Latn hye_Armn
        isl_Latn ita_Latn kas_Arab kas_Deva kea_Latn kmr_Latn lij_Latn lim_Latn lit_Latn lmo_Latn
        ltg_Latn ltz_Latn lvs_Latn mag_Deva mai_Deva mar_Deva mkd_Cyrl nld_Latn nno_Latn nob_Latn
        npi_Deva oci_Latn ory_Orya pan_Guru pap_Latn pbt_Arab pes_Arab pol_Latn por_Latn prs_Arab
        ron_Latn rus_Cyrl san_Deva scn_Latn sin_Sinh slk_Latn slv_Latn snd_Arab spa_Latn srd_Latn
        srp_Cyrl swe_Latn szl_Latn tgk_Cyrl tpi_Latn ukr_Cyrl urd_Arab vec_Latn ydd_Hebr
    """,
    "Atlantic-Congo": """
        aka_Latn bem_Latn cjk_Latn ewe_Latn fon_Latn fuv_Latn ibo_Latn kam_Latn kbp_Latn kik_Latn
        kin_Latn kmb_Latn kon_Latn lin_Latn lua_Latn lug_Latn mos_Latn nso_Latn nya_Latn run_Latn
        sag_Latn sna_Latn sot_Latn ssw_Latn swh_Latn tsn_Latn tso_Latn tum_Latn twi_Latn umb_Latn
        wol_Latn xho_Latn yor_Latn zul_Latn
    """,
    "Afro-Asiatic": """
        acm_Arab acq_Arab aeb_Arab ajp_Arab amh_Ethi apc_Arab arb_Arab arb_Latn ars_Arab ary_Arab
        arz_Arab gaz_Latn hau_Latn heb_Hebr kab_Latn mlt_Latn som_Latn taq_Latn taq_Tfng tir_Ethi
        tzm_Tfng
    """,
    "Austronesian": """
        ace_Arab ace_Latn ban_Latn bjn_Arab bjn_Latn bug_Latn ceb_Latn fij_Latn ilo_Latn ind_Latn
        jav_Latn min_Arab min_Latn mri_Latn pag_Latn plt_Latn smo_Latn sun_Latn tgl_Latn war_Latn
        zsm_Latn
    """,
    "Turkic": """
        azb_Arab azj_Latn bak_Cyrl crh_Latn kaz_Cyrl kir_Cyrl tat_Cyrl tuk_Latn tur_Latn uig_Arab
        uzn_Latn
    """,
    "Sino-Tibetan": "bod_Tibt dzo_Tibt kac_Latn lus_Latn mni_Beng mya_Mymr yue_Hant zho_Hans zho_Hant",
    "Dravidian": "kan_Knda mal_Mlym tam_Taml tel_Telu",
    "Austroasiatic": "khm_Khmr sat_Olck vie_Latn",
    "Nilotic": "dik_Latn luo_Latn nus_Latn",
    "Tai-Kadai": "lao_Laoo shn_Mymr tha_Thai",
    "Uralic": "est_Latn fin_Latn hun_Latn",
    "Mande": "bam_Latn dyu_Latn",
    "Saharan": "knc_Arab knc_Latn",
    "Aymaran": "ayr_Latn",
    "Basque": "eus_Latn",
    "Constructed": "epo_Latn",
    "Japonic": "jpn_Jpan",
    "Kartvelian": "kat_Geor",
    "Koreanic": "kor_Hang",
    "Mongolic-Khitani": "khk_Cyrl",
    "Quechuan": "quy_Latn",
    "Tupian": "grn_Latn",
}

HIGH_RESOURCE = frozenset(
    """
    afr_Latn als_Latn arb_Arab ben_Beng bos_Latn bul_Cyrl cat_Latn ces_Latn dan_Latn deu_Latn ell_Grek
    eng_Latn est_Latn eus_Latn fin_Latn fra_Latn heb_Hebr hin_Deva hrv_Latn hun_Latn ind_Latn isl_Latn
    ita_Latn jpn_Jpan kaz_Cyrl kor_Hang lit_Latn lvs_Latn mkd_Cyrl mlt_Latn nld_Latn pes_Arab pol_Latn
    por_Latn ron_Latn rus_Cyrl slk_Latn slv_Latn sot_Latn spa_Latn swe_Latn swh_Latn tgl_Latn tha_Thai
    tsn_Latn tur_Latn ukr_Cyrl uzn_Latn vie_Latn xho_Latn zho_Hans zho_Hant zsm_Latn zul_Latn
    """.split()
)

COMMON_80 = frozenset(
    """
    acm_Arab aeb_Arab afr_Latn amh_Ethi ary_Arab arz_Arab asm_Beng azb_Arab azj_Latn bel_Cyrl ben_Beng
    bos_Latn bul_Cyrl cat_Latn ces_Latn ckb_Arab cym_Latn dan_Latn deu_Latn ell_Grek epo_Latn est_Latn
    eus_Latn fin_Latn fra_Latn gla_Latn gle_Latn glg_Latn guj_Gujr hau_Latn heb_Hebr hin_Deva hrv_Latn
    hun_Latn hye_Armn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kan_Knda kat_Geor kaz_Cyrl khm_Khmr
    kir_Cyrl kor_Hang lao_Laoo mal_Mlym mar_Deva mkd_Cyrl mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva
    pol_Latn por_Latn ron_Latn rus_Cyrl san_Deva sin_Sinh slk_Latn slv_Latn snd_Arab som_Latn spa_Latn
    srp_Cyrl sun_Latn swe_Latn swh_Latn tam_Taml tel_Telu tha_Thai tur_Latn uig_Arab ukr_Cyrl urd_Arab
    vie_Latn xho_Latn zho_Hant
    """.split()
)

# Modular Sentence Encoders, Table 5: the 23 languages (it writes "Italish", and Ge'ez as the script
# of Telugu)
MODULAR_23 = frozenset(
    """
    amh_Ethi arb_Arab azj_Latn ces_Latn deu_Latn eng_Latn fra_Latn hau_Latn ita_Latn kaz_Cyrl kin_Latn kir_Cyrl
    kor_Hang mar_Deva nld_Latn pol_Latn rus_Cyrl spa_Latn tel_Telu tur_Latn uig_Arab uzn_Latn zho_Hans
    """.split()
)

# EMMA-X, A.1 and Table 1: its 94 languages -> millions of sentence pairs with English, 0 for "less
# than 0.1"
EMMA_X_PAIRS: dict[str, float] = {}
for _pair in """
    afr_Latn=0 amh_Ethi=0 arb_Arab=72.3 asm_Beng=0 azj_Latn=0.82 bel_Cyrl=0.51 bul_Cyrl=47.2
    ben_Beng=7.52 bre_Latn=0 bos_Latn=0 cat_Latn=14.9 ces_Latn=108.4 cym_Latn=0 dan_Latn=8.0
    deu_Latn=283.4 ell_Grek=95.1 eng_Latn=0 epo_Latn=0.18 spa_Latn=279.6 est_Latn=22.3 eus_Latn=0.81
    pes_Arab=7.5 fin_Latn=92.8 fra_Latn=331.5 fry_Latn=0.13 gle_Latn=0 gla_Latn=0.05 glg_Latn=0.77
    guj_Gujr=0 hau_Latn=0 heb_Hebr=47.1 hin_Deva=3.2 hrv_Latn=0 hun_Latn=55.2 hye_Armn=1.7
    ind_Latn=184.6 isl_Latn=0 ita_Latn=179.3 jpn_Jpan=89.2 jav_Latn=0 kat_Geor=2.0 kaz_Cyrl=2.8
    khm_Khmr=0.84 kan_Knda=0 kor_Hang=79.3 kmr_Latn=0 kir_Cyrl=0 lat_Latn=0 lao_Laoo=0 lit_Latn=11.0
    lvs_Latn=0.37 plt_Latn=0 mkd_Cyrl=0 mal_Mlym=1.07 khk_Cyrl=0.19 mar_Deva=0 zsm_Latn=2.1 mlt_Latn=0
    mya_Mymr=0 npi_Deva=0 nld_Latn=66.0 nob_Latn=0 gaz_Latn=0 ory_Orya=0 pan_Guru=0 pol_Latn=79.7
    pbt_Arab=0 por_Latn=247.6 ron_Latn=60.4 rus_Cyrl=134.9 san_Deva=0 snd_Arab=0 sin_Sinh=0.60
    slk_Latn=0 slv_Latn=9.8 som_Latn=0 als_Latn=0 srp_Cyrl=0 sun_Latn=0 swe_Latn=74.2 swh_Latn=1.7
    tam_Taml=2.79 tel_Telu=0 tha_Thai=13.1 tgl_Latn=0 tur_Latn=93.8 uig_Arab=0 ukr_Cyrl=0.78
    urd_Arab=1.15 uzn_Latn=0 vie_Latn=15.3 xho_Latn=0 ydd_Hebr=0 zho_Hans=379.4
    """.split():
    _code, _millions = _pair.split("=")
    EMMA_X_PAIRS[_code] = float(_millions)

# ISO 639-1 -> the most widely written variety
ISO_639_1 = lookup(
    """
    ab=abk_Cyrl af=afr_Latn ak=aka_Latn am=amh_Ethi an=arg_Latn ar=arb_Arab as=asm_Beng ay=ayr_Latn
    az=azj_Latn ba=bak_Cyrl be=bel_Cyrl bg=bul_Cyrl bm=bam_Latn bn=ben_Beng bo=bod_Tibt br=bre_Latn
    bs=bos_Latn ca=cat_Latn ce=che_Cyrl ch=cha_Latn co=cos_Latn cr=csw_Cans cs=ces_Latn cu=chu_Cyrl
    cv=chv_Cyrl cy=cym_Latn da=dan_Latn de=deu_Latn dv=div_Thaa dz=dzo_Tibt ee=ewe_Latn el=ell_Grek
    en=eng_Latn eo=epo_Latn es=spa_Latn et=est_Latn eu=eus_Latn fa=pes_Arab ff=fuv_Latn fi=fin_Latn
    fj=fij_Latn fo=fao_Latn fr=fra_Latn fy=fry_Latn ga=gle_Latn gd=gla_Latn gl=glg_Latn gn=grn_Latn
    gu=guj_Gujr gv=glv_Latn ha=hau_Latn he=heb_Hebr hi=hin_Deva hr=hrv_Latn ht=hat_Latn hu=hun_Latn
    hy=hye_Armn ia=ina_Latn id=ind_Latn ie=ile_Latn ig=ibo_Latn ii=iii_Yiii io=ido_Latn is=isl_Latn
    it=ita_Latn iu=iku_Cans ja=jpn_Jpan jv=jav_Latn ka=kat_Geor kg=kon_Latn ki=kik_Latn kk=kaz_Cyrl
    kl=kal_Latn km=khm_Khmr kn=kan_Knda ko=kor_Hang kr=knc_Latn ks=kas_Arab ku=kmr_Latn kv=kom_Cyrl
    kw=cor_Latn ky=kir_Cyrl la=lat_Latn lb=ltz_Latn lg=lug_Latn li=lim_Latn ln=lin_Latn lo=lao_Laoo
    lt=lit_Latn lu=lub_Latn lv=lvs_Latn mg=plt_Latn mi=mri_Latn mk=mkd_Cyrl ml=mal_Mlym mn=khk_Cyrl
    mr=mar_Deva ms=zsm_Latn mt=mlt_Latn my=mya_Mymr na=nau_Latn nb=nob_Latn nd=nde_Latn ne=npi_Deva
    nl=nld_Latn nn=nno_Latn no=nob_Latn nr=nbl_Latn nv=nav_Latn ny=nya_Latn oc=oci_Latn oj=oji_Cans
    om=gaz_Latn or=ory_Orya os=oss_Cyrl pa=pan_Guru pi=pli_Deva pl=pol_Latn ps=pbt_Arab pt=por_Latn
    qu=que_Latn rm=roh_Latn rn=run_Latn ro=ron_Latn ru=rus_Cyrl rw=kin_Latn sa=san_Deva sc=srd_Latn
    sd=snd_Arab se=sme_Latn sg=sag_Latn sh=srp_Latn si=sin_Sinh sk=slk_Latn sl=slv_Latn sm=smo_Latn
    sn=sna_Latn so=som_Latn sq=als_Latn sr=srp_Cyrl ss=ssw_Latn st=sot_Latn su=sun_Latn sv=swe_Latn
    sw=swh_Latn ta=tam_Taml te=tel_Telu tg=tgk_Cyrl th=tha_Thai ti=tir_Ethi tk=tuk_Latn tl=tgl_Latn
    tn=tsn_Latn to=ton_Latn tr=tur_Latn ts=tso_Latn tt=tat_Cyrl tw=twi_Latn ty=tah_Latn ug=uig_Arab
    uk=ukr_Cyrl ur=urd_Arab uz=uzn_Latn ve=ven_Latn vi=vie_Latn vo=vol_Latn wa=wln_Latn wo=wol_Latn
    xh=xho_Latn yi=ydd_Hebr yo=yor_Latn za=zha_Latn zh=zho_Hans zu=zul_Latn
    """
)

# ISO 639-3 -> ISO 639-1; "no" and "sh" are not of one language
_TWO_LETTERS = {
    code.split("_")[0]: short for short, code in ISO_639_1.items() if short not in ("no", "sh")
}

# ISO 639-3 macrolanguages, the bibliographic codes of ISO 639-2, and withdrawn codes that corpora
# still use
OTHER_CODES = lookup(
    """
    alb=als_Latn ara=arb_Arab arm=hye_Armn aym=ayr_Latn aze=azj_Latn baq=eus_Latn bur=mya_Mymr chi=zho_Hans
    cmn=zho_Hans cre=csw_Cans cze=ces_Latn din=dik_Latn dut=nld_Latn ekk=est_Latn fas=pes_Arab fil=tgl_Latn
    fre=fra_Latn ful=fuv_Latn geo=kat_Geor ger=deu_Latn gre=ell_Grek gug=grn_Latn hbs=srp_Latn ice=isl_Latn
    kau=knc_Latn kur=kmr_Latn lav=lvs_Latn mac=mkd_Cyrl mao=mri_Latn may=zsm_Latn mlg=plt_Latn mon=khk_Cyrl
    msa=zsm_Latn nep=npi_Deva nor=nob_Latn ori=ory_Orya orm=gaz_Latn per=pes_Arab pus=pbt_Arab rum=ron_Latn
    sat_Beng=sat_Olck slo=slk_Latn sqi=als_Latn swa=swh_Latn tib=bod_Tibt uzb=uzn_Latn wel=cym_Latn yid=ydd_Hebr
    in=ind_Latn iw=heb_Hebr ji=ydd_Hebr jw=jav_Latn ko_Kore=kor_Hang kor_Kore=kor_Hang ku_Arab=ckb_Arab
    kur_Arab=ckb_Arab
    """
)

# regions that write a language in another script, or speak another variety
# (likely subtags of Unicode CLDR)
OF_REGION = lookup(
    """
    azj_IR=azb_Arab kaz_CN=kaz_Arab khk_CN=khk_Mong kmr_IQ=ckb_Arab kmr_IR=ckb_Arab pan_PK=pan_Arab pes_AF=prs_Arab
    srp_ME=srp_Latn uzn_AF=uzn_Arab zho_HK=zho_Hant zho_MO=zho_Hant zho_TW=zho_Hant
    """
)

# codes with several scripts, all of which have a script in brackets in their names
MAIN_SCRIPT = lookup(
    """
    ace_Latn bal_Arab bjn_Latn kas_Arab knc_Latn kok_Deva kxv_Orya min_Latn shi_Tfng taq_Latn vai_Vaii
    wal_Ethi zho_Hans
    """,
    separator="_",
)

# of a language that the table lacks: corpora have thousands
CODE_SHAPE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}(_([A-Z]{2}|[0-9]{3}))?")

OTHER_NAMES: dict[str, str] = lookup(
    """
    albanian=als_Latn; arabic=arb_Arab; aymara=ayr_Latn; azerbaijani=azj_Latn; bangla=ben_Beng; bokmål=nob_Latn;
    cantonese=yue_Hant; chichewa=nya_Latn; dinka=dik_Latn; farsi=pes_Arab; filipino=tgl_Latn; flemish=nld_Latn;
    fulfulde=fuv_Latn; kanuri=knc_Latn; kurdish=kmr_Latn; latvian=lvs_Latn; luganda=lug_Latn; malagasy=plt_Latn;
    malay=zsm_Latn; mandarin=zho_Hans; mandarin chinese=zho_Hans; mongolian=khk_Cyrl; norwegian=nob_Latn;
    nynorsk=nno_Latn; oriya=ory_Orya; oromo=gaz_Latn; panjabi=pan_Guru; pashto=pbt_Arab; persian=pes_Arab;
    punjabi=pan_Guru; simplified chinese=zho_Hans; slovene=slv_Latn; sorani=ckb_Arab; tibetan=bod_Tibt;
    traditional chinese=zho_Hant; uzbek=uzn_Latn; yiddish=ydd_Hebr
    """
)

SCRIPTS: dict[str, str] = lookup(
    """
    Adlm=Adlam; Arab=Arabic; Armn=Armenian; Beng=Bengali; Cakm=Chakma; Cans=Canadian Aboriginal Syllabics;
    Cher=Cherokee; Copt=Coptic; Cyrl=Cyrillic; Deva=Devanagari; Ethi=Ge'ez; Geor=Georgian; Grek=Greek; Gujr=Gujarati;
    Guru=Gurmukhi; Hang=Hangul; Hans=Han (Simplified); Hant=Han (Traditional); Hebr=Hebrew; Jpan=Japanese; Khmr=Khmer;
    Knda=Kannada; Laoo=Lao; Latn=Latin; Mlym=Malayalam; Mong=Mongolian; Mtei=Meitei; Mymr=Myanmar; Nkoo=N'Ko;
    Olck=Ol Chiki; Orya=Oriya; Sinh=Sinhala; Syrc=Syriac; Taml=Tamil; Telu=Telugu; Tfng=Tifinagh; Thaa=Thaana;
    Thai=Thai; Tibt=Tibetan; Vaii=Vai; Yiii=Yi
    """
)


@dataclass(frozen=True)
class Language:
    """One row of the table.

    Attributes:
        code: NLLB code (``fra_Latn``), a longer relative (``por_Latn_BR``), or ``python``,
            ``latex`` ...
        name: English name, unique, as used in the prompts.
        script: English name of the script; None for code and mathematics.
        family: as in OS Table 32; None outside the table.
        resource: "high" or "low" (OS Table 32); None outside the table.
        nllb: one of the 204 languages of OS Table 32.
        base: one of the 202 languages that OmniSONAR-200 covers (Table 33: no ``arb_Latn``,
            ``min_Arab``).
        common80: supported by every model that OS compares (Table 33, bold), without English.
    """

    code: str
    name: str
    script: str | None
    family: str | None
    resource: str | None
    nllb: bool
    base: bool
    common80: bool


_FAMILY_OF = {code: family for family, codes in FAMILIES.items() for code in codes.split()}


def _language(code: str, name: str) -> Language:
    """A language with its properties in OS Table 32; a code outside of NLLB has few of them."""
    nllb = code in _FAMILY_OF
    return Language(
        code=code,
        name=name,
        script=SCRIPTS[code.split("_")[1]] if "_" in code else None,
        family=_FAMILY_OF.get(code),
        resource=("high" if code in HIGH_RESOURCE else "low") if nllb else None,
        nllb=nllb,
        base=nllb and code not in ("arb_Latn", "min_Arab"),
        common80=code in COMMON_80,
    )


LANGUAGES: dict[str, Language] = {
    code: _language(code, name) for code, name in LANGUAGE_NAMES.items()
}

_BY_NAME = {**OTHER_NAMES, **{language.name.lower(): code for code, language in LANGUAGES.items()}}


def is_language(code: str) -> bool:
    """Whether ``code`` is a known code, spelled exactly
    (``fra_Latn``, ``por_Latn_BR``, ``python``)."""
    return code in LANGUAGES


def language(code: str) -> Language:
    """The language of a code; ValueError for an unknown code names the closest known one."""
    try:
        return LANGUAGES[code]
    except (KeyError, TypeError):
        raise ValueError(f"unknown language code {code!r}{_suggestion(code)}") from None


def hub_code(code: str) -> str:
    """The code by which the Hub files a language:
    ISO 639-1 where there is one ("fr"), else ISO 639-3 ("ast")."""
    return _TWO_LETTERS.get(code.split("_")[0], code.split("_")[0])


def find_language(text: str, *, strict: bool = False) -> str:
    """Find the NLLB code of a name ("French"), an ISO 639 or BCP 47 code ("fr", "fra", "pt-BR") or
    an NLLB code.

    Case does not matter, with one exception: "Ga" is the language Ga, "ga" is Irish. A code of
    several varieties gives the most widely written one ("ar" is ``arb_Arab``, "zh" is
    ``zho_Hans``); an unknown region is dropped ("fr-CH" is ``fra_Latn``), an unknown script is an
    error.

    Args:
        strict: refuse a code of a language that is written in several scripts ("zh"), as all
            commands do.

    Raises:
        ValueError: an unknown language (the message names the closest match), or an ambiguous one
            (it names all).
    """
    codes = meanings(text)
    if strict and len(codes) > 1:
        raise ValueError(f"language {text!r} is ambiguous: give {' or '.join(codes)}")
    if not codes:
        raise ValueError(f"unknown language {text!r}{_suggestion(text)}")
    return codes[0]


def meanings(text: object) -> tuple[str, ...]:
    """All codes that a name or a code may mean, the most widely written one first;
    none if it is unknown."""
    code = _find(text)
    if code is None:
        return ()
    word = str(text).strip().lower()
    names_a_script_or_region = not word.isalpha()
    if names_a_script_or_region or word == "kmr":
        return (code,)
    return (code, *SEVERAL.get(code, ()))


def as_code(text: str) -> str:
    """The NLLB code of a language that a user names, by any name or code; an unlisted xyz_Latn
    stays as it is, unless xyz is another code of a listed one ("cmn_Hans").

    Raises:
        ValueError: it is unknown or ambiguous.
    """
    codes = meanings(text)
    is_code = CODE_SHAPE.fullmatch(text) is not None
    if is_code and (not codes or text.startswith(codes[0])):
        return text
    return find_language(text, strict=True)


class TaggedCode(str):
    """The NLLB code of a language that was named by a more exact tag: "eng_Latn" with the `tag`
    "en-GB".

    It is the code for everything but `language_fit`, which chooses among the variants that a file
    holds.
    """

    tag: str

    def __new__(cls, code: str, tag: str | None = None) -> TaggedCode:
        tagged = super().__new__(cls, code)
        tagged.tag = tag or code
        return tagged


def tagged_code(text: str) -> str:
    """`as_code` of a language, which keeps the tag where that names a region that the code lacks
    ("en-GB", "pt-PT").

    Raises:
        ValueError: as `as_code`.
    """
    code = as_code(text)
    region = _script_and_region(text)[1]
    if region is None or region == _script_and_region(code)[1]:
        return code
    return TaggedCode(code, text.strip())


EXACT = 0  # of `language_fit`


@cache
def _fit(name: str, code: str, tag: str) -> int | None:
    """As `language_fit`, for a code and its tag."""
    if name.lower().replace("_", "-") in (
        tag.lower().replace("_", "-"),
        code.lower().replace("_", "-"),
    ):
        return EXACT
    named_codes = meanings(name) or ((name,) if CODE_SHAPE.fullmatch(name) else ())
    is_same = code in named_codes
    is_variant = any(named.startswith(f"{code}_") for named in named_codes)
    is_general = any(code.startswith(f"{named}_") for named in named_codes)
    if not is_same and not is_variant and not is_general:
        return None

    region = _script_and_region(name)[1]
    wanted_region = _script_and_region(tag)[1]
    if wanted_region is not None:
        if region is None:
            return 1
        return EXACT if region == wanted_region and not is_general else None
    if is_general:
        return None
    rank = 2 if is_variant else 0
    if region is not None and not is_variant:
        rank = 1
    if is_same and named_codes[0] != code:  # "zh" may be zho_Hant, too
        rank = 3
    return rank


def language_fit(name: str, language: str) -> int | None:
    """How well the name of a language in a file fits the language asked for: 0 is exact, larger is
    worse, None is not.

    As the lookup of BCP 47 (RFC 4647): "pt" takes "pt", then "pt-PT", then "pt-BR"; "pt-BR" takes
    "pt-BR", then "pt", and no other region.

    Args:
        name: any spelling: "en-US", "EN_us", "eng", "eng_Latn".
        language: a code (`as_code`), or what `tagged_code` gives for a tag.
    """
    return _fit(name.strip(), str(language), getattr(language, "tag", str(language)))


@cache
def _script_and_region(tag: str) -> tuple[str | None, str | None]:
    """The subtags of a BCP 47 tag or NLLB code: "zh-Hant-TW" has Hant and TW.
    (None, None) for other words."""
    from langcodes.tag_parser import LanguageTagError, parse_tag

    try:
        subtags = dict(parse_tag(tag.strip()))
    except (LanguageTagError, ValueError):
        return None, None
    return subtags.get("script"), subtags.get("territory")


def bcp47(code: str) -> str:
    """The shortest BCP 47 tag that `find_language` reads as this code and nothing else:
    "fr", "zh-Hant", "ceb-Latn"."""
    short = _TWO_LETTERS.get(code[:3], code[:3])
    script = code[4:8]
    region = code[8:].replace("_", "-")
    for tag in (short + region, f"{short}-{script}{region}"):
        if meanings(tag) == (code,):
            return tag
    return code.replace("_", "-")


def _find(text: object) -> str | None:
    """The code that a name or code means, or None.
    An ISO 639-1 code comes before a name, if the name is not exact."""
    if not isinstance(text, str):
        return None
    name = text.strip()
    code = _BY_NAME.get(name.lower())
    if code and LANGUAGES[code].name == name:
        return code
    return ISO_639_1.get(name.lower()) or code or _find_code(name.lower())


def _find_code(tag: str) -> str | None:
    """The code that a code in lower case means: "fra", "pt-br", "zh_hant_hk"."""
    first, *subtags = re.split(r"[-_]", tag)
    # zh-yue, zh-cmn-Hans
    if len(first) == 2 and subtags and len(subtags[0]) == 3 and subtags[0].isalpha():
        first = subtags.pop(0)
    script = next(
        (subtag.title() for subtag in subtags if len(subtag) == 4 and subtag.isalpha()), None
    )
    region = next((subtag.upper() for subtag in subtags if len(subtag) == 2), None)
    if f"{first}_{script}" in OTHER_CODES:
        return OTHER_CODES[f"{first}_{script}"]
    if first in LANGUAGES and not subtags:  # python, latex
        return first
    code = ISO_639_1.get(first) or OTHER_CODES.get(first) or _main_code(first)
    if code is None:
        return None
    iso = code[:3]
    if script is not None:
        code = f"{iso}_{script}"
    elif region is not None:
        code = OF_REGION.get(f"{iso}_{region}", code)
    if f"{code}_{region}" in LANGUAGES:  # por_Latn_BR
        return f"{code}_{region}"
    return code if code in LANGUAGES else None


def _main_code(iso: str) -> str | None:
    """The NLLB code of an ISO 639-3 code: in its main script,
    or the one whose name has no script in brackets."""
    if iso in MAIN_SCRIPT:
        return f"{iso}_{MAIN_SCRIPT[iso]}"
    for code, language in LANGUAGES.items():
        is_variety = code.count("_") > 1
        if code.startswith(f"{iso}_") and not is_variety and not language.name.endswith(")"):
            return code
    return None


LISTED = "docs/languages.md lists the codes, such as fra_Latn"


def _suggestion(text: object) -> str:
    """The end of a message about an unknown language: what it may mean, such as ": did you mean
    fra_Latn (French)?", and without anything similar where the codes are listed."""
    word = str(text).strip().lower()
    code = _find(text)  # "fra", "fr", "French"
    codes = [code] if code else _similar_codes(word)
    if not codes:
        return f": {LISTED}"
    *others, last = [f"{code} ({LANGUAGES[code].name})" for code in codes]
    choices = f"{', '.join(others)} or {last}" if others else last
    if len(word) == 3 and not code:
        return f": did you mean {choices}? {LISTED}"
    return f": did you mean {choices}?"


def _similar_codes(word: str) -> list[str]:
    """Codes whose spelling, or the spelling of whose name, is similar; at most three.

    Two letters are a code, and similar codes mean other languages. So do three, but there all codes
    of one other letter are a start.
    """
    if len(word) < 3:
        return []
    if len(word) == 3:
        codes = []
        for iso in sorted({code.split("_")[0] for code in LANGUAGES}):
            equal_letters = sum(a == b for a, b in zip(iso, word, strict=False))
            code = _main_code(iso)
            if len(iso) == 3 and equal_letters == 2 and code:
                codes.append(code)
        # The last letter is wrong more often, and a language with much text is asked for more often.
        codes.sort(key=lambda code: (code[:2] != word[:2], LANGUAGES[code].resource != "high"))
        return codes[:3]
    spellings = {code.lower(): code for code in LANGUAGES} | _BY_NAME
    near = nearest(word, spellings)
    return [spellings[near]] if near else []


def _other_scripts() -> dict[str, tuple[str, ...]]:
    """Code of the main script -> those of the others, for languages whose bare code says nothing
    about the script."""
    others: dict[str, tuple[str, ...]] = {"kmr_Latn": ("ckb_Arab",)}  # "ku"
    for iso, script in MAIN_SCRIPT.items():
        main = f"{iso}_{script}"
        others[main] = tuple(
            code for code in LANGUAGES if code.startswith(f"{iso}_") and code != main
        )
    return others


SEVERAL = _other_scripts()

# a name without script in brackets means the main script: "Chinese", "Kashmiri"
for _main in SEVERAL:
    _BY_NAME.setdefault(LANGUAGES[_main].name.split(" (")[0].lower(), _main)
