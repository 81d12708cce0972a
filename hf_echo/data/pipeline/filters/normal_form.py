"""The form in which two texts count as the same: NFKC, case folded, white space made single; maybe less than that."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

IGNORABLE = {"punctuation": r"\p{P}\p{S}", "digits": r"\p{N}"}


def check_ignore(ignore: Sequence[str]) -> None:
    """Raises ValueError for a name that is not in IGNORABLE."""
    if isinstance(ignore, str) or (wrong := [name for name in ignore if name not in IGNORABLE]):
        named = ignore if isinstance(ignore, str) else wrong[0]
        raise ValueError(f"ignore is a list of {', '.join(IGNORABLE)}, not {named!r}")


def normal_forms(texts: Sequence[str], ignore: Sequence[str] = ()) -> list[str]:
    """One form a text. What ``ignore`` names is left out, unless nothing else is in the text ("!!!" is not "...")."""
    forms = [_fold(text) for text in texts]
    if not ignore:
        return forms
    drop = regex.compile(f"[{''.join(IGNORABLE[name] for name in ignore)}]+")
    return [" ".join(drop.sub(" ", form).split()) or form for form in forms]


def _fold(text: str) -> str:
    if text.isascii():
        return " ".join(text.lower().split())
    # folding can undo the normal form (Unicode 3.13, D146)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
