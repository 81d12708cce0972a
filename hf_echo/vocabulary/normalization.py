"""Text as people have it, before it is cut into tokens: white space, invisible characters, letter
forms, capitals.

Text copied from the web, PDF files and subtitles has no-break spaces, soft hyphens, direction marks
and letters such as "ﬁ", which a vocabulary of clean text cuts into bytes. It cuts words in capitals
into letters, so eight and more capitals without another letter between them are read in lower case:
echo-nano's errors fall from 6.6 to 1.0 %. So are the words behind the first one of a sentence whose
words all begin with a capital (Title Case). A tatweel between Arabic letters, which only stretches
a word, goes.
Punctuation stays as it is: NFKC, which also replaces that of Chinese, costs zho_Hans 0.5 points of
xsim. HTML entities (`html.unescape` reads them), NUL and U+FFFD stay too: in French news they cost
0.3 to 0.6 points.
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
# Control characters, soft hyphen, zero width, direction, fillers, variation selectors, tags. The
# joiners of Persian, Indic scripts and emoji (U+200C, U+200D) and the selectors of Mongolian
# (U+180B to U+180F) are part of spelling. fmt: skip
INVISIBLE = (
    (0x01, 0x08),
    (0x0E, 0x1B),
    (0x7F, 0x84),
    (0x86, 0x9F),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE0FFF),
)
# Compatibility characters that are the usual spelling: the micro sign, the n of Afrikaans, Armenian
# ew, the vowels am of Thai and Lao, the ho of Lao, Hangul letters.
USUAL = {0xB5, 0x149, 0x587, 0xE33, 0xEB3, 0xEDC, 0xEDD}
HANGUL = ((0x3131, 0x318E), (0xFFA0, 0xFFDC))
# field numbers of sentencepiece_model.proto
NORMALIZER_SPEC = 3
CHARSMAP = 2
# Headlines have such runs of capitals; acronyms are shorter and stay. `tokenizers` cannot lower a
# part of a text, so WORD_OF_RUN puts END behind each word of a run, CAPITAL puts MARK behind each
# capital before an END, and the table replaces a capital and its MARK by the small letter. Unicode
# assigns no character to END, and texts do not use MARK. JavaScript reads the same patterns but no
# table: there the capitals stay, and the marks are removed.
END = "\ufdd0"
MARK = "\u034e"
WORD_OF_RUN = r"(?<=\p{Lu})(?![\p{L}\p{M}])(?<=(?:\p{Lu}[\P{L}ªº]{0,9}){8})"
CAPITAL = rf"(?<=\p{{Lu}})(?!\p{{M}})(?=[^\p{{Ll}}{END}]{{0,99}}{END})"
# Title Case: at least four words between a boundary and another one (punctuation, or an end of the
# text), all of which begin with a capital. Names in a sentence have a word in small letters beside
# them, and stay, as do three words alone. TITLE_CAPITAL stands behind the capital of each word of
# such a run but the first.
IN_TITLE = ",'’\\-–—&/0-9 "
GAP = f"[{IN_TITLE}]{{1,6}}"
TITLE_WORD = r"\p{Lu}[\p{L}\p{M}]{0,25}"
SHORTEST_TITLE = 4
LONGEST_TITLE = 40  # words: patterns that look back need a bound
ARABIC = (
    "\u0620-\u063f\u0641-\u065f\u066e-\u06d3\u06d5-\u06dc\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
)
TATWEEL = f"(?<=[{ARABIC}])\u0640+(?=[{ARABIC}])"
CHEROKEE = set(map(chr, range(0x13A0, 0x13F6)))  # its usual letters are the capitals
FORMS = (
    "<compat>",
    "<font>",
    "<wide>",
    "<narrow>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)


def clean_text() -> normalizers.Sequence:
    """White space becomes one space (the indentation of a line stays), invisible characters go,
    letters that Unicode calls compatibility characters (ligatures, full width, Arabic presentation
    forms) become the usual ones, a tatweel goes, and runs of capitals and Title Case become lower
    case."""
    white = rf"(?<=\S)(?:[{SPACES}]*(?:[{LINES}]+(?![{SPACES}]{{2}}|\t)[{SPACES}]?)+|[{SPACES}]+)"
    return normalizers.Sequence(
        [
            normalizers.Replace(Regex(title_capital()), MARK),
            normalizers.Replace(Regex(WORD_OF_RUN), END),
            normalizers.Replace(Regex(CAPITAL), MARK),
            normalizers.Precompiled(charsmap()),
            normalizers.Replace(Regex(f"[{END}{MARK}]"), ""),
            normalizers.Replace(Regex(TATWEEL), ""),
            normalizers.Replace(Regex(white), " "),
        ]
    )


def title_capital() -> str:
    """The pattern of the places behind the capitals of Title Case that become small letters.

    With one word before, the shortest title has two behind it; with two before, one; with three,
    none.
    """
    no_letter = r"(?![\p{L}\p{M}])"
    small_letters = r"(?:[\p{Ll}\p{M}]{1,25}|(?<=\p{L}['’]\p{Lu}))"  # or none: the T of "Don'T"
    alternatives = []
    for before in range(1, SHORTEST_TITLE):
        most = before if before < SHORTEST_TITLE - 1 else LONGEST_TITLE
        behind = SHORTEST_TITLE - 1 - before
        rest = rf"{small_letters}{no_letter}(?:{GAP}{TITLE_WORD}){{{behind},{LONGEST_TITLE}}}{no_letter}"
        boundary = rf"(?:^|[^{IN_TITLE}\p{{L}}\p{{M}}])[{IN_TITLE}]{{0,6}}"
        front = rf"{boundary}(?:{TITLE_WORD}{GAP}){{{before},{most}}}\p{{Lu}}"
        alternatives.append(rf"(?={rest}(?!{GAP}[\p{{L}}\p{{M}}]))(?<={front})")
    return rf"(?<=\p{{Lu}})(?:{'|'.join(alternatives)})"


def put_in_front(backend: Tokenizer, *, sentencepiece: bool = False) -> None:
    """Let a tokenizer apply `clean_text` before its own normalizer; once, however often this is
    called.

    With `sentencepiece` it composes letters (NFC) and strips the ends, too, as SentencePiece does
    outside of its table.
    """
    layers = []
    if backend.normalizer is not None:
        layers = _layers(backend.normalizer)
    cleaning = _layers(clean_text())
    count = len(cleaning)
    if cleaning in (layers[:count], layers[1 : count + 1]):  # a layer of NFC may stand before it
        return
    if sentencepiece:
        nfc = {"type": "NFC"}
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        # before the table, for capitals; after it, for what it replaced
        layers = [nfc, *cleaning, nfc, *layers, strip]
    else:
        layers = cleaning + layers
    normalizer = normalizers.Sequence([])
    normalizer.__setstate__(json.dumps({"type": "Sequence", "normalizers": layers}).encode())
    backend.normalizer = normalizer


def _layers(normalizer: normalizers.Normalizer) -> list[dict]:
    """The normalizers of a sequence as dicts; of another normalizer, it alone."""
    content = json.loads(normalizer.__getstate__())
    return content["normalizers"] if content["type"] == "Sequence" else [content]


def rules() -> dict[int, str]:
    """Code point -> its replacement: "" for what nobody sees, the usual letter for another form of
    it, such as a ligature or a letter of full width."""
    replacements = {}
    for first, last in INVISIBLE:
        for point in range(first, last + 1):
            replacements[point] = ""
    # The other forms of letters, by Unicode's decompositions up to plane 1.
    for point in range(0x80, 0x20000):
        is_hangul = any(first <= point <= last for first, last in HANGUL)
        if point in replacements or point in USUAL or is_hangul:
            continue
        character = chr(point)
        # Letters alone: a circled digit or a fraction is more than another form of its digits.
        form, _, _ = unicodedata.decomposition(character).partition(" ")
        if form in FORMS and unicodedata.category(character).startswith("L"):
            replacements[point] = unicodedata.normalize("NFKC", character)
    return replacements


@functools.cache
def charsmap() -> bytes:
    """`rules` as SentencePiece compiles them, which is the one form of a table that `tokenizers`
    reads."""
    import sentencepiece

    replacements = {chr(point): new for point, new in rules().items()}
    for point in range(0x41, 0x20000):
        capital = chr(point)
        if (
            unicodedata.category(capital) == "Lu"
            and capital not in CHEROKEE
            and capital not in replacements
        ):
            replacements[capital + MARK] = capital.lower()[0]  # [0]: without the dot of "İ"
    rows = [f"{_code_points(old)}\t{_code_points(new)}\n" for old, new in replacements.items()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.tsv"
        file.write_text("".join(rows), encoding="utf-8")
        # A model of nothing: its training compiles the table.
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


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
