"""FreeDict in the format of dictd: an index of headwords, and their entries in one packed file.

A line of the index is ``headword<TAB>start<TAB>length``, numbers in base 64. An entry starts with
the headword and its pronunciation; the lines below it hold translations, separated by commas or
semicolons, and notes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence

from ...languages import ENGLISH, lookup
from .origins import Files, text_lines
from .rows import PAIR_COLUMNS, Rows, code_of, one_line

COLUMNS = (*PAIR_COLUMNS, "source")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
WORDS = 4  # longest side
MOST = 30_000  # rows of a package
CODES = lookup("kur=kmr_Latn nor=nob_Latn rom=rom_Latn ara=arb_Arab srp=srp_Cyrl")
NOTES = re.compile(r"/[^/]*/|<[^<>]*>|\[[^\]]*\]|\([^()]*\)|\{[^{}]*\}")
NUMBER = re.compile(r"^\s*\d+\.\s*")
# Lines of an entry that are no translations.
OTHER_LINE = re.compile(r"^\s*(Note|Synonym|Antonym|See also|Example|Usage|\"|-|→)|[:;]$")
PART_OF_SPEECH = re.compile(
    r"^(adj|adv|conj|int|n|num|prep|pron|v|verb|noun|pl|f|m|nt|fem|masc|neut)\.?$"
)


def read_freedict(files: Sequence[Files]) -> Rows:
    """Pairs of words and short phrases, at most four words a side, with the package;
    English first."""
    for package in files:
        # dict-freedict-deu-eng: of the two languages one is English.
        first, second = package.origin.removeprefix("dict-freedict-").split("-")
        foreign = first if second == "eng" else second
        code = CODES.get(foreign) or code_of(foreign) or f"{foreign}_Latn"
        seen: set[tuple[str, str]] = set()
        for headword, translation in _entries(package):
            pair = (translation, headword) if second == "eng" else (headword, translation)
            if pair not in seen and pair[0] != pair[1] and len(seen) < MOST:
                seen.add(pair)
                yield False, ENGLISH, pair[0], code, pair[1], package.origin


def number_of(word: str) -> int:
    """A number of dictd's index: digits in base 64, the highest first."""
    value = 0
    for digit in word:
        value = value * 64 + DIGITS.index(digit)
    return value


def _entries(package: Files) -> Iterator[tuple[str, str]]:
    """Pairs of a headword and a translation, from the entries of a dictionary."""
    for index in package.matching("*.index"):
        # Places of entries; several headwords may share an entry, and some lines describe the file.
        data = gzip.decompress(package.read(index.removesuffix(".index") + ".dict.dz"))
        places: set[tuple[int, int]] = set()
        for line in text_lines(package.read(index)):
            parts = line.split("\t")
            if (
                len(parts) == 3
                and not parts[0].startswith("00")
                and "database" not in parts[0][:12]
            ):
                places.add((number_of(parts[1]), number_of(parts[2])))
        for start, length in sorted(places):
            yield from entry_pairs(data[start : start + length].decode(errors="replace"))


def entry_pairs(entry: str) -> Iterator[tuple[str, str]]:
    """(headword, translation) of an entry."""
    head, *lines = entry.split("\n")
    headword = one_line(NOTES.sub("", head))
    if not headword or len(headword.split()) > WORDS:
        return
    for line in lines:
        if OTHER_LINE.search(line):
            continue
        for part in re.split("[,;]", NUMBER.sub("", NOTES.sub("", line))):
            translation = one_line(part)
            is_word = any(character.isalpha() for character in translation)
            if (
                is_word
                and len(translation.split()) <= WORDS
                and not PART_OF_SPEECH.match(translation)
            ):
                yield headword, translation
