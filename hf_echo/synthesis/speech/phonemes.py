"""Phonemes of a sentence in IPA, as espeak-ng reads it: what CTC can learn instead of characters."""

from __future__ import annotations

import re

from .engines import ENGINES, run_engine

SWITCH = re.compile(r"\([a-z-]+\)")  # espeak-ng marks words that it reads in another language: (en)həlˈəʊ(ru)
UNMARKED = str.maketrans("", "", "ˈˌː")


def phonemes(text: str, lang: str, engine: str, voice: str) -> str:
    """IPA without stress and length, one space between words; empty where espeak-ng does not speak the language.

    Args:
        engine, voice: who speaks the text. A voice of espeak-ng has its own accent; other engines get the plainest
            voice that espeak-ng has for the language.
    """
    if engine != "espeak-ng":
        names = ENGINES["espeak-ng"].list_voices().get(lang, [])
        voice = min(names, key=lambda name: (len(name), name), default="")
    if not voice:
        return ""
    spoken = run_engine(["espeak-ng", "-q", "--ipa", "-v", voice, "--stdin"], text.encode()).decode()
    return " ".join(SWITCH.sub("", spoken).translate(UNMARKED).split())
