"""Texts as people have them: capitals, lower case, and the white space and invisible characters of
web pages and PDF.

The kinds measure a model (`evaluate noise`) and change rows of a training mix (`noise` of
`collect_data`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

LONG_WORD = 8  # letters of a word that a page may break
DOTTED = ("tur", "azj", "aze", "crh", "kaz_Latn", "tat_Latn")  # i becomes İ, and I ı


def upper(text: str, lang: str | None = None) -> str:
    """Capitals; Turkish and others have a capital İ for i."""
    if (lang or "").startswith(DOTTED):
        text = text.replace("i", "İ")
    return text.upper()


def lower(text: str, lang: str | None = None) -> str:
    """Lower case; Turkish and others have ı for I."""
    if (lang or "").startswith(DOTTED):
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def first_word(text: str, lang: str | None = None) -> str:
    """The first word in capitals, as newspapers begin an article."""
    first, space, rest = text.partition(" ")
    return upper(first, lang) + space + rest


def _soft_hyphens(text: str, random: Random) -> str:
    """One inside each long word, as in the source of a web page."""
    words = text.split(" ")
    for i, word in enumerate(words):
        if len(word) >= LONG_WORD:
            at = random.randrange(2, len(word) - 2)
            words[i] = word[:at] + "\u00ad" + word[at:]
    return " ".join(words)


def _zero_width_space(text: str, random: Random) -> str:
    """One in front of a word."""
    words = text.split(" ")
    at = random.randrange(len(words))
    words[at] = "\u200b" + words[at]
    return " ".join(words)


CASES: dict[str, Callable[[str, str | None], str]] = {
    "capitals": upper,
    "first word in capitals": first_word,
    "lower case": lower,
}
OTHERS: dict[str, Callable[[str, Random], str]] = {
    "no-break spaces": lambda text, _: text.replace(" ", "\u00a0"),
    "tabs": lambda text, _: text.replace(" ", "\t"),
    "double spaces": lambda text, _: text.replace(" ", "  "),
    "soft hyphens": _soft_hyphens,
    "byte order mark": lambda text, _: "\ufeff" + text,
    "zero-width space": _zero_width_space,
}
KINDS = (*CASES, *OTHERS)


def noisy(text: str, kind: str | None = None, seed: int = 0, lang: str | None = None) -> str:
    """The text with one kind of noise, of the seed's places.

    `kind` None draws one, three times in four of CASES, which a tokenizer cannot take back, and of
    them most often capitals, whose pieces differ most. `lang` is the code of the language, for its
    capitals.
    """
    random = Random(f"{seed}\n{kind}\n{text}")
    if kind is None:
        if random.random() < 0.75:
            kind = random.choices(list(CASES), (4, 1, 1))[0]
        else:
            kind = random.choice(list(OTHERS))
    return CASES[kind](text, lang) if kind in CASES else OTHERS[kind](text, random)
