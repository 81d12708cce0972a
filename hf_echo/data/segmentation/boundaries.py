"""Where sentences end in a text, and how sentences are put together to one; nothing here decides what a sentence is."""

from __future__ import annotations

from collections.abc import Sequence

UNSPACED = ("Hans", "Hant", "Jpan")  # scripts whose full stop carries its own space


def separator(lang: str) -> str:
    """What stands between two sentences of a language: nothing in Chinese and Japanese, else a space."""
    return "" if lang.split("_")[1:2] and lang.split("_")[1] in UNSPACED else " "


def join_sentences(sentences: Sequence[str], lang: str) -> tuple[str, list[int]]:
    """(text, ends): the sentences with the language's separator, and the offset behind each one's last character.

    Raises:
        ValueError: a sentence without text, named by its place.
    """
    between, text, ends = separator(lang), "", []
    for number, sentence in enumerate(sentences, 1):
        if not (sentence := sentence.strip()):
            raise ValueError(f"sentence {number} of {len(sentences)} ({lang}) is empty: leave it out")
        text += (between if text else "") + sentence
        ends.append(len(text))
    return text, ends


def trimmed(pieces: Sequence[str]) -> list[str]:
    """The pieces as sentences: white space at their ends gone, white space inside made single, empty ones left out."""
    return [sentence for piece in pieces if (sentence := " ".join(piece.split()))]
