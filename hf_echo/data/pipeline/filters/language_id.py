"""Language identification filter: drop texts that are not in the language of their label, by script
and by identifier.

A text with too few letters of the label's script is dropped. The identifier's answer counts only if
the text is long enough, the identifier knows the label's language, it is sure, and its answer is
written in the label's script. Languages that it confuses, or names by their macrolanguage, count as
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

from ....languages import LANGUAGES, find_language, language
from ....utils.extras import extra
from ....utils.settings import Checked, setting
from .columns import (
    SIDES,
    code_points,
    codes_of,
    count_by_row,
    script_number,
    script_numbers,
    script_of,
)

MIN_SCRIPT = 0.3  # least share of letters in the label's script
KANA = 0.1  # a text with a Chinese label and at least this share of kana is Japanese
HAN_ONLY = 12  # a text with this many Chinese characters and no kana is not Japanese
WEIGHT = 3  # a Chinese character, a kana or a Korean syllable counts as three letters
# Minimum margin of heliport's answer over the next best. On 100k rows of corpora with a tenth of
# them corrupted, 0.2 halves the false alarms on clean texts and keeps 96 % of the right answers
# (docs/log.md).
LEAD = 0.2


@dataclass(frozen=True)
class LanguageId(Checked):
    """Row filter by script and language identifier.

    Code and mathematics stay, and so do texts in a language that the identifier does not know, if
    the script is right. A Chinese character counts as three letters. The script is checked from a
    third of min_letters on; names and units are in Latin script in many languages. heliport reports
    when it is not sure.
    """

    sides: Literal["source", "target", "both"] = setting("the texts to check", "both")
    min_letters: int = setting("shorter texts stay", 20)

    def keep(self, table: pa.Table) -> np.ndarray:
        """(rows,) bool: the text is in its language, on the sides that are checked."""
        keep = np.ones(len(table), bool)
        for side in SIDES:
            if self.sides in (side, "both"):
                rows = np.flatnonzero(keep)
                texts, langs = (table[c].take(pa.array(rows)) for c in (side, f"{side}_lang"))
                keep[rows] = self._right(texts, langs)
        return keep

    def _right(self, texts: pa.ChunkedArray, langs: pa.ChunkedArray) -> np.ndarray:
        """(rows,) whether a text is in the script of its label and, if it is long,
        in its language."""
        numbers, codes = codes_of(langs)
        points, offsets = code_points(texts)
        script = script_of(points)

        def letters_in(scripts: Sequence[int]) -> np.ndarray:
            """(rows,) letters of a text in one of the scripts."""
            return count_by_row(weights * np.isin(script, scripts), offsets)

        heavy = [script_number(name) for name in ("Hani", "Hira", "Kana", "Hang")]
        weights = np.where(np.isin(script, heavy), WEIGHT, 1) * (script > 0)
        letters = count_by_row(weights, offsets)
        kana = letters_in([script_number("Hira"), script_number("Kana")])

        right = np.ones(len(texts), bool)
        long = np.zeros(len(texts), bool)
        for number, code in enumerate(codes):
            if language(code).script is None:
                continue
            rows = np.flatnonzero(numbers == number)
            of_label = letters_in(script_numbers(code))[rows]
            wrong = of_label < MIN_SCRIPT * letters[rows]
            # Chinese and Japanese share a script: kana tell them apart.
            script_code = code.split("_")[1]
            if script_code in ("Hans", "Hant"):
                wrong |= kana[rows] > KANA * letters[rows]
            if script_code == "Jpan":
                wrong |= (kana[rows] == 0) & (of_label >= WEIGHT * HAN_ONLY)
            long[rows] = letters[rows] >= self.min_letters
            right[rows] = ~(wrong & (letters[rows] * 3 >= self.min_letters))
        return right & self._named_right(texts, numbers, codes, right & long)

    def _named_right(
        self, texts: pa.Array, numbers: np.ndarray, codes: list[str], judged: np.ndarray
    ) -> np.ndarray:
        """Whether the identifier agrees with the label;
        checks only ``judged`` rows of languages that it knows."""
        right = np.ones(len(texts), bool)
        if not judged.any():
            return right
        identifier = open_identifier()
        knows = np.array(["_" in code and identifier.knows(code) for code in codes], bool)
        rows = np.flatnonzero(judged & knows[numbers])
        # Each distinct text is identified once.
        place, distinct = codes_of(texts.take(pa.array(rows)))
        answers = np.array(identifier.name(distinct), dtype=object)[place]
        for number in np.flatnonzero(knows):
            of_language = numbers[rows] == number
            against = []
            for answer in set(answers[of_language]):
                if answer is not None and identifier.differ(codes[number], answer):
                    against.append(answer)
            right[rows[of_language]] = ~np.isin(answers[of_language].astype(str), against)
        return right


def _by_member(groups: str) -> dict[str, str]:
    """Groups of codes with commas between them, each named by its first code.
    Returns member -> name."""
    return {code: group.split()[0] for group in groups.split(",") for code in group.split()}


# An identifier that knows the macrolanguage or one member of a group counts as knowing all of it
# (ISO 639-3). Members with another answer are left out: South Azerbaijani is identified as Persian,
# Latgalian as Lithuanian.
MACRO = _by_member("""
    ara arb acm acq aeb ajp apc ars ary arz acw acx ayl mey shu, zho cmn yue wuu hak nan gan lzh cdo,
    hbs srp hrv bos cnr, msa ind zsm zlm min bjn, fas pes prs, aze azj, aka twi fat, que quy quz quh qul, swa swh swc,
    lav lvs, est ekk, sqi als aln, nep npi, ori ory, mon khk, mlg plt, orm gaz, uzb uzn, pus pbt pbu, yid ydd, aym ayr,
    nor nob nno, tgl fil, kur kmr, din dik
""")
# Related languages that identifiers confused on FLORES and NTREX: an answer in a group never
# contradicts a label in it.
NEAR = _by_member("""
    nor dan, spa ast ext arg glg, nso sot tsn, zul xho ssw nde nbl, lmo lij vec fur ita cos, hin awa bho hne mag mai,
    msa jav sun, swa kin run, lav ltg sgs, est vro, pol szl, nld vls lim, deu gsw bar pfl ksh, bod dzo, aze azb,
    kas urd pnb
""")


def macro_of(iso: str) -> str:
    return MACRO.get(iso, iso)


def group_of(iso: str) -> str:
    return NEAR.get(macro_of(iso), macro_of(iso))


@cache
def _place(label: str) -> tuple[str, str | None] | None:
    """(ISO 639-3 code, script) of a label ("eng_Latn", "zh", "hbs"); script None if unknown."""
    if label in LANGUAGES and "_" in label:
        return label[:3], label.split("_")[1]
    try:
        code = find_language(label)
        return (code[:3], code.split("_")[1]) if "_" in code else None
    except ValueError:
        iso, _, script = label.partition("_")
        return (iso, script or None) if len(iso) == 3 and iso not in ("und", "zxx") else None


@dataclass(frozen=True)
class Identifier:
    """``name(texts)``: a label or None per text; ``macros``: the macrolanguages that it knows."""

    name: Callable[[Sequence[str]], list[str | None]]
    macros: frozenset[str]

    def knows(self, code: str) -> bool:
        return macro_of(code[:3]) in self.macros

    def differ(self, code: str, label: str) -> bool:
        """Whether a label contradicts a code:
        another group, in the same script or in an unknown one."""
        place = _place(label)
        if place is None or place[1] not in (None, code.split("_")[1]):
            return False
        return group_of(place[0]) != group_of(code[:3])


@cache
def open_identifier() -> Identifier:
    """Open heliport."""
    with extra("filters"):
        import heliport
    identifier = heliport.Identifier()

    def name(texts: Sequence[str]) -> list[str | None]:
        labels: list[str | None] = []
        for text in texts:
            label, lead = identifier.identify_with_score(text)
            labels.append(label if label != "und" and lead >= LEAD else None)
        return labels

    # heliport never answers with sublabels such as "hbsbos" and "undhtml".
    macros = set()
    for label in identifier.get_confidence_all():
        place = _place(label) if len(label) == 3 else None
        if place:
            macros.add(macro_of(place[0]))
    return Identifier(name, frozenset(macros))
