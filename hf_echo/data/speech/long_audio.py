"""Long audio: cut at pauses. Speech probability per frame (silero-vad, or energy), then SHAS's division.

A voice activity detector gives the probability of speech in frames of 32 ms. `shas_pieces` divides a long audio at the
least probable frame, trims the halves to speech, and repeats until every piece is short enough: the probabilistic
divide and conquer of SHAS (Tsiamas et al. 2022, Algorithm 1). `audio_pieces` is what inference calls.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np

from .audio import resampled

logger = logging.getLogger(__name__)

VAD_RATE = 16_000
FRAME = 512  # samples of a frame at 16 kHz; the window of silero-vad
LONGEST = 30.0  # seconds: what the omnilingual encoders are advised to read at most
SHORTEST = 0.4  # seconds of the shortest piece
SPEECH = 0.5  # probability from which a frame is speech
PAUSE = 7  # frames (0.22 s) over which energy is averaged: a pause between words is shorter than one between sentences
OnLong = Literal["warn", "error", "split"]
Vad = Literal["auto", "silero", "energy"]


def audio_pieces(
    samples: np.ndarray,
    sampling_rate: int,
    *,
    longest: float = LONGEST,
    on_long: OnLong = "warn",
    vad: Vad = "auto",
    name: str = "audio",
) -> list[np.ndarray]:
    """The pieces of an audio that an encoder reads: the audio itself if it is short enough.

    Args:
        samples: mono (n,).
        longest: seconds of the longest piece.
        on_long: for longer audio, as `encode` has it for text: "warn" truncates it and logs a warning, "error"
            raises, "split" returns pieces cut at pauses, whose embeddings the caller averages.
        vad: as in `speech_probability`.

    Raises:
        ValueError: an unknown on_long or vad, `longest` too short, audio longer than `longest` with "error".
    """
    if on_long not in get_args(OnLong):
        raise ValueError(f"on_long is {on_long!r}; it must be 'warn', 'error' or 'split'")
    limit, seconds = round(longest * sampling_rate), len(samples) / sampling_rate
    if len(samples) <= limit:
        return [samples]
    if on_long == "error":
        raise ValueError(
            f"{name}: {seconds:.1f} s of audio; the limit is {longest:g} s: cut it, or use on_long='split'"
        )
    if on_long == "warn":
        logger.warning(
            "%s: %.1f s of audio were truncated to %g s; on_long='split' averages pieces", name, seconds, longest
        )
        return [samples[:limit]]
    spans = speech_spans(samples, sampling_rate, longest=longest, vad=vad)
    return [samples[start:end] for start, end in spans] or [samples[:limit]]


def speech_spans(
    samples: np.ndarray, sampling_rate: int, *, longest: float = LONGEST, vad: Vad = "auto"
) -> list[tuple[int, int]]:
    """(start, end) in samples of the pieces of speech, in order; silence before and after them is left out.

    Raises:
        ValueError: an unknown vad, or `longest` under twice the shortest piece (0.8 s).
    """
    pieces = shas_pieces(speech_probability(samples, sampling_rate, vad), FRAME / VAD_RATE, longest=longest)
    size, limit = FRAME / VAD_RATE * sampling_rate, int(longest * sampling_rate)
    spans = [(round(start * size), min(round(end * size), len(samples))) for start, end in pieces]
    return [(start, min(end, start + limit)) for start, end in spans if end > start]


def shas_pieces(
    speech: np.ndarray, frame: float, *, longest: float = LONGEST, shortest: float = SHORTEST
) -> list[tuple[int, int]]:
    """(start, end) in frames of pieces of at most `longest` seconds, trimmed to speech; an empty list without speech.

    Args:
        speech: (frames,) probability of speech. frame: seconds of a frame.

    Raises:
        ValueError: `longest` is under twice `shortest`.
    """
    if longest < 2 * shortest:
        raise ValueError(f"longest={longest:g} s is under {2 * shortest:g} s, twice the shortest piece")
    most, least = max(int(longest / frame), 2), max(int(shortest / frame), 1)
    pieces, waiting = [], [(0, len(speech))]
    while waiting:
        start, end = _trimmed(speech, *waiting.pop())
        if end - start <= most:
            if end > start:
                pieces.append((start, end))
            continue
        inner = speech[start + least : end - least]
        lowest = np.flatnonzero(inner == inner.min())
        cut = start + least + int(lowest[np.argmin(np.abs(lowest - len(inner) / 2))])  # of equal ones, the middle
        waiting += [(cut, end), (start, cut)]
    return pieces


def _trimmed(speech: np.ndarray, start: int, end: int) -> tuple[int, int]:
    heard = np.flatnonzero(speech[start:end] >= SPEECH)
    return (start + int(heard[0]), start + int(heard[-1]) + 1) if len(heard) else (start, start)


def speech_probability(samples: np.ndarray, sampling_rate: int, vad: Vad = "auto") -> np.ndarray:
    """Probability of speech (frames of 32 ms,) by "silero" (silero-vad), "energy", or "auto": silero if installed.

    Raises:
        ValueError: an unknown vad. ImportError: "silero" without silero-vad.
    """
    if vad not in get_args(Vad):
        raise ValueError(f"vad is {vad!r}; it must be 'auto', 'silero' or 'energy'")
    if vad == "auto":
        vad = "silero" if find_spec("silero_vad") else "energy"
    return (silero_speech if vad == "silero" else energy_speech)(
        resampled(np.asarray(samples, np.float32), sampling_rate, VAD_RATE)
    )


def energy_speech(samples: np.ndarray) -> np.ndarray:
    """(frames,) at 16 kHz: a logistic function of the energy in dB, half way between background and loud speech."""
    whole, rest = divmod(len(samples), FRAME)
    frames = samples[: whole * FRAME].reshape(whole, FRAME)
    power = np.einsum("ij,ij->i", frames, frames) / FRAME
    if rest:
        power = np.append(power, np.square(samples[whole * FRAME :]).sum() / FRAME)
    smooth = np.convolve(power, np.ones(PAUSE) / PAUSE, mode="same")
    level = 10 * np.log10(smooth + 1e-10)
    quiet, loud = np.percentile(level, [5, 99])
    if loud - quiet < 6:  # no pauses: all is speech, but the quietest frames are still the best to cut at
        return np.clip(SPEECH + (level - level.min()) / 100, SPEECH, 1).astype(np.float32)
    threshold = max((quiet + loud) / 2, loud - 30)
    return (1 / (1 + np.exp((threshold - level) / 3))).astype(np.float32)


def silero_speech(samples: np.ndarray) -> np.ndarray:
    """(frames,) at 16 kHz by silero-vad, whose wheel has the model.

    Raises:
        ImportError: silero-vad is not installed.
    """
    import torch

    model = _silero()
    model.reset_states()
    with torch.inference_mode():
        return model.audio_forward(torch.from_numpy(samples)[None], VAD_RATE)[0].numpy()


@cache
def _silero() -> Any:
    try:
        from silero_vad import load_silero_vad
    except ImportError:
        raise ImportError("vad='silero' needs silero-vad: pip install 'hf-echo[vad]'; or use vad='energy'") from None
    return load_silero_vad(onnx=False)
