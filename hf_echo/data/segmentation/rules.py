"""Sentence segmentation by rules: sentencex (some 300 languages), with additions for scripts that it lacks.

Nothing is downloaded. A line break always ends a sentence. The additions were found on FLORES and NTREX
(docs/trials/data-engine.md): full stops of scripts that have their own (Khmer, Ge'ez, danda, CJK ...), Tibetan shad
before a space, two Ge'ez word spaces in place of a full stop, and spaces in Thai, which has no sentence marks, if the
sentence is already long. Latin, Greek and Cyrillic are left to sentencex, because their full stop has other uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import regex

from ...language_table import ISO_639_1
from ...languages import LANGUAGES, language

THAI_LENGTH = 60  # characters; the best of 40 to 150 on FLORES, and about the length of a Thai clause
OTHER_USES = ".!?．！？၊"  # sentence ends in Unicode's table that have other uses; the last is a comma
CLOSING = r"\p{STerm}\p{Pe}\p{Pf}\"'”’"

_LINES = regex.compile(r"(?<=\n|\r(?!\n)|\x85|\u2028|\u2029)")
_FULL_STOP = regex.compile(
    rf"(?V1)(?<=[\p{{STerm}}--[{OTHER_USES}]][{CLOSING}]*)(?![{CLOSING}\p{{Zs}}]|\s*$)|"
    rf"(?V1)(?<=[\p{{STerm}}--[{OTHER_USES}]][{CLOSING}]*\p{{Zs}}+)(?!\p{{Zs}}|\s*$)"
)
_OF_SCRIPT = {
    "Tibt": regex.compile(r"(?<=[།༎]\s+)(?=\S)"),
    "Ethi": regex.compile(r"(?<=(?:፡፡|::)\s*)(?=[^\s፡:])"),
}
_SPACES = regex.compile(r"\s+(?=\S)")


def rule_segmenter(texts: Sequence[str], lang: str) -> list[list[str]]:
    """Split each text into sentences; the joined pieces equal the text. An empty text has no pieces.

    Raises:
        ImportError: hf-echo[segment] is not installed.
        ValueError: an unknown language, code or mathematics.
    """
    try:
        from sentencex import segment
    except ImportError as error:
        raise ImportError("sentences by rule need sentencex: pip install 'hf-echo[segment]'") from error
    code = language(lang).code
    if LANGUAGES[code].script is None:
        raise ValueError(f"{lang} has no sentences; use `hf-echo data code` or `hf-echo data math`")
    return [_pieces(text, code, segment) for text in texts]


def _pieces(text: str, lang: str, segment) -> list[str]:
    pieces = []
    for line in _LINES.split(text):
        if not line:
            continue
        if not line.strip():  # a blank line belongs to the sentence before it
            pieces[-1:] = [pieces[-1] + line] if pieces else [line]
            continue
        for part in _by_library(line, lang, segment):
            pieces += _by_script(part, lang)
    return _without_blank(pieces)


def _by_library(line: str, lang: str, segment) -> list[str]:
    """Split by sentencex, which doubles carriage returns and takes the Burmese comma for a full stop."""
    if lang.split("_")[1] == "Mymr":
        return [line]
    parts = segment(_library_code(lang), line.rstrip("\r\n"))
    end = len("".join(parts))
    return [*parts, line[end:]] if line.startswith("".join(parts)) else [line]


def _by_script(text: str, lang: str) -> list[str]:
    script = lang.split("_")[1]
    if script == "Thai":
        return _at_spaces(text, THAI_LENGTH)
    pieces = _FULL_STOP.split(text)
    if script in _OF_SCRIPT:
        pieces = [part for piece in pieces for part in _OF_SCRIPT[script].split(piece)]
    return [piece for piece in pieces if piece]


def _at_spaces(text: str, length: int) -> list[str]:
    pieces, start = [], 0
    for space in _SPACES.finditer(text):
        if space.end() - start >= length:
            pieces.append(text[start : space.end()])
            start = space.end()
    return [*pieces, text[start:]]


def _without_blank(pieces: list[str]) -> list[str]:
    kept: list[str] = []
    for piece in pieces:
        if kept and not (piece.strip() and kept[-1].strip()):
            kept[-1] += piece
        elif piece:
            kept.append(piece)
    return kept


@cache
def _library_code(lang: str) -> str:
    """The ISO 639-1 code, which sentencex expects."""
    return next((short for short, code in ISO_639_1.items() if code == lang), lang.split("_")[0])
