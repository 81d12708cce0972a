"""Text as people have it, before it is cut into tokens: white space, invisible characters, letter forms, capitals.

Text copied from the web, PDF files and subtitles has no-break spaces, soft hyphens, direction marks and letters such as
"ﬁ", which a vocabulary of clean text cuts into bytes. It cuts words in capitals into letters, so eight and more
capitals without another letter between them are read in lower case: echo-nano's errors fall from 6.6 to 1.0 %.
Punctuation stays as it is: NFKC, which also replaces that of Chinese, costs zho_Hans 0.5 points of xsim. HTML entities
(`html.unescape` reads them), NUL and U+FFFD stay too: in French news they cost 0.3 to 0.6 points.
"""

from __future__ import annotations

import functools
import io
import json
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers

from ..utils.protobuf import fields_of

SPACES = "\t\x0b\x0c\x1c\x1d\x1e\x1f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000 "
LINES = "\n\r\x85\u2028\u2029"
# Control characters, soft hyphen, zero width, direction, fillers, variation selectors, tags. The joiners of Persian,
# Indic scripts and emoji (U+200C, U+200D) and the selectors of Mongolian (U+180B to U+180F) are part of spelling.
INVISIBLE = (
    (0x01, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0xE0000, 0xE0FFF),
)  # fmt: skip
# Compatibility characters that are the usual spelling: the micro sign, the n of Afrikaans, Armenian ew, the vowels am
# of Thai and Lao, the ho of Lao, Hangul letters.
USUAL = {0xB5, 0x149, 0x587, 0xE33, 0xEB3, 0xEDC, 0xEDD}
HANGUL = ((0x3131, 0x318E), (0xFFA0, 0xFFDC))
NORMALIZER_SPEC, CHARSMAP = 3, 2  # field numbers of sentencepiece_model.proto
# Headlines have such runs of capitals; acronyms are shorter and stay. `tokenizers` cannot lower a part of a text, so
# WORD_OF_RUN puts END behind each word of a run, CAPITAL puts MARK behind each capital before an END, and the table
# replaces a capital and its MARK by the small letter. Unicode assigns no character to END, and texts do not use MARK.
# JavaScript reads the same patterns but no table: there the capitals stay, and the marks are removed.
END, MARK = "\ufdd0", "\u034e"
WORD_OF_RUN = r"(?<=\p{Lu})(?![\p{L}\p{M}])(?<=(?:\p{Lu}[\P{L}ªº]{0,9}){8})"
CAPITAL = rf"(?<=\p{{Lu}})(?!\p{{M}})(?=[^\p{{Ll}}{END}]{{0,99}}{END})"
CHEROKEE = set(map(chr, range(0x13A0, 0x13F6)))  # its usual letters are the capitals
FORMS = ("<compat>", "<font>", "<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>")


def clean_text() -> normalizers.Sequence:
    """White space becomes one space (the indentation of a line stays), invisible characters go, letters that Unicode
    calls compatibility characters (ligatures, full width, Arabic presentation forms) become the usual ones, and runs
    of capitals become lower case."""
    white = rf"(?<=\S)(?:[{SPACES}]*(?:[{LINES}]+(?![{SPACES}]{{2}}|\t)[{SPACES}]?)+|[{SPACES}]+)"
    marks = {WORD_OF_RUN: END, CAPITAL: MARK}
    before = [normalizers.Replace(Regex(pattern), mark) for pattern, mark in marks.items()]
    after = [normalizers.Replace(Regex(f"[{END}{MARK}]"), ""), normalizers.Replace(Regex(white), " ")]
    return normalizers.Sequence([*before, normalizers.Precompiled(charsmap()), *after])


def put_in_front(backend: Tokenizer, *, sentencepiece: bool = False) -> None:
    """Let a tokenizer apply `clean_text` before its own normalizer; once, however often this is called.

    With `sentencepiece` it composes letters (NFC) and strips the ends, too, as SentencePiece does outside of its table.
    """
    own = _layers(backend.normalizer) if backend.normalizer is not None else []
    cleaning = _layers(clean_text())
    if not any(own[at : at + len(cleaning)] == cleaning for at in (0, 1)):
        if sentencepiece:
            cleaning = [nfc := {"type": "NFC"}, *cleaning]  # before, for capitals; after, for what the table replaced
            own = [nfc, *own, {"type": "Strip", "strip_left": True, "strip_right": True}]
        both = normalizers.Sequence([])
        both.__setstate__(json.dumps({"type": "Sequence", "normalizers": cleaning + own}).encode())
        backend.normalizer = both


def _layers(normalizer: normalizers.Normalizer) -> list[dict]:
    content = json.loads(normalizer.__getstate__())
    return content["normalizers"] if content["type"] == "Sequence" else [content]


def rules() -> dict[int, str]:
    """Code point -> its replacement."""
    found = {point: "" for first, last in INVISIBLE for point in range(first, last + 1)}
    for point in range(0x80, 0x20000):
        if point in found or point in USUAL or any(first <= point <= last for first, last in HANGUL):
            continue
        form, category = unicodedata.decomposition(chr(point)).partition(" ")[0], unicodedata.category(chr(point))
        if category[0] == "L" and form in FORMS:
            found[point] = unicodedata.normalize("NFKC", chr(point))
    return found


@functools.cache
def charsmap() -> bytes:
    """`rules` as SentencePiece compiles them, which is the one form of a table that `tokenizers` reads."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.tsv"
        found = {chr(point): to for point, to in rules().items()}
        capitals = (
            {c for c in map(chr, range(0x41, 0x20000)) if unicodedata.category(c) == "Lu"} - CHEROKEE - set(found)
        )
        found |= {capital + MARK: capital.lower()[0] for capital in sorted(capitals)}  # [0]: without the dot of "İ"
        rows = ["\t".join(" ".join(f"{ord(c):X}" for c in text) for text in pair) for pair in found.items()]
        file.write_text("\n".join(rows) + "\n", encoding="utf-8")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"] * 10),
            model_writer=model,
            model_type="char",
            vocab_size=6,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(file),
            minloglevel=2,
        )
    spec = dict(fields_of(model.getvalue(), {NORMALIZER_SPEC}))[NORMALIZER_SPEC]
    return dict(fields_of(spec, {CHARSMAP}))[CHARSMAP]
