"""The language of an edition: what most of its verses look like, not what its file name says (OS A.8).

The language comes from a callable (GlotLID in the paper), the script from Unicode. Three cases keep the declared
language: no callable; no prediction that half of the sample shares; a declared language that the callable does
not know (it could only call it by a wrong name).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import NamedTuple

from hf_echo.languages import find_language

LanguageId = Callable[[list[str]], Sequence[str | None]]  # texts -> codes ("fra_Latn" or "fra")

# first word of a character's Unicode name -> ISO 15924
SCRIPT_OF_WORD = dict(
    pair.split("=")
    for pair in """
    ADLAM=Adlm ARABIC=Arab ARMENIAN=Armn BENGALI=Beng CHAKMA=Cakm CANADIAN=Cans CHEROKEE=Cher COPTIC=Copt
    CYRILLIC=Cyrl DEVANAGARI=Deva ETHIOPIC=Ethi GEORGIAN=Geor GOTHIC=Goth GREEK=Grek GUJARATI=Gujr GURMUKHI=Guru
    HANGUL=Hang CJK=Hani HEBREW=Hebr HIRAGANA=Jpan KATAKANA=Jpan JAVANESE=Java KAYAH=Kali KHMER=Khmr KANNADA=Knda
    LAO=Laoo LATIN=Latn LEPCHA=Lepc LIMBU=Limb LISU=Lisu MALAYALAM=Mlym MONGOLIAN=Mong MEETEI=Mtei MYANMAR=Mymr
    NKO=Nkoo OL=Olck ORIYA=Orya OSAGE=Osge SINHALA=Sinh SYRIAC=Syrc TAI=Tale TAMIL=Taml TELUGU=Telu
    TIFINAGH=Tfng THAANA=Thaa THAI=Thai TIBETAN=Tibt VAI=Vaii YI=Yiii
    """.split()
)
KANA_SHARE = 0.05  # of Han and Kana letters; Japanese has far more, Chinese none


class Label(NamedTuple):
    lang: str | None  # code with script; None when nothing tells
    predicted: str | None  # what the callable said most often
    share: float | None  # of the sample that said so


def label(
    texts: Sequence[str],
    declared: str | None,
    lid: LanguageId | None = None,
    *,
    known: Collection[str] | None = None,
    minimum_share: float = 0.5,
) -> Label:
    """The code of texts that are of one language.

    Args:
        declared: a code with or without script, or None.
        lid: predicts a code for each text, or None where it cannot.
        known: the languages (ISO 639-3) that ``lid`` can tell; None: all.
        minimum_share: a majority less than this changes nothing.
    """
    language, declared_script = split_code(declared)
    predicted, share, lid_script = None, None, None
    if lid is not None and texts:
        votes = Counter(lid(list(texts)))
        predicted, count = min(votes.items(), key=lambda item: (-item[1], str(item[0])))
        share = count / len(texts)
        blind = known is not None and language is not None and language not in known
        if predicted is not None and share >= minimum_share and not blind:
            language, lid_script = split_code(predicted)
    script = script_of(texts) or declared_script
    if script == "Hani":  # Unicode does not tell the two apart
        script = next((s for s in (lid_script, declared_script) if s in ("Hans", "Hant")), "Hans")
    found = f"{language}_{script}" if language and script else None
    return Label(found, predicted, share)


def split_code(code: str | None) -> tuple[str | None, str | None]:
    """(ISO 639-3, script or None). A code that no table knows is taken as it is."""
    if not code:
        return None, None
    parts = re.split("[-_]", code)
    script = next((part for part in parts[1:] if len(part) == 4), None)
    try:
        known = find_language(code)
    except ValueError:
        try:
            known = find_language(parts[0])
        except ValueError:
            return (parts[0], script) if re.fullmatch("[a-z]{3}", parts[0]) else (None, script)
    return known.split("_")[0], script or (known.split("_")[1] if "_" in known else None)


def script_of(texts: Sequence[str]) -> str | None:
    """ISO 15924 of the script of most letters; None without a letter of a known script."""
    characters = Counter()
    for text in texts:
        characters.update(text)
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        if script := _script(character):
            scripts[script] += count
    if not scripts:
        return None
    if scripts["Jpan"] > KANA_SHARE * (scripts["Jpan"] + scripts["Hani"]):
        scripts["Jpan"] += scripts.pop("Hani", 0)
    return min(scripts.items(), key=lambda item: (-item[1], item[0]))[0]


@cache
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    return SCRIPT_OF_WORD.get(unicodedata.name(character, "").partition(" ")[0].partition("-")[0])
