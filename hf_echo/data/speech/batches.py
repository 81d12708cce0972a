"""Speech as a training set: lengths in samples, sampling by source and language, characters, batches with augmentation.

A dataset here is that of `hf_echo.data.speech`: audio (not decoded), text, lang, and optionally english and source.
Audio is decoded when a batch needs it. What is drawn at random depends on the seed, the epoch and the row alone, so a
resumed run and a run on more processes hear the same.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from tqdm.auto import tqdm
from transformers.audio_utils import hertz_to_mel, mel_to_hertz

from ...utils.files import write_array
from ..batching import TokenBudgetBatchSampler
from ..sampling import two_step
from .audio import audio_length, read_audio, resampled

MOST_CHARACTERS = 512  # outputs of a CTC head: of writing systems with thousands of characters, the frequent ones

WIDEST_TIME = 0.1  # share of the frames under one mask of time, at most
WIDEST_FREQUENCY = 0.3  # share of the mel bins under one mask of frequency, at most
LOWEST = 20.0  # Hz, of the mel filters of transformers' log-mel extractor; the highest is half the sampling rate
WARPED = 0.6  # share of the highest frequency; above it the warp goes back to the identity


class SpeechRows(torch.utils.data.Dataset):
    """Map-style dataset of decoded audio: ``index, epoch, samples (n,), text, lang, meaning``.

    Args:
        rows: a speech dataset.
        sampling_rate: in Hz, of the decoded audio.
        lengths: (rows,) samples of each row (`audio_lengths`).
        labels: column of what CTC learns, "text" or "phonemes".

    Attributes:
        meanings: (rows,) a number for each row; rows of one English sentence, or of one text without English, have the
            same.
    """

    def __init__(self, rows: Dataset, sampling_rate: int, lengths: np.ndarray, labels: str = "text"):
        self.rows, self.sampling_rate, self.lengths, self.labels = rows, sampling_rate, lengths, labels
        english = rows["english"][:] if "english" in rows.column_names else [None] * len(rows)
        texts = [en or own for en, own in zip(english, rows["text"][:], strict=True)]  # a Column is read row by row
        numbers: dict[str, int] = {}
        self.meanings = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Row `number` modulo the number of rows; the quotient is the epoch (`EpochSampler`)."""
        epoch, index = divmod(number, len(self.rows))
        row = self.rows[index]
        samples = read_audio(row["audio"], self.sampling_rate, name=f"row {index + 1}")
        drawn = {"index": index, "epoch": epoch, "samples": samples, "meaning": self.meanings[index]}
        return drawn | {"text": row["text"], "lang": row["lang"], "label": row[self.labels] or ""}

    @property
    def languages(self) -> list[str]:
        return sorted(set(self.rows["lang"]))


class EpochSampler(Sampler[list[int]]):
    """Batches of another sampler, whose numbers also say the epoch: number + epoch * rows."""

    def __init__(self, batches: TokenBudgetBatchSampler, rows: int):
        self.batches, self.rows = batches, rows

    def __len__(self) -> int:
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        self.batches.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield [number + self.batches.epoch * self.rows for number in batch]


def audio_lengths(rows: Dataset, sampling_rate: int, cache_dir: str | Path | None = None) -> np.ndarray:
    """(rows,) samples at `sampling_rate`, from the files' headers; with `cache_dir` they are read once.

    Raises:
        FileNotFoundError, ValueError: audio that is not there or cannot be read (with its row or path).
    """
    file = Path(cache_dir or "") / f"audio-lengths-{rows._fingerprint}-{sampling_rate}.npy"
    if cache_dir is not None and file.exists():
        return np.load(file)
    numbered = enumerate(tqdm(rows.select_columns("audio"), "Lengths of recordings", unit=" files", delay=2), 1)
    lengths = np.fromiter(
        (audio_length(row["audio"], sampling_rate, name=f"row {number}") for number, row in numbered), np.int64
    )
    if cache_dir is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_array(file, lengths)
    return lengths


def sampled_rows(rows: Dataset, lengths: np.ndarray, exponent: float, seed: int) -> np.ndarray:
    """Row numbers so that source and language have the proportions of OS Eq. 1, by hours: about as many rows.

    A language of a source that gets more rows than it has is first repeated as a whole; the rest is drawn without
    replacement. Rows without `source` are one source.
    """
    sources = rows["source"] if "source" in rows.column_names else [""] * len(rows)
    of_row: dict[tuple[str, str], list[int]] = {}
    for number, (source, lang) in enumerate(zip(sources, rows["lang"], strict=True)):
        of_row.setdefault((source or "", lang), []).append(number)
    hours: dict[str, dict[str, float]] = {}
    for (source, lang), own in of_row.items():
        hours.setdefault(source, {})[lang] = float(lengths[own].sum())
    shares, total, rng, picked = two_step(hours, exponent), float(lengths.sum()), np.random.default_rng(seed), []
    for (source, lang), own in sorted(of_row.items()):
        whole, rest = divmod(max(1, round(shares[source][lang] * total / lengths[own].mean())), len(own))
        picked += [np.tile(own, whole), rng.permutation(own)[:rest]]
    return rng.permutation(np.concatenate(picked))


def spoken_characters(text: str) -> str:
    """What a CTC head learns to write: lower case, without punctuation and symbols, one space between words."""
    kept = (c if unicodedata.category(c)[0] in "LMN" or c == "'" else " " for c in unicodedata.normalize("NFKC", text))
    return " ".join("".join(kept).lower().split())


def characters_of(texts: Iterable[str], most: int = MOST_CHARACTERS) -> str:
    """The most frequent characters of `spoken_characters`, in the order of their code points."""
    counts = Counter(c for text in texts for c in spoken_characters(text))
    return "".join(sorted(c for c, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]))


def change_speed(samples: np.ndarray, factor: float) -> np.ndarray:
    """Samples (n,) played `factor` times as fast: (about n / factor,); the pitch changes too (Ko et al. 2015)."""
    return resampled(samples, 1_000 * factor, 1_000)


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


@dataclass
class SpeechCollator:
    """Rows of `SpeechRows` -> the padded input of a speech encoder, `index`, `meaning`, and labels of a CTC head.

    Args:
        extractor: an EchoAudioFeatureExtractor.
        characters: of the CTC head; None: no labels.
        speeds: factors of speed perturbation, one drawn for each row and epoch; empty: none.
        time_masks, frequency_masks: of SpecAugment, for each row.
        vocal_tract: largest relative change of the frequencies of a row (VTLP); log-mel only.
    """

    extractor: Any
    characters: str | None = None
    speeds: Sequence[float] = ()
    time_masks: int = 0
    frequency_masks: int = 0
    vocal_tract: float = 0.0
    seed: int = 0
    _numbers: dict[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        self._numbers = {c: i for i, c in enumerate(self.characters or "", 1)}

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rngs = [np.random.default_rng([self.seed, row["epoch"], row["index"]]) for row in rows]
        samples = [change_speed(row["samples"], rng.choice(self.speeds or [1.0])) for row, rng in zip(rows, rngs)]
        inputs = self.extractor(samples, return_tensors="np")
        audio, mask = np.array(inputs[self.extractor.model_input_names[0]], np.float32), inputs["attention_mask"]
        bins = self.extractor.num_mel_bins if audio.ndim == 3 else 0
        if self.vocal_tract and bins:
            for number, rng in enumerate(rngs):
                factor = rng.uniform(1 - self.vocal_tract, 1 + self.vocal_tract)
                audio[number] = warp_frequencies(audio[number], factor, bins, self.extractor.sampling_rate)
        if self.time_masks or self.frequency_masks:
            options = dict(time_masks=self.time_masks, frequency_masks=self.frequency_masks, bins=bins)
            for number, rng in enumerate(rngs):
                mask_features(audio[number], int(mask[number].sum()), rng, **options)
        batch = {
            self.extractor.model_input_names[0]: torch.from_numpy(audio),
            "attention_mask": torch.from_numpy(np.asarray(mask, np.int64)),
            "index": torch.tensor([row["index"] for row in rows]),
            "meaning": torch.tensor([row["meaning"] for row in rows]),
        }
        return batch | (self.labels([row["label"] for row in rows]) if self.characters else {})

    def labels(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """`labels` (n, most) and `label_lengths` (n,); characters that the head does not know are left out."""
        known = [[self._numbers[c] for c in spoken_characters(text) if c in self._numbers] for text in texts]
        labels = torch.zeros(len(known), max(1, *map(len, known)), dtype=torch.long)
        for line, numbers in zip(labels, known, strict=True):
            line[: len(numbers)] = torch.tensor(numbers)
        return {"labels": labels, "label_lengths": torch.tensor([len(numbers) for numbers in known])}
