"""`read_audio`: one audio of any kind as mono float32 samples at one sampling rate. Errors name the file."""

from __future__ import annotations

from typing import Any

import numpy as np


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
    from ...modeling.feature_extraction_echo_speech import load_audio

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
