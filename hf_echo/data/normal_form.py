"""Normal form of texts for comparison: texts that look alike are equal.

NFKC, case folding, single white space; no invisible code points; one kind of apostrophe, of
quotation mark and of hyphen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex

INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]+")
ALIKE = str.maketrans(
    dict.fromkeys("‘’‚‛ʼʻ′´`＇", "'") | dict.fromkeys("“”„‟″＂", '"') | dict.fromkeys("‐‑−－", "-")
)


def normal_forms(texts: Sequence[str]) -> list[str]:
    return [_fold(text) for text in texts]


def _fold(text: str) -> str:
    """A text in lower case, with one sort of quotes and dashes, single spaces and nothing
    invisible."""
    if text.isascii():
        return " ".join(text.lower().replace("`", "'").split())
    # alike signs also before: NFKC divides an acute accent into space and mark; case folding can
    # undo the normal form (Unicode 3.13, D146)
    text = INVISIBLE.sub("", text.translate(ALIKE))
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).translate(ALIKE).split())
