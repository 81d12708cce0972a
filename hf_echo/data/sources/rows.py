"""What the readers of sources share: one line of text, codes of languages, and a fair draw by a
hash.

A reader takes the `Files` of the origins of its source and yields rows: whether the row belongs to
the test split, then the values of the columns of its table. A table is n-way (a sentence's id, its
language, its text) or of pairs.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from functools import cache

from ...languages import LANGUAGES, find_language, lookup

PAIR_COLUMNS = ("src_lang", "src", "tgt_lang", "tgt")
Row = tuple
Rows = Iterator[Row]
SCRIPTS = lookup("""
    ARABIC=Arab ARMENIAN=Armn BENGALI=Beng CANADIAN=Cans CHEROKEE=Cher COPTIC=Copt CYRILLIC=Cyrl DEVANAGARI=Deva
    ETHIOPIC=Ethi GEORGIAN=Geor GREEK=Grek GUJARATI=Gujr HANGUL=Hang HEBREW=Hebr KANNADA=Knda LATIN=Latn
    MALAYALAM=Mlym MYANMAR=Mymr SYRIAC=Syrc TAMIL=Taml TELUGU=Telu THAI=Thai TIFINAGH=Tfng
""")


def one_line(text: str) -> str:
    """The text in NFC, in one line, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text.replace("\ufeff", "")).split())


@cache
def code_of(name: str, script: str | None = None) -> str | None:
    """The NLLB code of a language by the name that a corpus gives it; None if `hf_echo.languages`
    does not know it.

    A language that it knows in another script gets the code of this one.
    """
    try:
        code = find_language(name)
    except ValueError:
        return None if script is None else f"{name[:3]}_{script}"
    if script is not None and code.split("_")[1] != script:
        return f"{code[:3]}_{script}"
    return code


def main_script(text: str) -> str:
    """The ISO 15924 code of the script that most letters have; Latn for others."""
    counts: dict[str, int] = {}
    for character in text:
        if character.isalpha():
            script = unicodedata.name(character, "LATIN").split()[0]
            counts[script] = counts.get(script, 0) + 1
    most = max(counts, key=counts.__getitem__, default="LATIN")
    return SCRIPTS.get(most, "Latn")


def is_of_flores(code: str) -> bool:
    """Whether a language is one of the 204 of FLORES-200."""
    return code in LANGUAGES and LANGUAGES[code].family is not None


def draw_of(text: str) -> int:
    """A number from 0 to 2**32 - 1 that the text alone decides: the same draw on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
