"""Speech data: audio with its text and language, read from tables, Common Voice, FLEURS and `datasets`; decoded, cut.

A speech dataset is a `datasets.Dataset` with the columns `audio` (not decoded: path or bytes), `text` and `lang`, and
optionally `english` (the translation), `source` and `speaker`.
"""

from .audio import audio_length, check_audio, read_audio
from .long_audio import audio_pieces, speech_spans
from .readers import COLUMNS, OPTIONAL, features, kept_for_measuring, load_speech, refuse_kept

__all__ = [
    "COLUMNS",
    "OPTIONAL",
    "audio_length",
    "audio_pieces",
    "check_audio",
    "features",
    "kept_for_measuring",
    "load_speech",
    "read_audio",
    "refuse_kept",
    "speech_spans",
]
