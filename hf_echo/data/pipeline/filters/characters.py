"""Lookup tables of character properties: letter, mark, white space, and the script of a letter.

The Unicode properties come from the `regex` library (a dependency of transformers). A table has one entry per code
point up to the last letter that Unicode assigns, so a whole column is looked up at once.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import regex

from ....language_table import SCRIPTS

LAST = 0x3400F  # the last ideographs are below; planes 4 to 16 have no letters
_ALL = "".join(map(chr, range(LAST + 1)))

# ISO 15924 codes of mixed writing -> Unicode scripts
MIXED = {"Hans": ("Hani",), "Hant": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Hang": ("Hang", "Hani")}
_UNICODE = sorted({script for code in SCRIPTS for script in MIXED.get(code, (code,))})


@cache
def characters(pattern: str) -> np.ndarray:
    """bool (LAST + 1,): the code points that match a character class of the `regex` library."""
    table = np.zeros(LAST + 1, bool)
    for run in regex.finditer(f"(?V1:{pattern})+", _ALL):
        table[run.start() : run.end()] = True
    table.flags.writeable = False
    return table


def is_kind(points: np.ndarray, pattern: str) -> np.ndarray:
    """(code points,) bool: whether each one matches the pattern."""
    return characters(pattern)[np.minimum(points, LAST)]


@cache
def scripts() -> np.ndarray:
    """uint8 (LAST + 1,): script number of each letter, 0 for other characters, 1 for scripts of no language here."""
    table = characters(r"\p{L}").astype(np.uint8)
    for number, script in enumerate(_UNICODE, 2):
        table[characters(rf"[\p{{L}}&&\p{{Script={script}}}]")] = number
    # Unicode files the long vowel mark of kana under Common
    table[0x30FC] = table[0xFF70] = script_number("Kana")
    return table


def script_of(points: np.ndarray) -> np.ndarray:
    """(code points,) uint8: the script number of each one."""
    return scripts()[np.minimum(points, LAST)]


def script_number(name: str) -> int:
    return _UNICODE.index(name) + 2


def script_numbers(code: str) -> list[int]:
    """Script numbers of a language code (``jpn_Jpan`` has several)."""
    iso = code.split("_")[1]
    return [script_number(name) for name in MIXED.get(iso, (iso,))]
