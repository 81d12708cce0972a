"""Language label of an edition: the language of most of its verses instead of its file name (OS A.8).

A callable predicts the language (GlotLID in the paper); Unicode gives the script. The declared language stays in three
cases: without a callable; without a prediction for half of the sample; if the prediction does not contradict it
(identifiers know fewer languages than there are Bibles, and some only by their macrolanguage).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import regex

from hf_echo.language_table import SCRIPTS
from hf_echo.languages import find_language

LanguageId = Callable[[list[str]], Sequence[str | None]]  # texts -> codes ("fra_Latn" or "fra")

Contradicts = Callable[[str, str], bool]  # (declared code, predicted code) -> whether they contradict each other

# ISO 15924 codes of Unicode scripts: those of our languages, and a few that occur only in Bibles
_MIXED = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira Kana"}
UNICODE_SCRIPTS = " ".join([*(_MIXED.get(s, s) for s in SCRIPTS), "Lisu Java Limb Lepc Tale Kali Osge Goth Cham Bali"])
KANA_SHARE = 0.05  # of Han and Kana letters; Japanese has far more, Chinese none


class Label(NamedTuple):
    lang: str | None  # code with script; None if unknown
    predicted: str | None  # the most frequent prediction
    share: float | None  # its share of the sample


def label(
    texts: Sequence[str],
    declared: str | None,
    lid: LanguageId | None = None,
    *,
    contradicts: Contradicts | None = None,
    minimum_share: float = 0.5,
) -> Label:
    """Determine the language code of texts in one language.

    Args:
        declared: a code with or without script, or None.
        lid: predicts a code for each text, or None if it cannot.
        contradicts: whether a prediction contradicts a declared code; None: every other language does.
        minimum_share: a smaller majority changes nothing.
    """
    language, declared_script = split_code(declared)
    script = script_of(texts) or declared_script
    predicted, share, lid_script = None, None, None
    if lid is not None and texts:
        votes = Counter(lid(list(texts)))
        predicted, count = min(votes.items(), key=lambda item: (-item[1], str(item[0])))
        share = count / len(texts)
        if predicted is not None and share >= minimum_share:
            iso = split_code(predicted)[0]
            lid_script = next((s for s in ("Hans", "Hant") if s in predicted), None)
            if iso and not (language and contradicts and not contradicts(f"{language}_{script}", predicted)):
                language = iso
    if script == "Hani":  # Unicode does not distinguish Hans and Hant
        script = next((s for s in (lid_script, declared_script) if s in ("Hans", "Hant")), "Hans")
    return Label(f"{language}_{script}" if language and script else None, predicted, share)


def split_code(code: str | None) -> tuple[str | None, str | None]:
    """(ISO 639-3, script or None). An unknown code is returned unchanged."""
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
    """ISO 15924 code of the script of most letters; None without a letter of a known script."""
    characters = Counter()
    for text in texts:
        characters.update(text)
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        if script := _script(character):
            scripts[script] += count
    if not scripts:
        return None
    scripts["Jpan"] = scripts.pop("Hira", 0) + scripts.pop("Kana", 0)
    if scripts["Jpan"] > KANA_SHARE * (scripts["Jpan"] + scripts["Hani"]):
        scripts["Jpan"] += scripts.pop("Hani", 0)
    return min(scripts.items(), key=lambda item: (-item[1], item[0]))[0]


@cache
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    return next((s for s in UNICODE_SCRIPTS.split() if _is_in(s).match(character)), None)


@cache
def _is_in(script: str) -> regex.Pattern:
    return regex.compile(rf"\p{{Script={script}}}")
