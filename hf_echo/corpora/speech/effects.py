"""What a recording adds to a voice: a room, background noise, a narrow band. Each with a probability, by one seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, fftconvolve, sosfiltfilt


@dataclass(frozen=True)
class Effects:
    """Probability of each effect for a clip."""

    room: float = 0.3
    noise: float = 0.5
    band: float = 0.3

    def __post_init__(self):
        for name in ("room", "noise", "band"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a probability from 0 to 1")


ROOM = (0.1, 0.5)  # seconds until an echo is 60 dB quieter
NOISE = (5.0, 30.0)  # dB that speech is louder than noise
BANDS = ((300, 3400), (80, 4000), (80, 5500))  # Hz: telephone, 8 kHz and 11 kHz recordings
PEAK = (0.2, 0.9)


def apply_effects(
    samples: np.ndarray, sampling_rate: int, effects: Effects, rng: np.random.Generator
) -> tuple[np.ndarray, list[str]]:
    """(samples (n,) with a random loudness and effects, names of the effects). The same generator gives the same clip.

    The number of random draws does not depend on the effects, so a changed probability changes only its effect.
    """
    wanted = rng.random(3) < (effects.room, effects.noise, effects.band)
    seconds, snr, band, peak = (
        rng.uniform(*ROOM),
        rng.uniform(*NOISE),
        BANDS[rng.integers(len(BANDS))],
        rng.uniform(*PEAK),
    )
    colour, seed = rng.uniform(0, 1), rng.integers(2**32)
    own = np.random.default_rng(seed)
    names = []
    if wanted[0]:
        samples, names = _in_room(samples, sampling_rate, seconds, own), [f"room {seconds:.2f} s"]
    if wanted[1]:
        noise = _noise(len(samples), sampling_rate, colour, own)
        ratio = np.sqrt(np.mean(samples**2) / np.mean(noise**2)) * 10 ** (-snr / 20)
        samples, names = samples + noise * ratio, [*names, f"noise {snr:.0f} dB"]
    if wanted[2] and band[1] < sampling_rate / 2:
        filtering = butter(6, band, "bandpass", fs=sampling_rate, output="sos")
        samples, names = (
            sosfiltfilt(filtering, samples, padlen=min(100, len(samples) - 1)),
            [*names, f"band {band[0]}-{band[1]} Hz"],
        )
    return (samples * (peak / np.abs(samples).max())).astype(np.float32), names


def _in_room(samples: np.ndarray, sampling_rate: int, seconds: float, rng: np.random.Generator) -> np.ndarray:
    """Direct sound and an exponentially decaying noise as echo, of a third of its energy."""
    time = np.arange(int(seconds * sampling_rate)) / sampling_rate
    echo = rng.normal(size=len(time)) * 10 ** (-3 * time / seconds)
    echo *= np.sqrt(1 / 3 / (echo**2).sum())
    echo[0] = 1.0
    return fftconvolve(samples, echo)[: len(samples)]


def _noise(length: int, sampling_rate: int, colour: float, rng: np.random.Generator) -> np.ndarray:
    """White (colour 0) to brown noise (1): above 100 Hz the amplitude falls as frequency to the power of `colour`."""
    frequency = np.fft.rfftfreq(length, 1 / sampling_rate)
    return np.fft.irfft(np.fft.rfft(rng.normal(size=length)) / np.maximum(frequency, 100) ** colour, length)
