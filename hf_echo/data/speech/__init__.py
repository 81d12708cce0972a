"""Speech data: audio with its text and language, read from tables, Common Voice, FLEURS and `datasets`; decoded, cut.

A speech dataset is a `datasets.Dataset` with the columns `audio` (not decoded: path or bytes), `text` and `lang`, and
optionally `english` (the translation), `source` and `speaker`.
"""

from __future__ import annotations

from .audio import check_audio, read_audio
from .long_audio import audio_pieces, energy_speech, shas_pieces, silero_speech, speech_probability, speech_spans
from .readers import (
    COLUMNS,
    KEPT_SOURCES,
    KEPT_VOICES,
    OPTIONAL,
    features,
    kept_for_measuring,
    load_speech,
    refuse_kept,
)

__all__ = [
    "COLUMNS",
    "KEPT_SOURCES",
    "KEPT_VOICES",
    "OPTIONAL",
    "audio_pieces",
    "check_audio",
    "energy_speech",
    "features",
    "kept_for_measuring",
    "load_speech",
    "read_audio",
    "refuse_kept",
    "shas_pieces",
    "silero_speech",
    "speech_probability",
    "speech_spans",
]
