"""Normal form of texts for comparison: NFKC, case folding, single white space; optionally no punctuation or digits."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

IGNORABLE = {"punctuation": r"\p{P}\p{S}", "digits": r"\p{N}"}


def check_ignore(ignore: Sequence[str]) -> None:
    """Raise ValueError for a name that is not in IGNORABLE."""
    if isinstance(ignore, str) or (wrong := [name for name in ignore if name not in IGNORABLE]):
        named = ignore if isinstance(ignore, str) else wrong[0]
        raise ValueError(f"ignore must be a list of {', '.join(IGNORABLE)}, not {named!r}")


def normal_forms(texts: Sequence[str], ignore: Sequence[str] = ()) -> list[str]:
    """Normal forms. Characters of ``ignore`` are removed, unless the text has no others ("!!!" differs from "...")."""
    forms = [_fold(text) for text in texts]
    if not ignore:
        return forms
    drop = regex.compile(f"[{''.join(IGNORABLE[name] for name in ignore)}]+")
    return [" ".join(drop.sub(" ", form).split()) or form for form in forms]


def _fold(text: str) -> str:
    if text.isascii():
        return " ".join(text.lower().split())
    # case folding can undo the normal form (Unicode 3.13, D146)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
