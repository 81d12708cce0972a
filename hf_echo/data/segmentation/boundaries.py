"""Join sentences to texts with known sentence boundaries, and clean segmented pieces."""

from __future__ import annotations

from collections.abc import Sequence

UNSPACED = ("Hans", "Hant", "Jpan")  # scripts without spaces between sentences


def separator(lang: str) -> str:
    """The separator between two sentences of a language: nothing in Chinese and Japanese, otherwise a space."""
    return "" if lang.split("_")[1:2] and lang.split("_")[1] in UNSPACED else " "


def join_sentences(sentences: Sequence[str], lang: str) -> tuple[str, list[int]]:
    """Join sentences: (text, ends), where ends are the offsets after each sentence's last character.

    Raises:
        ValueError: an empty sentence; the message gives its position.
    """
    between, text, ends = separator(lang), "", []
    for number, sentence in enumerate(sentences, 1):
        if not (sentence := sentence.strip()):
            raise ValueError(f"sentence {number} of {len(sentences)} ({lang}) is empty; remove it")
        text += (between if text else "") + sentence
        ends.append(len(text))
    return text, ends


def trimmed(pieces: Sequence[str]) -> list[str]:
    """The pieces as sentences: stripped, with single white space, without empty ones."""
    return [sentence for piece in pieces if (sentence := " ".join(piece.split()))]
