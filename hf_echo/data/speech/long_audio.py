"""Long audio: cut at pauses. Speech probability per frame (silero-vad, or energy), then SHAS's
division.

`shas_pieces` divides a long audio at the frame where speech is least probable, trims the halves to
speech, and repeats until every piece is short enough: the probabilistic divide and conquer of SHAS
(Tsiamas et al. 2022, Algorithm 1).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np

from ...modeling.feature_extraction_echo_speech import audio_blocks, resampler
from ...utils.choices import OnLong
from .audio import audio_length

logger = logging.getLogger(__name__)

VAD_RATE = 16_000
FRAME = 512  # samples of a frame at 16 kHz; the window of silero-vad
LONGEST = 30.0  # seconds: what the omnilingual encoders are advised to read at most
SHORTEST = 0.4  # seconds of the shortest piece
SPEECH = 0.5  # probability from which a frame is speech
PAUSE = 7  # frames (0.22 s) over which energy is averaged: a pause between words is shorter than one between sentences


def audio_pieces(
    audio: Any,
    sampling_rate: int,
    *,
    longest: float = LONGEST,
    on_long: OnLong = "warn",
    name: str = "audio",
) -> Iterator[np.ndarray]:
    """The pieces of an audio that an encoder reads, one after the other: the audio itself if it is
    short enough.

    A file is read in blocks, twice where it is split, so memory does not grow with its length.

    Args:
        audio: as `read_audio`.
        longest: seconds of the longest piece.
        on_long: for longer audio, as `encode` has it for text: "warn" truncates it and logs a
            warning, "error" raises, "split" gives pieces cut at pauses, whose embeddings the caller
            averages.

    Raises:
        ValueError: as `read_audio`; `longest` too short, longer audio with "error".
    """
    read = partial(audio_blocks, audio, sampling_rate, name=name)
    length = audio_length(audio, sampling_rate, name=name)
    limit = round(longest * sampling_rate)
    seconds = length / sampling_rate
    spans = [(0, limit)]
    if length > limit and on_long == "error":
        raise ValueError(
            f"{name}: {seconds:.1f} s of audio; the limit is {longest:g} s: cut it, or use on_long='split'"
        )
    if length > limit and on_long == "warn":
        logger.warning(
            "%s: %.1f s of audio were truncated to %g s; on_long='split' averages pieces",
            name,
            seconds,
            longest,
        )
    elif length > limit:
        spans = speech_spans(read(), sampling_rate, longest=longest) or spans
    yield from _cut(read(), spans)


def _cut(blocks: Iterable[np.ndarray], spans: Sequence[tuple[int, int]]) -> Iterator[np.ndarray]:
    """The spans (start, end), which are in order, of the joined blocks."""
    # Only the samples from the next span on are held.
    held = np.zeros(0, np.float32)
    first = 0
    waiting = deque(spans)
    for block in blocks:
        held = np.concatenate([held, block])
        while waiting and waiting[0][1] <= first + len(held):
            start, end = waiting.popleft()
            yield held[start - first : end - first].copy()
        if not waiting:
            return
        gone = min(waiting[0][0] - first, len(held))
        held = held[gone:]
        first = first + gone
    yield from (held[start - first : end - first] for start, end in waiting)


def speech_spans(
    audio: np.ndarray | Iterable[np.ndarray],
    sampling_rate: int,
    *,
    longest: float = LONGEST,
) -> list[tuple[int, int]]:
    """(start, end) in samples of the pieces of speech, in order; silence before and after them is
    left out.

    Args:
        audio: mono samples (n,), or blocks of them, as `audio_blocks` reads them.

    Raises:
        ValueError: `longest` under twice the shortest piece (0.8 s).
    """
    length = 0
    blocks = [audio] if isinstance(audio, np.ndarray) else audio

    def counted() -> Iterator[np.ndarray]:
        nonlocal length
        for block in blocks:
            length += len(block)
            yield block

    pieces = shas_pieces(
        speech_probability(counted(), sampling_rate), FRAME / VAD_RATE, longest=longest
    )
    # From frames to samples; a piece ends within the audio, and is not longer than `longest`.
    samples_of_frame = FRAME / VAD_RATE * sampling_rate
    limit = int(longest * sampling_rate)
    spans = []
    for first_frame, end_frame in pieces:
        start = round(first_frame * samples_of_frame)
        end = min(round(end_frame * samples_of_frame), length)
        if end > start:
            spans.append((start, min(end, start + limit)))
    return spans


def shas_pieces(
    speech: np.ndarray, frame: float, *, longest: float = LONGEST
) -> list[tuple[int, int]]:
    """(start, end) in frames of pieces of at most `longest` seconds, trimmed to speech; none
    without speech.

    `speech` is the (frames,) probability of speech in frames of `frame` seconds.
    """
    if longest < 2 * SHORTEST:
        raise ValueError(
            f"longest={longest:g} s is under {2 * SHORTEST:g} s, twice the shortest piece"
        )
    most = max(int(longest / frame), 2)
    least = max(int(SHORTEST / frame), 1)
    pieces = []
    waiting = [(0, len(speech))]
    while waiting:
        start, end = _trimmed(speech, *waiting.pop())
        if end - start <= most:
            if end > start:
                pieces.append((start, end))
            continue
        # A cut leaves both halves long enough.
        inner = speech[start + least : end - least]
        lowest = np.flatnonzero(inner == inner.min())
        # of equal ones, the middle
        cut = start + least + int(lowest[np.argmin(np.abs(lowest - len(inner) / 2))])
        waiting += [(cut, end), (start, cut)]
    return pieces


def _trimmed(speech: np.ndarray, start: int, end: int) -> tuple[int, int]:
    heard = np.flatnonzero(speech[start:end] >= SPEECH)
    if not len(heard):
        return start, start
    return start + int(heard[0]), start + int(heard[-1]) + 1


def speech_probability(blocks: Iterable[np.ndarray], sampling_rate: int) -> np.ndarray:
    """Probability of speech (frames of 32 ms,), by silero-vad if it is installed,
    else by the energy."""
    by_frame = silero_speech if find_spec("silero_vad") else energy_speech
    return by_frame(_frames(blocks, sampling_rate))


def _frames(blocks: Iterable[np.ndarray], sampling_rate: int) -> Iterator[np.ndarray]:
    """(n, FRAME) samples at 16 kHz, block by block; the last frame ends with zeros."""
    resample = resampler(sampling_rate, VAD_RATE, "audio")
    rest = end = np.zeros(0, np.float32)
    for block in blocks:
        rest = np.concatenate(
            [rest, block if resample is None else resample(block, False)], dtype=np.float32
        )
        whole = len(rest) // FRAME * FRAME
        yield rest[:whole].reshape(-1, FRAME)
        rest = rest[whole:]
    rest = rest if resample is None else np.concatenate([rest, resample(end, True)])
    yield np.pad(rest, (0, -len(rest) % FRAME)).reshape(-1, FRAME)


def energy_speech(frames: Iterable[np.ndarray]) -> np.ndarray:
    """(frames,) of blocks (n, FRAME) of 16 kHz: a logistic function of the energy in dB, half way
    between background and loud speech."""
    # Energy of each frame, averaged over a pause.
    power = np.concatenate([np.square(block).mean(axis=1) for block in frames])
    smooth = np.convolve(power, np.ones(PAUSE) / PAUSE, mode="same")
    level = 10 * np.log10(smooth + 1e-10)
    quiet, loud = np.percentile(level, [5, 99])
    if loud - quiet < 6:
        # no pauses: all is speech, but the quietest frames are still the best to cut at
        above_quietest = level - level.min()
        probability = np.clip(SPEECH + above_quietest / 100, SPEECH, 1)
    else:
        threshold = max((quiet + loud) / 2, loud - 30)
        probability = 1 / (1 + np.exp((threshold - level) / 3))
    return probability.astype(np.float32)


def silero_speech(frames: Iterable[np.ndarray]) -> np.ndarray:
    """(frames,) of blocks (n, FRAME) of 16 kHz by silero-vad,
    whose wheel has the model and which keeps its state."""
    import torch

    model = _silero()
    model.reset_states()
    probabilities = []
    with torch.inference_mode():
        for frame in chain.from_iterable(frames):
            probabilities.append(float(model(torch.from_numpy(frame), VAD_RATE)))
    return np.array(probabilities, np.float32)


@cache
def _silero() -> Any:
    from silero_vad import load_silero_vad

    return load_silero_vad(onnx=False)
