"""English names of the languages, as used in the prompts: ``LANGUAGE_NAMES["fra_Latn"] ==
"French"``.

A plain table without imports, because it is pushed to the Hub beside a checkpoint. Codes are NLLB
codes (ISO 639-3 + script); a third part names a variety (``por_Latn_BR``). Code and mathematics
count as languages. Names are unique.

The 204 languages of Omnilingual SONAR Table 32 have the name printed there. Where the table prints
one name for two scripts, the script follows in brackets, as in FLORES-200. Two printed codes are
corrected: Chokwe is ``cjk_Latn`` (``chk_Latn`` is Chuukese), Lao is ``lao_Laoo``. All other names
are those of Unicode CLDR, or of ISO 639-3 where CLDR has none. The languages that a checkpoint was
trained on are in its configuration.
"""

from __future__ import annotations


def _table(text: str) -> dict[str, str]:
    """ "code Name; code Name" -> {code: name}."""
    return dict(" ".join(entry.split()).split(" ", 1) for entry in text.split(";"))


LANGUAGE_NAMES: dict[str, str] = _table(
    """
    abk_Cyrl Abkhazian; ace_Arab Acehnese (Arabic script); ace_Latn Acehnese (Latin script); ach_Latn Acoli;
    acm_Arab Mesopotamian Arabic; acq_Arab Ta'izzi-Adeni Arabic; acu_Latn Achuar-Shiwiar; aeb_Arab Tunisian Arabic;
    afr_Latn Afrikaans; agq_Latn Aghem; agr_Latn Aguaruna; ajp_Arab South Levantine Arabic; aka_Latn Akan;
    ake_Latn Akawaio; als_Latn Tosk Albanian; amh_Ethi Amharic; amu_Latn Guerrero Amuzgo; ang_Latn Old English;
    apc_Arab North Levantine Arabic; arb_Arab Modern Standard Arabic; arb_Latn Modern Standard Arabic (Latin script);
    arg_Latn Aragonese; ars_Arab Najdi Arabic; ary_Arab Moroccan Arabic; arz_Arab Egyptian Arabic; asa_Latn Asu;
    asm_Beng Assamese; ast_Latn Asturian; awa_Deva Awadhi; ayr_Latn Central Aymara; azb_Arab South Azerbaijani;
    azj_Arab North Azerbaijani (Arabic script); azj_Cyrl North Azerbaijani (Cyrillic script);
    azj_Latn North Azerbaijani; bak_Cyrl Bashkir; bal_Arab Baluchi (Arabic script); bal_Latn Baluchi (Latin script);
    bam_Latn Bambara; ban_Latn Balinese; bar_Latn Bavarian; bas_Latn Basaa; bbj_Latn Ghomala; bel_Cyrl Belarusian;
    bel_Latn Belarusian (Latin script); bem_Latn Bemba; ben_Beng Bengali; bew_Latn Betawi; bez_Latn Bena;
    bgc_Deva Haryanvi; bgn_Arab Western Balochi; bho_Deva Bhojpuri; bjn_Arab Banjar (Arabic script);
    bjn_Latn Banjar (Latin script); blo_Latn Anii; bod_Tibt Standard Tibetan; bos_Cyrl Bosnian (Cyrillic script);
    bos_Latn Bosnian; bre_Latn Breton; brx_Deva Bodo; bsn_Latn Barasana-Eduria; bss_Latn Akoose; bug_Latn Buginese;
    bul_Cyrl Bulgarian; byn_Ethi Blin; cak_Latn Kaqchikel; cat_Latn Catalan; cch_Latn Atsam; ccp_Cakm Chakma;
    ceb_Latn Cebuano; ces_Latn Czech; cgg_Latn Chiga; cha_Latn Chamorro; che_Cyrl Chechen;
    chq_Latn Quiotepec Chinantec; chr_Cher Cherokee; chu_Cyrl Church Slavic; chv_Cyrl Chuvash; cjk_Latn Chokwe;
    cjp_Latn Cabécar; ckb_Arab Central Kurdish; cni_Latn Asháninka; cop_Copt Coptic; cor_Latn Cornish;
    cos_Latn Corsican; crh_Latn Crimean Tatar; csb_Latn Kashubian; csw_Cans Swampy Cree; cym_Latn Welsh;
    dan_Latn Danish; dav_Latn Taita; deu_Latn German; dik_Latn Southwestern Dinka; div_Thaa Divehi; dje_Latn Zarma;
    djk_Latn Eastern Maroon Creole; doi_Deva Dogri; dop_Latn Lukpa; dsb_Latn Lower Sorbian; dyo_Latn Jola-Fonyi;
    dyu_Latn Dyula; dzo_Tibt Dzongkha; ebu_Latn Embu; ell_Grek Greek; eng_Latn English; eng_Latn_GB British English;
    eng_Latn_IN Indian English; eng_Latn_US American English; epo_Latn Esperanto; est_Latn Estonian; eus_Latn Basque;
    ewe_Latn Ewe; ewo_Latn Ewondo; fao_Latn Faroese; fij_Latn Fijian; fin_Latn Finnish; fon_Latn Fon; fra_Latn French;
    fra_Latn_CA Canadian French; frp_Latn Arpitan; frr_Latn Northern Frisian; fry_Latn Western Frisian;
    fuc_Latn Pulaar; fur_Latn Friulian; fuv_Adlm Nigerian Fulfulde (Adlam script); fuv_Latn Nigerian Fulfulde;
    gaa_Latn Ga; gaz_Latn West Central Oromo; gbi_Latn Galela; gez_Ethi Geez; gla_Latn Scottish Gaelic;
    gle_Latn Irish; glg_Latn Galician; glv_Latn Manx; grc_Grek Ancient Greek; grn_Latn Guarani; gsw_Latn Swiss German;
    gsw_Latn_BE Bernese Swiss German; gsw_Latn_ZH Zurich Swiss German; guj_Gujr Gujarati; guz_Latn Gusii;
    hat_Latn Haitian Creole; hau_Arab Hausa (Arabic script); hau_Latn Hausa; haw_Latn Hawaiian; heb_Hebr Hebrew;
    hin_Deva Hindi; hin_Latn Hindi (Latin script); hmn_Latn Hmong; hne_Deva Chhattisgarhi; hrv_Latn Croatian;
    hsb_Latn Upper Sorbian; hun_Latn Hungarian; hye_Armn Armenian; ibo_Latn Igbo; ido_Latn Ido; iii_Yiii Sichuan Yi;
    iku_Cans Inuktitut; ile_Latn Interlingue; ilo_Latn Ilocano; ina_Latn Interlingua; ind_Latn Indonesian;
    isl_Latn Icelandic; ita_Latn Italian; jac_Latn Popti'; jam_Latn Jamaican Creole English; jav_Latn Javanese;
    jgo_Latn Ngomba; jiv_Latn Shuar; jmc_Latn Machame; jpn_Jpan Japanese; kaa_Cyrl Kara-Kalpak; kab_Latn Kabyle;
    kac_Latn Jingpho; kaj_Latn Jju; kal_Latn Kalaallisut; kam_Latn Kamba; kan_Knda Kannada;
    kas_Arab Kashmiri (Arabic script); kas_Deva Kashmiri (Devanagari script); kat_Geor Georgian;
    kaz_Arab Kazakh (Arabic script); kaz_Cyrl Kazakh; kbh_Latn Camsá; kbp_Latn Kabiyè; kcg_Latn Tyap;
    kde_Latn Makonde; kea_Latn Kabuverdianu; kgp_Latn Kaingang; kha_Latn Khasi; khk_Cyrl Halh Mongolian;
    khk_Mong Halh Mongolian (Mongolian script); khm_Khmr Khmer; khq_Latn Koyra Chiini; kik_Latn Kikuyu;
    kin_Latn Kinyarwanda; kir_Cyrl Kyrgyz; kkj_Latn Kako; kln_Latn Kalenjin; kmb_Latn Kimbundu;
    kmr_Arab Northern Kurdish (Arabic script); kmr_Latn Northern Kurdish; knc_Arab Central Kanuri (Arabic script);
    knc_Latn Central Kanuri (Latin script); kok_Deva Konkani (Devanagari script); kok_Latn Konkani (Latin script);
    kom_Cyrl Komi; kon_Latn Kikongo; kor_Hang Korean; ksb_Latn Shambala; ksf_Latn Bafia; ksh_Latn Colognian;
    kxv_Deva Kuvi (Devanagari script); kxv_Latn Kuvi (Latin script); kxv_Orya Kuvi (Odia script);
    kxv_Telu Kuvi (Telugu script); lag_Latn Langi; lao_Laoo Lao; lat_Latn Latin; lij_Latn Ligurian;
    lim_Latn Limburgish; lin_Latn Lingala; lit_Latn Lithuanian; lkt_Latn Lakota; lld_Latn Ladin; lmo_Latn Lombard;
    lrc_Arab Northern Luri; ltg_Latn Latgalian; ltz_Latn Luxembourgish; lua_Latn Luba-Kasai; lub_Latn Luba-Katanga;
    lug_Latn Ganda; luo_Latn Luo; lus_Latn Mizo; luy_Latn Luyia; lvs_Latn Standard Latvian; mag_Deva Magahi;
    mai_Deva Maithili; mal_Mlym Malayalam; mam_Latn Mam; mar_Deva Marathi; mas_Latn Masai; mdf_Cyrl Moksha;
    mer_Latn Meru; mey_Arab Hassaniyya; mfe_Latn Morisyen; mgh_Latn Makhuwa-Meetto; mgo_Latn Meta';
    mhr_Cyrl Eastern Mari; mic_Latn Mi'kmaw; min_Arab Minangkabau (Arabic script);
    min_Latn Minangkabau (Latin script); mjw_Latn Karbi; mkd_Cyrl Macedonian; mlt_Latn Maltese; mni_Beng Meitei;
    mni_Mtei Meitei (Meitei script); mos_Latn Mossi; mri_Latn Maori; mua_Latn Mundang; mya_Mymr Burmese;
    myv_Cyrl Erzya; mzn_Arab Mazanderani; nah_Latn Nahuatl; naq_Latn Nama; nau_Latn Nauru; nav_Latn Navajo;
    nbl_Latn South Ndebele; nde_Latn North Ndebele; nds_Latn Low German; nhg_Latn Tetelcingo Nahuatl; nld_Latn Dutch;
    nmg_Latn Kwasio; nnh_Latn Ngiemboon; nno_Latn Norwegian Nynorsk; nob_Latn Norwegian Bokmål; npi_Deva Nepali;
    nqo_Nkoo N'Ko; nso_Latn Northern Sotho; nus_Latn Nuer; nya_Latn Nyanja; nyn_Latn Nyankole; oci_Latn Occitan;
    oji_Cans Ojibwa; ory_Orya Odia; oss_Cyrl Ossetic; ota_Arab Ottoman Turkish; pag_Latn Pangasinan;
    pan_Arab Panjabi (Arabic script); pan_Guru Eastern Panjabi; pap_Latn Papiamentu; pbt_Arab Southern Pashto;
    pcm_Latn Nigerian Pidgin; pes_Arab Western Persian; pis_Latn Pijin; pli_Deva Pali; plt_Latn Plateau Malagasy;
    pol_Latn Polish; por_Latn Portuguese; por_Latn_BR Brazilian Portuguese; pot_Latn Potawatomi; ppk_Latn Uma;
    prg_Latn Prussian; prs_Arab Dari; quc_Latn K'iche'; que_Latn Quechua; quy_Latn Ayacucho Quechua;
    qve_Latn Eastern Apurímac Quechua; raj_Deva Rajasthani; rif_Latn Riffian; rmn_Latn Balkan Romani; rof_Latn Rombo;
    roh_Latn Romansh; ron_Cyrl Romanian (Cyrillic script); ron_Latn Romanian; run_Latn Rundi; rus_Cyrl Russian;
    rwk_Latn Rwa; sag_Latn Sango; sah_Cyrl Yakut; san_Deva Sanskrit; saq_Latn Samburu;
    sat_Deva Santali (Devanagari script); sat_Olck Santali; sbp_Latn Sangu; scn_Latn Sicilian;
    sdh_Arab Southern Kurdish; seh_Latn Sena; ses_Latn Koyraboro Senni; shi_Arab Tachelhit (Arabic script);
    shi_Latn Tachelhit (Latin script); shi_Tfng Tachelhit (Tifinagh script); shn_Mymr Shan; sin_Sinh Sinhala;
    slk_Latn Slovak; slv_Latn Slovenian; sma_Latn Southern Sami; sme_Latn Northern Sami; smj_Latn Lule Sami;
    smn_Latn Inari Sami; smo_Latn Samoan; sms_Latn Skolt Sami; sna_Latn Shona; snd_Arab Sindhi;
    snd_Deva Sindhi (Devanagari script); som_Latn Somali; son_Latn Songhai; sot_Latn Southern Sotho; spa_Latn Spanish;
    spa_Latn_MX Mexican Spanish; srd_Latn Sardinian; srp_Cyrl Serbian; srp_Latn Serbian (Latin script);
    ssw_Latn Swati; sun_Latn Sundanese; swe_Latn Swedish; swh_Latn Swahili; syr_Syrc Syriac; szl_Latn Silesian;
    tah_Latn Tahitian; tam_Taml Tamil; taq_Latn Tamasheq (Latin script); taq_Tfng Tamasheq (Tifinagh script);
    tat_Cyrl Tatar; tat_Latn Tatar (Latin script); tel_Telu Telugu; teo_Latn Teso; tet_Latn Tetum; tgk_Cyrl Tajik;
    tgl_Latn Tagalog; tha_Thai Thai; tig_Ethi Tigre; tir_Ethi Tigrinya; tok_Latn Toki Pona; ton_Latn Tongan;
    tpi_Latn Tok Pisin; trv_Latn Taroko; trw_Arab Torwali; tsn_Latn Tswana; tso_Latn Tsonga;
    ttq_Latn Tawallammat Tamajaq; tuk_Latn Turkmen; tum_Latn Tumbuka; tur_Latn Turkish; twi_Latn Twi;
    twq_Latn Tasawaq; tzm_Latn Central Atlas Tamazight (Latin script); tzm_Tfng Central Atlas Tamazight;
    udm_Cyrl Udmurt; uig_Arab Uyghur; ukr_Cyrl Ukrainian; umb_Latn Umbundu; urd_Arab Urdu; usp_Latn Uspanteco;
    uzn_Arab Northern Uzbek (Arabic script); uzn_Cyrl Northern Uzbek (Cyrillic script); uzn_Latn Northern Uzbek;
    vai_Latn Vai (Latin script); vai_Vaii Vai (Vai script); vec_Latn Venetian; ven_Latn Venda; vie_Latn Vietnamese;
    vol_Latn Volapük; vun_Latn Vunjo; wae_Latn Walser; wal_Ethi Wolaytta (Ge'ez script);
    wal_Latn Wolaytta (Latin script); war_Latn Waray; wln_Latn Walloon; wol_Latn Wolof; xho_Latn Xhosa;
    xnr_Deva Kangri; xog_Latn Soga; yav_Latn Yangben; ydd_Hebr Eastern Yiddish; yor_Latn Yoruba; yrl_Latn Nheengatu;
    yue_Hant Yue Chinese; zgh_Tfng Standard Moroccan Tamazight; zha_Latn Zhuang; zho_Hans Chinese (Simplified);
    zho_Hant Chinese (Traditional); zsm_Arab Standard Malay (Arabic script); zsm_Latn Standard Malay; zul_Latn Zulu;
    python Python; java Java; javascript JavaScript; go Go; c C; cpp C++; ruby Ruby; csharp C#; php PHP; latex LaTeX
    """
)
