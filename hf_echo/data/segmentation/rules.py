"""Sentences without a model: sentencex's rules (some 300 languages), and what it lacks for other scripts.

Nothing is downloaded. A line break always ends a sentence. What this module adds was found on FLORES and NTREX
(docs/trials/data-engine.md): every full stop of a script that has its own (Khmer, Ge'ez, danda, CJK ...), Tibetan
shad before a space, the two word spaces that stand for a Ge'ez full stop, and, for want of any mark, Thai spaces where
the sentence is already long. Latin, Greek and Cyrillic are sentencex's alone: their full stop has other uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import regex

from ...language_table import ISO_639_1
from ...languages import LANGUAGES, language

THAI_LENGTH = 60  # characters; of 40 to 150 the best on FLORES, and about the length of a Thai clause
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
    """Pieces of each text; joined they are the text. An empty text has none.

    Raises:
        ImportError: without hf-echo[segment]. ValueError: an unknown language, or code or mathematics.
    """
    try:
        from sentencex import segment
    except ImportError as error:
        raise ImportError("sentences by rule need sentencex: pip install 'hf-echo[segment]'") from error
    code = language(lang).code
    if LANGUAGES[code].script is None:
        raise ValueError(f"{lang} has no sentences: `hf-echo data code` and `hf-echo data math` cut it")
    return [_pieces(text, code, segment) for text in texts]


def _pieces(text: str, lang: str, segment) -> list[str]:
    pieces = []
    for line in _LINES.split(text):
        if not line:
            continue
        if not line.strip():  # belongs to the sentence before it
            pieces[-1:] = [pieces[-1] + line] if pieces else [line]
            continue
        for part in _by_library(line, lang, segment):
            pieces += _by_script(part, lang)
    return _without_blank(pieces)


def _by_library(line: str, lang: str, segment) -> list[str]:
    """sentencex doubles a carriage return, and takes the Burmese comma for a full stop, whatever the language."""
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
    """sentencex knows ISO 639-1 codes."""
    return next((short for short, code in ISO_639_1.items() if code == lang), lang.split("_")[0])
