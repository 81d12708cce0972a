"""Speech as a training set: lengths in samples, sampling by source and language, characters, batches with augmentation.

A dataset here is that of `hf_echo.data.speech`: audio (not decoded), text, lang, and optionally english and source.
Audio is decoded when a batch needs it. What is drawn at random depends on the seed, the epoch and the row alone, so a
resumed run and a run on more processes hear the same.
"""

from __future__ import annotations

import hashlib
import io
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from tqdm.auto import tqdm

from ...utils.files import write_array
from ..batching import TokenBudgetBatchSampler
from ..sampling import two_step
from .audio import read_audio
from .augment import change_speed, draw_speed, mask_features, warp_frequencies

MOST_CHARACTERS = 512  # outputs of a CTC head: of writing systems with thousands of characters, the frequent ones


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
        self.meanings = np.array([_number(text) for text in texts], np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Row `number` modulo the number of rows; the quotient is the epoch (`EpochSampler`)."""
        epoch, index = divmod(number, len(self.rows))
        row = self.rows[index]
        samples = read_audio(row["audio"], self.sampling_rate, name=f"row {index + 1}")
        return {
            "index": index,
            "epoch": epoch,
            "samples": samples,
            "text": row["text"],
            "lang": row["lang"],
            "label": row[self.labels] or "",
            "meaning": self.meanings[index],
        }

    @property
    def languages(self) -> list[str]:
        return sorted(set(self.rows["lang"]))


def _number(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


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
    file = None
    if cache_dir is not None:
        file = Path(cache_dir) / f"audio-lengths-{rows._fingerprint}-{sampling_rate}.npy"
        if file.exists():
            return np.load(file)
    numbered = enumerate(tqdm(rows.select_columns("audio"), "Lengths of recordings", unit=" files", delay=2), 1)
    lengths = np.fromiter(
        (audio_length(row["audio"], sampling_rate, name=f"row {number}") for number, row in numbered), np.int64
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_array(file, lengths)
    return lengths


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


def sampled_rows(rows: Dataset, lengths: np.ndarray, exponent: float, seed: int) -> np.ndarray:
    """Row numbers so that source and language have the proportions of OS Eq. 1, by hours: about as many rows.

    A language of a source that gets more rows than it has is first repeated as a whole; the rest is drawn without
    replacement. Rows without `source` are one source.
    """
    langs = rows["lang"]
    sources = rows["source"] if "source" in rows.column_names else [""] * len(rows)
    names = [(source or "", lang) for source, lang in zip(sources, langs, strict=True)]
    of_row: dict[tuple[str, str], list[int]] = {}
    for number, name in enumerate(names):
        of_row.setdefault(name, []).append(number)
    hours: dict[str, dict[str, float]] = {}
    for (source, lang), own in of_row.items():
        hours.setdefault(source, {})[lang] = float(lengths[own].sum())
    shares, total, rng, picked = two_step(hours, exponent), float(lengths.sum()), np.random.default_rng(seed), []
    for source, lang in sorted(of_row):
        own = np.array(of_row[source, lang])
        wanted = max(1, round(shares[source][lang] * total / lengths[own].mean()))
        whole, rest = divmod(wanted, len(own))
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
        samples = [change_speed(row["samples"], draw_speed(self.speeds, rng)) for row, rng in zip(rows, rngs)]
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
