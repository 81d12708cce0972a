"""Feature extractor for speech: any audio that a user has becomes samples or log-mel frames at one
sampling rate."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from transformers import (
    BatchFeature,
    SeamlessM4TFeatureExtractor,
    Wav2Vec2FeatureExtractor,
    WhisperFeatureExtractor,
)
from transformers.feature_extraction_sequence_utils import SequenceFeatureExtractor

logger = logging.getLogger(__name__)
# seconds: one frame of wav2vec 2.0 (400 samples at 16 kHz) and of a log-mel spectrogram
SHORTEST = 0.025
BLOCK = 1 << 20  # samples read at a time
# libsndfile's description of a wav file whose header promises another number of bytes; a stream
# promises over 2 GB
CUT_OFF = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)
UNKNOWN_SIZE = 0x7FFF0000
# names of chunks of wav files beside the audio
CHUNKS = (b"LIST", b"id3 ", b"ID3 ", b"fact", b"cue ", b"bext", b"smpl", b"PEAK", b"JUNK", b"PAD ")
OGG_PAGE = 65_307  # bytes of the largest page
MP3_FRAMES = 2 * 1152  # samples by which the length of an mp3 file is uncertain
LOUDEST = 1e6  # of floats; 16-bit integers as floats still pass, because features do not depend on loudness
WHISPER_SECONDS = 30.0  # that Whisper has positions for
# seconds after a row for Whisper, which has learned on audio with silence up to 30 seconds
SILENCE = 0.1
FEATURES = ("samples", "log-mel", "whisper")
CLIPPED = 0.01  # share of samples at the limit from which a warning says so


def load_audio(
    audio: Any, sampling_rate: int = 16_000, *, given_rate: int | None = None, name: str = "audio"
) -> np.ndarray:
    """Mono float32 samples (n,) at a sampling rate, in the range -1 to 1.

    Args:
        audio: a path, the bytes of a file, an array (n,), (channels, n) or (n, channels) of floats
            or integers, or a mapping {"array", "sampling_rate"} or {"path"} or {"bytes"}, as
            `datasets` gives. libsndfile reads wav, flac, ogg and mp3; soxr resamples; channels are
            averaged.
        sampling_rate: of the result, in Hz.
        given_rate: of an array without its own; None means that it has the rate of the result.
        name: what an error calls audio without a path.

    Raises:
        FileNotFoundError: there is no such file. ValueError: it is not readable audio, cut off,
            shorter than 25 ms, silent, or holds NaN or infinite values. ImportError: soundfile or
            soxr is not installed.
    """
    blocks = list(audio_blocks(audio, sampling_rate, given_rate=given_rate, name=name))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def audio_blocks(
    audio: Any, sampling_rate: int = 16_000, *, given_rate: int | None = None, name: str = "audio"
) -> Iterator[np.ndarray]:
    """As `load_audio`, in blocks: memory does not grow with the length of a file."""
    # A row of `datasets` holds samples, or the bytes or path of a file.
    if isinstance(audio, Mapping):
        given_rate = audio.get("sampling_rate") or given_rate
        path = audio.get("path")
        parts = [audio[key] for key in ("array", "bytes", "path") if audio.get(key) is not None]
        if not parts:
            raise ValueError(
                f"{name}: a mapping needs 'array' and 'sampling_rate', 'bytes' or 'path'"
            )
        if audio.get("array") is not None and audio.get("sampling_rate") is None:
            raise ValueError(f"{name}: the array has no 'sampling_rate'")
        if path and audio.get("bytes") is not None:
            name = str(path)
        audio = parts[0]
    if isinstance(audio, (str, Path, bytes)):
        name = name if isinstance(audio, bytes) else str(audio)
        blocks: Iterable[np.ndarray] = _read_file(audio, sampling_rate, name)
    else:
        samples = _mono(_floats(np.asarray(audio), name), name)
        resample = resampler(given_rate or sampling_rate, sampling_rate, name)
        blocks = [samples if resample is None else resample(samples, True)]

    # Each block is checked as it passes; what only the whole audio says is checked at its end.
    number = 0
    clipped = 0
    low = np.inf
    high = -np.inf
    for block in blocks:
        least = block.min(initial=np.inf)
        most = block.max(initial=-np.inf)
        if len(block) and not (np.isfinite(least) and np.isfinite(most)):
            raise ValueError(f"{name}: NaN or infinite samples")
        peak = max(-least, most)
        if peak > LOUDEST:
            raise ValueError(f"{name}: samples up to {peak:.0e}; floats are between -1 and 1")
        number += len(block)
        low = min(low, least)
        high = max(high, most)
        clipped += np.count_nonzero(block >= 0.999) + np.count_nonzero(block <= -0.999)
        yield block
    if number < SHORTEST * sampling_rate:
        raise ValueError(
            f"{name}: {1000 * number / sampling_rate:.0f} ms of audio; at least 25 ms are needed"
        )
    if low == high:
        raise ValueError(f"{name}: only silence")
    if clipped > CLIPPED * number:
        logger.warning("%s: clipped (many samples at the limit); the embedding may be worse", name)


def _read_file(audio: Any, sampling_rate: int, name: str) -> Iterator[np.ndarray]:
    """Mono samples (n,) of a file or of its bytes at a sampling rate, in blocks.

    A damaged header may promise more than memory holds.
    """
    try:
        import soundfile
    except ImportError as error:
        raise ImportError("audio files need soundfile: pip install soundfile") from error
    if not isinstance(audio, bytes) and not Path(audio).is_file():
        raise FileNotFoundError(f"no audio file {audio}")
    try:
        # Blocks of about a million samples, mixed and resampled one by one.
        with soundfile.SoundFile(audio_source(audio)) as file:
            resample = resampler(file.samplerate, sampling_rate, name)
            size = max(BLOCK // file.channels, 1)
            frames = 0
            last = False
            while not last:
                block = file.read(size, dtype="float32", always_2d=True)
                frames = frames + len(block)
                last = len(block) < size
                mono = block.mean(1) if block.shape[1] > 1 else block[:, 0]
                yield mono if resample is None else resample(mono, last)
            # What is cut off, as the container or the header tells.
            missing = lost_end(audio)
            if frames < file.frames - MP3_FRAMES:
                missing = f"{frames} of {file.frames} samples"
            header = CUT_OFF.search(file.extra_info)
            if header and int(header[2]) < int(header[1]) < UNKNOWN_SIZE:
                missing = f"{header[2]} of {header[1]} bytes"
    except (soundfile.SoundFileError, RuntimeError, EOFError, TypeError, OSError) as error:
        reason = str(error).rsplit(": ", 1)[-1].strip().rstrip(".")
        if isinstance(error, TypeError):  # soundfile asks for the sampling rate
            reason = "a .raw file has no header"
        elif reason.startswith("File does not exist"):  # libsndfile could not recognise the content
            reason = "damaged, or another format"
        raise ValueError(f"{name}: not a readable wav, flac, ogg or mp3 file ({reason})") from None
    if missing:
        raise ValueError(f"{name}: cut off, it has {missing}; copy the whole file again")


def audio_source(audio: str | Path | bytes) -> Any:
    """What soundfile opens: a path, or the bytes of a file; those of a wav file whose header
    promises too little audio, as a program leaves it that writes to a pipe or was killed, with the
    true size.
    """
    with _binary(audio) as file:
        place = _understated(file)
        if place is None:
            return io.BytesIO(audio) if isinstance(audio, bytes) else audio
        file.seek(0)
        content = bytearray(file.read())
    content[4:8] = min(len(content) - 8, 0xFFFFFFFF).to_bytes(4, "little")
    content[place : place + 4] = min(len(content) - place - 4, 0xFFFFFFFF).to_bytes(4, "little")
    return io.BytesIO(bytes(content))


def _binary(audio: str | Path | bytes) -> Any:
    return io.BytesIO(audio) if isinstance(audio, bytes) else open(audio, "rb")  # noqa: SIM115 (the caller closes it)


def _understated(file: Any) -> int | None:
    """Where the size of the audio stands in a wav file, if more audio follows than it says;
    None for others."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return None
    place = 12
    size_place = None
    while place + 8 <= size:
        file.seek(place)
        name = file.read(4)
        length = int.from_bytes(file.read(4), "little")
        is_name = name.isascii() and name.decode().isprintable()
        goes_on = place + 8 + length > size + 1 and name not in CHUNKS
        if size_place is not None and (not is_name or goes_on):
            return size_place  # audio where another chunk should be
        if name == b"data" and size_place is None:
            size_place = place + 4
        place += 8 + length + length % 2
    return None


def lost_end(audio: str | Path | bytes) -> str:
    """What an ogg file has lost, whose last page says that it is the last;
    "" for whole files and other formats."""
    with _binary(audio) as file:
        if file.read(4) != b"OggS":
            return ""
        size = file.seek(0, io.SEEK_END)
        start = max(0, size - 2 * OGG_PAGE)
        file.seek(start)
        tail = file.read()
    # A page's header has 27 bytes: byte 5 holds its flags (4: the last one), byte 26 the number of
    # segments, whose lengths follow, a byte each.
    page = tail.rfind(b"OggS\0")
    segments = tail[page + 26] if page >= 0 and page + 27 <= len(tail) else 0
    length = 27 + segments + sum(tail[page + 27 : page + 27 + segments])
    is_last = page >= 0 and page + 27 <= len(tail) and tail[page + 5] & 4
    if is_last and page + length <= len(tail):
        return ""
    return f"{size} bytes and not its last page"


def _floats(samples: np.ndarray, name: str) -> np.ndarray:
    """Integers are scaled to -1 to 1 by the range of their type."""
    kind = samples.dtype.kind
    if kind in ("i", "u"):
        half = 2.0 ** (8 * samples.dtype.itemsize - 1)
        silence = half if kind == "u" else 0  # the middle of the range
        return ((samples - silence) / half).astype(np.float32)
    if kind != "f":
        raise ValueError(
            f"{name}: audio is a path, bytes, an array of numbers or a mapping, not {samples.dtype}"
        )
    return samples.astype(np.float32, copy=False)


def _mono(samples: np.ndarray, name: str) -> np.ndarray:
    """(n,) mean of the channels of (n,), (n, channels) or (channels, n):
    the shorter side holds the channels."""
    if samples.ndim == 2:
        samples = samples.mean(int(np.argmin(samples.shape)) if min(samples.shape) else 1)
    if samples.ndim != 1:
        raise ValueError(
            f"{name}: an array of {samples.ndim} dimensions; give (samples,) or (channels, samples)"
        )
    return samples


def resampler(rate: int, new_rate: int, name: str) -> Any:
    """Function (block, whether it is the last) -> block at the new rate;
    None where the rates are equal."""
    if not 1000 <= rate <= 768_000:
        raise ValueError(f"{name}: sampling rate {rate} Hz; it must be between 1000 and 768000")
    if rate == new_rate:
        return None
    try:
        import soxr
    except ImportError as error:
        raise ImportError("another sampling rate needs soxr: pip install soxr") from error
    return soxr.ResampleStream(rate, new_rate, 1, dtype="float32").resample_chunk


class EchoAudioFeatureExtractor(SequenceFeatureExtractor):
    """Audio to the padded input of a speech encoder with its mask. It takes what `load_audio`
    takes.

    Args:
        features: "samples" (wav2vec 2.0: zero mean, unit variance), "log-mel" (w2v-BERT and small
            students) or "whisper" (the log-mel frames of Whisper, without its padding to 30
            seconds).
        num_mel_bins: of "log-mel" and "whisper".
        stride: of "log-mel": so many frames of 10 ms are joined to one.
        sampling_rate: in Hz; other rates are resampled.

    Raises:
        ValueError: `features` is none of the three, or `stride` is below 2.
    """

    def __init__(
        self,
        features: str = "samples",
        num_mel_bins: int = 80,
        stride: int = 2,
        sampling_rate: int = 16000,
        **kwargs: Any,
    ):
        if features not in FEATURES:
            raise ValueError(f"features is {features!r}; it must be one of {', '.join(FEATURES)}")
        # transformers reads the mask off the second of the joined frames
        if not isinstance(stride, int) or stride < 2:
            raise ValueError(f"stride is {stride!r}; at least 2 frames are joined")
        self.features = features
        self.num_mel_bins = num_mel_bins
        self.stride = stride
        for name in ("feature_size", "padding_value"):
            kwargs.pop(name, None)
        super().__init__(feature_size=1, sampling_rate=sampling_rate, padding_value=0.0, **kwargs)

    @property
    def model_input_names(self) -> list[str]:
        return [
            "input_values" if self.features == "samples" else "input_features",
            "attention_mask",
        ]

    @cached_property
    def _library(
        self,
    ) -> Wav2Vec2FeatureExtractor | WhisperFeatureExtractor | SeamlessM4TFeatureExtractor:
        """The extractor of transformers that computes the features."""
        if self.features == "samples":
            return Wav2Vec2FeatureExtractor(
                sampling_rate=self.sampling_rate, return_attention_mask=True
            )
        if self.features == "whisper":
            return WhisperFeatureExtractor(self.num_mel_bins, sampling_rate=self.sampling_rate)
        return SeamlessM4TFeatureExtractor(
            feature_size=self.num_mel_bins,
            num_mel_bins=self.num_mel_bins,
            sampling_rate=self.sampling_rate,
            stride=self.stride,
        )

    def __call__(
        self,
        audio: Any,
        sampling_rate: int | None = None,
        padding: bool | str = True,
        **kwargs: Any,
    ):
        """`input_values` (batch, samples) or `input_features` (batch, frames, features), and
        `attention_mask`.

        Args:
            audio: one audio or a list of them.
            sampling_rate: of arrays without their own.
        """
        many = isinstance(audio, (list, tuple)) and not (
            audio and isinstance(audio[0], (int, float))
        )
        samples = [
            load_audio(item, self.sampling_rate, given_rate=sampling_rate, name=f"audio {number}")
            for number, item in enumerate(audio if many else [audio], 1)
        ]
        if self.features == "whisper":
            return self._whisper(samples, kwargs.get("return_tensors"))
        if self.features == "log-mel":
            # Else the last frames of a row would depend on the longest row of its batch.
            kwargs["pad_to_multiple_of"] = self.stride
        return self._library(samples, padding=padding, sampling_rate=self.sampling_rate, **kwargs)

    def _whisper(self, samples: list[np.ndarray], return_tensors: str | None) -> BatchFeature:
        """Each row by itself, because Whisper's scale depends on the loudest frame,
        with a little silence after it."""
        rows = []
        for row in samples:
            silence = min(SILENCE, max(0.0, WHISPER_SECONDS - len(row) / self.sampling_rate))
            row = np.concatenate([row, np.zeros(round(silence * self.sampling_rate), np.float32)])
            frames = self._library(row, padding=False, sampling_rate=self.sampling_rate)[
                "input_features"
            ][0]
            rows.append(np.asarray(frames, np.float32).T)
        longest = max(map(len, rows))
        features = np.zeros((len(rows), longest, self.num_mel_bins), np.float32)
        mask = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            features[number, : len(row)] = row
            mask[number, : len(row)] = 1
        return BatchFeature(
            {"input_features": features, "attention_mask": mask}, tensor_type=return_tensors
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if name != "_library"}


EchoAudioFeatureExtractor.register_for_auto_class("AutoFeatureExtractor")
