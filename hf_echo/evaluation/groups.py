"""Average a table of languages by script, family or resource level."""

from __future__ import annotations

from typing import Any

from ..languages import LANGUAGES
from ..utils.results import Table

GROUPS = ("script", "family", "resource", "head", "lang", "target_lang")
# EMMA-X, appendix B.1: 68 of FLORES' languages; the others are the long tail.
HEAD = frozenset(
    """
    bel_Cyrl bos_Latn hun_Latn epo_Latn khm_Khmr urd_Arab srp_Cyrl jav_Latn hye_Armn gla_Latn por_Latn lit_Latn bul_Cyrl
    slk_Latn mal_Mlym ita_Latn nno_Latn mar_Deva hrv_Latn hin_Deva kat_Geor ben_Beng fin_Latn cym_Latn oci_Latn cat_Latn
    fao_Latn xho_Latn spa_Latn ron_Latn amh_Ethi ces_Latn swe_Latn nld_Latn tat_Cyrl kor_Hang glg_Latn fra_Latn eus_Latn
    ind_Latn dan_Latn tha_Thai deu_Latn tel_Telu afr_Latn pol_Latn est_Latn uig_Arab ukr_Cyrl uzn_Latn heb_Hebr kaz_Cyrl
    nob_Latn rus_Cyrl vie_Latn arb_Arab zho_Hans tuk_Latn khk_Cyrl jpn_Jpan ell_Grek isl_Latn tam_Taml slv_Latn tur_Latn
    mkd_Cyrl tgl_Latn gle_Latn
    """.split()
)


def grouped(table: Table, by: str) -> Table:
    """Average each averaged column over the languages of a group; `languages` is the number of rows in the group.

    Args:
        by: "script", "family" or "resource" of the column lang; "head", EMMA-X's head languages against its long tail;
            or a column: "lang" or "target_lang" (of a table of all pairs). Languages without the property (code, or
            not in OS Table 32) form the group "none".

    Groups are in order of first appearance; the average is the table's own.

    Raises:
        ValueError: an unknown `by`, or a table without averages or without the column.
    """
    if by not in GROUPS:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(GROUPS)}")
    column = by if by.endswith("lang") else "lang"
    if not table.average or any(column not in row for row in table.rows):
        raise ValueError(f"grouping by {by} needs a table with an average and a column {column!r}")
    measures = [name for name in table.average if name in table.columns[1:]]
    groups: dict[Any, list[dict]] = {}
    for row in table.rows:
        code = row[column]
        if by == "head":
            known = "head" if code in HEAD else "long tail"
        else:
            known = code if by == column else getattr(LANGUAGES.get(code), by, None)
        groups.setdefault(known or "none", []).append(row)
    rows = []
    for name, members in groups.items():
        means = Table(members).with_average(measures).average or {}
        rows.append({by: name, "languages": len(members)} | {m: means[m] for m in measures})
    average = {by: "average", "languages": len(table.rows)} | {m: table.average[m] for m in measures}
    return Table(rows, average, table.notes)
