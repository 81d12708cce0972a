"""Language identification filter: drop texts that are not in the language of their label, by script and by identifier.

A text with too few letters of the label's script is dropped. The identifier's answer counts only if the text is long
enough, the identifier knows the label's language, it is sure, and its answer is written in the label's script.
Languages that it confuses, or names by their macrolanguage, count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

from ....languages import LANGUAGES, find_language, language
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

KANA = 0.1  # a text with a Chinese label and at least this share of kana is Japanese
HAN_ONLY = 12  # a text with this many Chinese characters and no kana is not Japanese
WEIGHT = 3  # a Chinese character, a kana or a Korean syllable counts as three letters
# Minimum margin of heliport's answer over the next best. On 100k rows of corpora with a tenth of them corrupted, 0.2
# halves the false alarms on clean texts and keeps 96 % of the right answers (docs/log.md).
LEAD = 0.2


@dataclass(frozen=True)
class LanguageId(Checked):
    """Row filter by script and language identifier.

    Code and mathematics stay, and so do texts in a language that the identifier does not know, if the script is right.
    A Chinese character counts as three letters. The script is checked from a third of min_letters on; names and units
    are in Latin script in many languages. heliport reports when it is not sure.
    """

    sides: Literal["source", "target", "both"] = setting("the texts to check", "both")
    min_letters: int = setting("shorter texts stay", 20)
    min_script: float = setting("minimum share of letters in the label's script", 0.3)

    def keep(self, table: pa.Table) -> np.ndarray:
        keep = np.ones(len(table), bool)
        for side in SIDES:
            if self.sides in (side, "both"):
                rows = np.flatnonzero(keep)
                texts, langs = (table[c].take(pa.array(rows)) for c in (side, f"{side}_lang"))
                keep[rows] = self._right(texts, langs)
        return keep

    def _right(self, texts: pa.ChunkedArray, langs: pa.ChunkedArray) -> np.ndarray:
        numbers, codes = codes_of(langs)
        letters = np.zeros(len(texts))
        right = np.ones(len(texts), bool)
        long = np.zeros(len(texts), bool)
        points, offsets = code_points(texts)
        script = script_of(points)
        weights = np.where(
            np.isin(script, [script_number(s) for s in ("Hani", "Hira", "Kana", "Hang")]), WEIGHT, 1
        )
        weights = weights * (script > 0)
        letters = count_by_row(weights, offsets)
        kana = count_by_row(
            weights * np.isin(script, [script_number("Hira"), script_number("Kana")]), offsets
        )
        for number, code in enumerate(codes):
            if language(code).script is None:
                continue
            rows = np.flatnonzero(numbers == number)
            own = count_by_row(weights * np.isin(script, script_numbers(code)), offsets)[rows]
            wrong = own < self.min_script * letters[rows]
            if code.split("_")[1] in ("Hans", "Hant"):
                wrong |= kana[rows] > KANA * letters[rows]
            if code.split("_")[1] == "Jpan":
                wrong |= (kana[rows] == 0) & (own >= WEIGHT * HAN_ONLY)
            long[rows] = letters[rows] >= self.min_letters
            right[rows] = ~(wrong & (letters[rows] * 3 >= self.min_letters))
        return right & self._named_right(texts, numbers, codes, right & long)

    def _named_right(
        self, texts: pa.Array, numbers: np.ndarray, codes: list[str], judged: np.ndarray
    ) -> np.ndarray:
        """Whether the identifier agrees with the label; checks only ``judged`` rows of languages that it knows."""
        right = np.ones(len(texts), bool)
        if not judged.any():
            return right
        identifier = open_identifier()
        known = np.array(["_" in code and identifier.knows(code) for code in codes], bool)
        rows = np.flatnonzero(judged & known[numbers])
        unique, distinct = codes_of(texts.take(pa.array(rows)))
        answers = np.array(identifier.name(distinct), dtype=object)[unique]
        for code in np.flatnonzero(known):
            own = numbers[rows] == code
            against = [
                a for a in set(answers[own]) if a is not None and identifier.differ(codes[code], a)
            ]
            right[rows[own]] = ~np.isin(answers[own].astype(str), against)
        return right


def _by_member(groups: str) -> dict[str, str]:
    """Groups of codes with commas between them, each named by its first code. Returns member -> name."""
    return {code: group.split()[0] for group in groups.split(",") for code in group.split()}


# An identifier that knows the macrolanguage or one member of a group counts as knowing all of it (ISO 639-3). Members
# with another answer are left out: South Azerbaijani is identified as Persian, Latgalian as Lithuanian.
MACRO = _by_member("""
    ara arb acm acq aeb ajp apc ars ary arz acw acx ayl mey shu, zho cmn yue wuu hak nan gan lzh cdo,
    hbs srp hrv bos cnr, msa ind zsm zlm min bjn, fas pes prs, aze azj, aka twi fat, que quy quz quh qul, swa swh swc,
    lav lvs, est ekk, sqi als aln, nep npi, ori ory, mon khk, mlg plt, orm gaz, uzb uzn, pus pbt pbu, yid ydd, aym ayr,
    nor nob nno, tgl fil, kur kmr, din dik
""")
# Related languages that identifiers confused on FLORES and NTREX: an answer in a group never contradicts a label in it.
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
        """Whether a label contradicts a code: another group, in the same script or in an unknown one."""
        place = _place(label)
        if place is None or place[1] not in (None, code.split("_")[1]):
            return False
        return group_of(place[0]) != group_of(code[:3])


@cache
def open_identifier() -> Identifier:
    """Open heliport."""
    try:
        import heliport
    except ImportError as error:
        raise ImportError(
            "language identification needs heliport: pip install -e '.[filters]'"
        ) from error
    identifier = heliport.Identifier()

    def name(texts: Sequence[str]) -> list[str | None]:
        answers = map(identifier.identify_with_score, texts)
        return [label if label != "und" and lead >= LEAD else None for label, lead in answers]

    # heliport never answers with sublabels such as "hbsbos" and "undhtml"
    places = [_place(label) for label in identifier.get_confidence_all() if len(label) == 3]
    return Identifier(name, frozenset(macro_of(place[0]) for place in places if place))
