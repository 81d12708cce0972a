"""One recording of any kind: mono float32 samples at one rate, how many there are.
Errors name the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modeling.feature_extraction_echo_speech import audio_source
from ...modeling.feature_extraction_echo_speech import load_audio as read_audio
from ...utils.extras import extra


def check_audio(audio: Any, sampling_rate: int = 16_000) -> str | None:
    """Why an audio cannot be used, in one line, or None if it can."""
    try:
        read_audio(audio, sampling_rate)
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    return None


def audio_length(audio: Any, sampling_rate: int, *, name: str = "audio") -> int:
    """Samples at `sampling_rate` of whatever `read_audio` takes, from the header of a file."""
    with extra("speech"):
        import soundfile

    # An audio is a mapping as `datasets` has it, bytes, a path, or samples.
    if isinstance(audio, Mapping):
        source = None if audio.get("array") is not None else audio.get("bytes") or audio.get("path")
    else:
        source = audio
    if isinstance(source, (bytes, str, Path)):
        try:
            header = soundfile.info(audio_source(source))
            return max(1, round(header.frames * sampling_rate / header.samplerate))
        except (soundfile.LibsndfileError, RuntimeError, OSError):
            pass  # read_audio says what is wrong with it
    return len(read_audio(audio, sampling_rate, name=name))
