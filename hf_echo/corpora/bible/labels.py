"""The language of an edition: what most of its verses look like, not what its file name says (OS A.8).

The language comes from a callable (GlotLID in the paper), the script from Unicode. Three cases keep the declared
language: no callable; no prediction that half of the sample shares; a prediction that does not contradict it
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

Contradicts = Callable[[str, str], bool]  # (declared code, predicted one) -> the prediction speaks against it

# ISO 15924 codes of Unicode scripts: those of our languages, and of some that only Bibles are printed in
_MIXED = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hira Kana"}
UNICODE_SCRIPTS = " ".join([*(_MIXED.get(s, s) for s in SCRIPTS), "Lisu Java Limb Lepc Tale Kali Osge Goth Cham Bali"])
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
    contradicts: Contradicts | None = None,
    minimum_share: float = 0.5,
) -> Label:
    """The code of texts that are of one language.

    Args:
        declared: a code with or without script, or None.
        lid: predicts a code for each text, or None where it cannot.
        contradicts: whether a prediction speaks against a declared code; None: each other language does.
        minimum_share: a majority less than this changes nothing.
    """
    language, declared_script = split_code(declared)
    script = script_of(texts) or declared_script
    predicted, share, lid_script = None, None, None
    if lid is not None and texts:
        votes = Counter(lid(list(texts)))
        predicted, count = min(votes.items(), key=lambda item: (-item[1], str(item[0])))
        share = count / len(texts)
        if predicted is not None and share >= minimum_share:
            found = split_code(predicted)[0]
            lid_script = next((s for s in ("Hans", "Hant") if s in predicted), None)
            if found and not (language and contradicts and not contradicts(f"{language}_{script}", predicted)):
                language = found
    if script == "Hani":  # Unicode does not tell the two apart
        script = next((s for s in (lid_script, declared_script) if s in ("Hans", "Hant")), "Hans")
    return Label(f"{language}_{script}" if language and script else None, predicted, share)


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
