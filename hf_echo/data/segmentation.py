"""Sentence segmentation: by rules (sentencex, some 300 languages), or by a SaT model (wtpsplit; OS
A.1).

A segmenter is a callable (texts, lang) -> one list of pieces per text. The joined pieces equal the
text exactly; white space between two sentences belongs to the first.

The rules add what sentencex lacks on FLORES and NTREX: full stops of scripts that have their own
(Khmer, Ge'ez, danda, CJK ...), Tibetan shad before a space, two Ge'ez word spaces, and spaces in
Thai if the sentence is already long. A line break always ends a sentence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import regex

from ..languages import ISO_639_1, LANGUAGES, language
from ..utils.extras import extra
from ..utils.files import first_line
from ..utils.hub import snapshot, split_revision

# characters; the best of 40 to 150 on FLORES, and about the length of a Thai clause
THAI_LENGTH = 60
# sentence ends in Unicode's table that have other uses; the last is a comma
OTHER_USES = ".!?．！？၊"
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
XLM_R = "facebookAI/xlm-roberta-base"  # tokenizer of the released models, which do not include it
FINE_TUNED = 0.25  # wtpsplit's threshold of models fine-tuned on sentences, whose names hold "sm"
PRETRAINED = 0.025  # of the others


def rule_segmenter(texts: Sequence[str], lang: str) -> list[list[str]]:
    """Split each text into sentences; the joined pieces equal the text.
    An empty text has no pieces."""
    with extra("segment"):
        from sentencex import segment
    code = language(lang).code
    if LANGUAGES[code].script is None:
        raise ValueError(
            f"{lang} has no sentences; use source_code.py or latex.py of train_scripts/corpora"
        )
    return [_pieces(text, code, segment) for text in texts]


def _pieces(text: str, lang: str, segment: Callable[[str, str], list[str]]) -> list[str]:
    """The pieces of a text by line, library and script; joined they are the text."""
    pieces: list[str] = []
    for line in _LINES.split(text):
        if not line:
            continue
        if not line.strip():  # a blank line belongs to the sentence before it
            pieces[-1:] = [pieces[-1] + line] if pieces else [line]
            continue
        for part in _by_library(line, lang, segment):
            pieces += _by_script(part, lang)
    return _without_blank(pieces)


def _by_library(line: str, lang: str, segment: Callable[[str, str], list[str]]) -> list[str]:
    """Split by sentencex, which doubles carriage returns and takes the Burmese comma for a full
    stop."""
    if lang.split("_")[1] == "Mymr":
        return [line]
    # What the library loses at the end of the line is put back.
    parts = segment(_library_code(lang), line.rstrip("\r\n"))
    end = len("".join(parts))
    return [*parts, line[end:]] if line.startswith("".join(parts)) else [line]


def _by_script(text: str, lang: str) -> list[str]:
    """Cut a text behind the ends of sentences of its script; Thai, which has none, at spaces."""
    script = lang.split("_")[1]
    if script == "Thai":
        return _at_spaces(text, THAI_LENGTH)
    pieces = _FULL_STOP.split(text)
    if script in _OF_SCRIPT:
        pieces = [part for piece in pieces for part in _OF_SCRIPT[script].split(piece)]
    return [piece for piece in pieces if piece]


def _at_spaces(text: str, length: int) -> list[str]:
    """Cut a text at spaces into pieces of at least `length` characters."""
    pieces = []
    start = 0
    for space in _SPACES.finditer(text):
        if space.end() - start >= length:
            pieces.append(text[start : space.end()])
            start = space.end()
    return [*pieces, text[start:]]


def _without_blank(pieces: list[str]) -> list[str]:
    """Pieces, blank ones joined with the one before."""
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


def sat_segmenter(
    model: str | Path, *, threshold: float | None = None
) -> Callable[[Sequence[str], str], list[list[str]]]:
    """Load a SaT model as a segmenter; the segmenter ignores the language.

    Args:
        model: a name on the Hub (of segment-any-text), org/name@v1.0.0, or a folder, with its own
            tokenizer or XLM-R's.
        threshold: a character with a higher probability ends a sentence; None: 0.25 for a folder,
            wtpsplit's default for a name.
    """
    with extra("segment"):
        from wtpsplit import SaT
    repo, version = split_revision(model)
    place = snapshot(model) if isinstance(model, str) else model
    folder = Path(place)
    if not folder.is_dir() and (isinstance(model, Path) or str(model).startswith((".", "/", "~"))):
        raise FileNotFoundError(
            f"no folder {model}; give a SaT model's folder, or a name such as sat-12l-sm"
        )
    # Released models lack the tokenizer of XLM-R.
    has_tokenizer = any(
        (folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")
    )
    try:
        sat = SaT(str(place), tokenizer_name_or_path=str(place) if has_tokenizer else XLM_R)
    except OSError as error:
        reason = first_line(error)
        raise FileNotFoundError(
            f"{str(model)!r} is not a SaT model in a folder or on the Hub: {reason}"
        ) from error
    if threshold is None and folder.is_dir():  # wtpsplit would search the whole path for "sm"
        threshold = PRETRAINED if version and "sm" not in repo else FINE_TUNED
    # A long text is read in overlapping blocks that fit the model's positions.
    room = min(512, sat.config.max_position_embeddings - 4)
    options = dict(threshold=threshold, block_size=room, stride=max(1, min(64, room // 2)))

    def segment(texts: Sequence[str], lang: str = "") -> list[list[str]]:
        """The sentences of each text; joined they are the text."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="split_on_input_newlines")
            pieces_of_texts = list(sat.split(list(texts), split_on_input_newlines=False, **options))
        sentences_of_texts = []
        for text, pieces in zip(texts, pieces_of_texts, strict=True):
            sentences = [piece for piece in pieces if piece]
            if "".join(sentences) != text:
                raise ValueError(f"the segmenter changed the text {text[:60]!r}")
            sentences_of_texts.append(sentences)
        return sentences_of_texts

    return segment


def trimmed(pieces: Sequence[str]) -> list[str]:
    """The pieces as sentences: stripped, with single white space, without empty ones."""
    sentences = [" ".join(piece.split()) for piece in pieces]
    return [sentence for sentence in sentences if sentence]
