"""Augmentation of speech in training: speed of samples; masks (SpecAugment) and warps (VTLP) of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers.audio_utils import hertz_to_mel, mel_to_hertz

WIDEST_TIME = 0.1  # share of the frames under one mask of time, at most
WIDEST_FREQUENCY = 0.3  # share of the mel bins under one mask of frequency, at most
LOWEST = 20.0  # Hz, of the mel filters of transformers' log-mel extractor; the highest is half the sampling rate
WARPED = 0.6  # share of the highest frequency; above it the warp goes back to the identity


def change_speed(samples: np.ndarray, factor: float) -> np.ndarray:
    """Samples (n,) played `factor` times as fast: (about n / factor,); the pitch changes too (Ko et al. 2015)."""
    if factor == 1:
        return samples
    try:
        import soxr
    except ImportError as error:
        raise ImportError("speed perturbation needs soxr: pip install 'hf-echo[speech]'") from error
    return soxr.resample(samples, 1_000 * factor, 1_000).astype(np.float32)


def draw_speed(factors: Sequence[float], rng: np.random.Generator) -> float:
    """One of the factors, each with the same probability; 1 without factors."""
    return float(rng.choice(factors)) if len(factors) else 1.0


def mask_features(
    features: np.ndarray, frames: int, rng: np.random.Generator, *, time_masks: int, frequency_masks: int, bins: int = 0
) -> None:
    """SpecAugment (Park et al. 2019) in place: spans of frames and bands of mel bins become 0, their mean.

    Args:
        features: (frames, bins * stride) log-mel frames, `stride` of them joined, or (samples,): only time is masked.
        frames: of real audio, at the start.
        time_masks: masks of time, each of a width drawn up to a tenth of the frames.
        frequency_masks: masks of frequency, each of a width drawn up to 0.3 of the bins.
        bins: mel bins of a frame.
    """
    for start, stop in _spans(frames, time_masks, WIDEST_TIME, rng):
        features[start:stop] = 0
    if features.ndim == 2 and bins:
        for start, stop in _spans(bins, frequency_masks, WIDEST_FREQUENCY, rng):
            features.reshape(len(features), -1, bins)[:, :, start:stop] = 0


def warp_frequencies(features: np.ndarray, factor: float, bins: int, sampling_rate: int) -> np.ndarray:
    """Another vocal tract (VTLP, Jaitly and Hinton 2013): what was at f Hz moves to `factor * f`, piecewise linear.

    Args:
        features: (frames, bins * stride) log-mel frames; the result has the same shape.
        factor: about 0.8 (a longer tract) to 1.2; 1 changes nothing.
        bins: mel bins of a frame.
        sampling_rate: of the audio, in Hz.
    """
    highest = sampling_rate / 2
    limits = hertz_to_mel(np.array([LOWEST, highest]), mel_scale="kaldi")
    centers = np.linspace(*limits, bins + 2)[1:-1]
    knee = WARPED * highest * min(factor, 1) / factor
    source = np.interp(mel_to_hertz(centers, mel_scale="kaldi"), [0, knee * factor, highest], [0, knee, highest])
    place = np.interp(hertz_to_mel(source, mel_scale="kaldi"), centers, np.arange(bins))
    low = np.minimum(place.astype(int), bins - 2)
    share = (place - low).astype(features.dtype)
    frames = features.reshape(len(features), -1, bins)
    return (frames[..., low] * (1 - share) + frames[..., low + 1] * share).reshape(features.shape)


def _spans(length: int, masks: int, widest: float, rng: np.random.Generator) -> list[tuple[int, int]]:
    widths = rng.integers(0, int(widest * length) + 1, size=masks)
    return [(start := int(rng.integers(0, length - width + 1)), start + int(width)) for width in widths]
