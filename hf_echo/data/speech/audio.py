"""One recording of any kind: mono float32 samples at one rate, how many there are. Errors name the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modeling.feature_extraction_echo_speech import audio_source
from ...modeling.feature_extraction_echo_speech import load_audio as read_audio


def check_audio(audio: Any, sampling_rate: int = 16_000) -> str | None:
    """Why an audio cannot be used, in one line, or None if it can."""
    try:
        read_audio(audio, sampling_rate)
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    return None


def audio_length(audio: Any, sampling_rate: int, *, name: str = "audio") -> int:
    """Samples at `sampling_rate` of whatever `read_audio` takes, from the header of a file."""
    try:
        import soundfile
    except ImportError as error:
        raise ImportError("audio files need soundfile: pip install -e '.[speech]'") from error
    given = (
        audio
        if isinstance(audio, Mapping)
        else {"bytes" if isinstance(audio, bytes) else "path": audio}
    )
    path = given.get("path")
    content = given.get("bytes")
    if given.get("array") is None and (content is not None or isinstance(path, (str, Path))):
        try:
            about = soundfile.info(audio_source(content if content is not None else path))
            return max(1, round(about.frames * sampling_rate / about.samplerate))
        except (soundfile.LibsndfileError, RuntimeError, OSError):
            pass  # read_audio says what is wrong with it
    return len(read_audio(audio, sampling_rate, name=name))
