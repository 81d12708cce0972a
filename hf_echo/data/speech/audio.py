"""One recording of any kind: mono float32 samples at one rate, how many, another rate. Errors name the file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...modeling.feature_extraction_echo_speech import load_audio


def read_audio(audio: Any, sampling_rate: int = 16_000, *, name: str = "audio") -> np.ndarray:
    """Decode an audio: mono float32 (samples,) at `sampling_rate`.

    Args:
        audio: a value of the column `audio`: {"path", "bytes"}; also a path, bytes of a file, an array at
            `sampling_rate`, or {"array", "sampling_rate"}. libsndfile reads wav, flac, ogg and mp3; soxr resamples;
            channels are averaged.
        name: what an error calls audio without a path.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not audio, cut off, shorter than 25 ms, silent, with NaN, or an array without sampling rate.
        ImportError: soundfile or soxr is not installed.
    """
    if isinstance(audio, dict) and audio.get("path") and audio.get("bytes") is not None:
        name = str(audio["path"])
    return load_audio(audio, sampling_rate, name=name)


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
        raise ImportError("audio files need soundfile: pip install 'hf-echo[speech]'") from error
    given = audio if isinstance(audio, Mapping) else {"bytes" if isinstance(audio, bytes) else "path": audio}
    path, content = given.get("path"), given.get("bytes")
    if given.get("array") is None and (content is not None or isinstance(path, (str, Path))):
        try:
            about = soundfile.info(io.BytesIO(content) if content is not None else path)
            return max(1, round(about.frames * sampling_rate / about.samplerate))
        except (soundfile.LibsndfileError, RuntimeError, OSError):
            pass  # read_audio says what is wrong with it
    return len(read_audio(audio, sampling_rate, name=name))


def resampled(samples: np.ndarray, rate: float, wanted: float) -> np.ndarray:
    """Samples (n,) at one rate as (about n * wanted / rate,) float32 at another."""
    if rate == wanted:
        return samples
    try:
        import soxr
    except ImportError as error:
        raise ImportError("another sampling rate or speed needs soxr: pip install 'hf-echo[speech]'") from error
    return soxr.resample(samples, rate, wanted).astype(np.float32)
