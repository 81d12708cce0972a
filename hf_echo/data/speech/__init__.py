"""Speech data: audio with its text and language, read from tables, Common Voice, FLEURS and
`datasets`; decoded, cut.

A speech dataset is a `datasets.Dataset` with the columns `audio` (not decoded: path or bytes),
`text` and `lang`, and optionally `english` (the translation), `source` and `speaker`.
"""

from __future__ import annotations

from .audio import audio_length as audio_length
from .audio import check_audio as check_audio
from .audio import read_audio as read_audio
from .long_audio import audio_pieces as audio_pieces
from .long_audio import speech_spans as speech_spans
from .readers import COLUMNS as COLUMNS
from .readers import OPTIONAL as OPTIONAL
from .readers import features as features
from .readers import kept_for_measuring as kept_for_measuring
from .readers import load_speech as load_speech
from .readers import refuse_kept as refuse_kept
