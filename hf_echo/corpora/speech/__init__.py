"""Synthetic speech from text, by engines that Debian packages, with many voices, rooms and bandwidths."""

from __future__ import annotations

from .corpus import Clip, SpeechPlan, speak_corpus, speech_plan
from .effects import Effects, apply_effects
from .engines import ENGINES, Engine, open_engines
from .texts import Sentence, read_sentences

__all__ = [
    "ENGINES",
    "Clip",
    "Effects",
    "Engine",
    "Sentence",
    "SpeechPlan",
    "apply_effects",
    "open_engines",
    "read_sentences",
    "speak_corpus",
    "speech_plan",
]
