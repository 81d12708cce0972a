"""The language identifier heliport. Languages that it confuses, or names by their macrolanguage, count as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from ....languages import LANGUAGES, find_language

# Minimum margin of heliport's answer over the next best. On 100k rows of corpora with a tenth of them corrupted, 0.2
# halves the false alarms on clean texts and keeps 96 % of the right answers (docs/log.md).
LEAD = 0.2


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
        raise ImportError("language identification needs heliport: pip install 'hf-echo[filters]'") from error
    identifier = heliport.Identifier()

    def name(texts: Sequence[str]) -> list[str | None]:
        answers = map(identifier.identify_with_score, texts)
        return [label if label != "und" and lead >= LEAD else None for label, lead in answers]

    # heliport never answers with sublabels such as "hbsbos" and "undhtml"
    places = [_place(label) for label in identifier.get_confidence_all() if len(label) == 3]
    return Identifier(name, frozenset(macro_of(place[0]) for place in places if place))
