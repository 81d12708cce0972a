"""Phonemes of a sentence in IPA, as espeak-ng reads it: what CTC can learn instead of characters."""

from __future__ import annotations

import re
import subprocess

from .engines import ENGINES, TIMEOUT, run_engine

SWITCH = re.compile(r"\([a-z-]+\)")  # espeak-ng marks words that it reads in another language: (en)həlˈəʊ(ru)
UNMARKED = str.maketrans("", "", "ˈˌː")


def phonemes(text: str, lang: str, engine: str, voice: str) -> str:
    """IPA without stress and length, one space between words; empty where espeak-ng does not speak the language.

    Args:
        engine, voice: who speaks the text. A voice of espeak-ng has its own accent; other engines get the plainest
            voice that espeak-ng has for the language.

    Raises:
        ValueError: espeak-ng fails, or takes longer than two minutes.
    """
    if engine != "espeak-ng":
        names = ENGINES["espeak-ng"].list_voices().get(lang, [])
        voice = min(names, key=lambda name: (len(name), name), default="")
    if not voice:
        return ""
    try:
        spoken = run_engine(["espeak-ng", "-q", "--ipa", "-v", voice, "--stdin"], text.encode()).decode()
    except subprocess.TimeoutExpired:
        raise ValueError(f"espeak-ng -voice {voice}: {text[:40]!r}: no phonemes after {TIMEOUT} seconds") from None
    except RuntimeError as error:
        raise ValueError(f"espeak-ng -voice {voice}: {text[:40]!r}: no phonemes ({error})") from None
    return " ".join(SWITCH.sub("", spoken).translate(UNMARKED).split())
