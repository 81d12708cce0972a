"""Speech as a training set: lengths in samples, sampling by source and language, batches.

Audio is decoded when a batch needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from tqdm.auto import tqdm

from ...utils.files import write_array
from ..sampling import repeated, two_step
from .audio import audio_length, read_audio


class SpeechRows(torch.utils.data.Dataset):
    """Map-style dataset of decoded audio: ``index, samples (n,), meaning``.

    Args:
        rows: a speech dataset.
        sampling_rate: in Hz, of the decoded audio.
        lengths: (rows,) samples of each row (`audio_lengths`).

    Attributes:
        meanings: (rows,) a number for each row; rows of one English sentence, or of one text
            without English, have the same.
    """

    def __init__(self, rows: Dataset, sampling_rate: int, lengths: np.ndarray):
        self.rows = rows
        self.sampling_rate = sampling_rate
        self.lengths = lengths
        # Recordings of one English sentence mean the same, in whatever language.
        english = rows["english"][:] if "english" in rows.column_names else [None] * len(rows)
        # a Column is read row by row
        texts = [translation or text for translation, text in zip(english, rows["text"][:])]
        self.meanings = pd.factorize(np.array(texts, object))[0]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        samples = read_audio(self.rows[index]["audio"], self.sampling_rate, name=f"row {index + 1}")
        return {"index": index, "samples": samples, "meaning": self.meanings[index]}

    @property
    def languages(self) -> list[str]:
        return sorted(set(self.rows["lang"]))


def audio_lengths(
    rows: Dataset, sampling_rate: int, cache_dir: str | Path | None = None
) -> np.ndarray:
    """(rows,) samples at `sampling_rate`, from the files' headers;
    with `cache_dir` they are read once."""
    file = Path(cache_dir or "") / f"audio-lengths-{rows._fingerprint}-{sampling_rate}.npy"
    if cache_dir is not None and file.exists():
        return np.load(file)
    recordings = tqdm(rows.select_columns("audio"), "Lengths of recordings", unit=" files", delay=2)
    lengths = np.zeros(len(rows), np.int64)
    for row, recording in enumerate(recordings):
        lengths[row] = audio_length(recording["audio"], sampling_rate, name=f"row {row + 1}")
    if cache_dir is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_array(file, lengths)
    return lengths


def sampled_rows(rows: Dataset, lengths: np.ndarray, exponent: float, seed: int) -> np.ndarray:
    """Row numbers so that source and language have the proportions of OS Eq. 1, by hours: about as
    many rows.

    A language of a source that gets more rows than it has is first repeated as a whole; the rest is
    drawn without replacement. Rows without `source` are one source.
    """
    sources = [""] * len(rows)
    if "source" in rows.column_names:
        sources = rows["source"]
    groups: dict[tuple[str, str], list[int]] = {}  # (source, language) -> numbers of its rows
    for number, (source, lang) in enumerate(zip(sources, rows["lang"], strict=True)):
        groups.setdefault((source or "", lang), []).append(number)
    # Shares by hours of speech, not by recordings.
    hours: dict[str, dict[str, float]] = {}
    for (source, lang), numbers in groups.items():
        hours.setdefault(source, {})[lang] = float(lengths[numbers].sum())
    shares = two_step(hours, exponent)

    total = float(lengths.sum())
    rng = np.random.default_rng(seed)
    picked = []
    for (source, lang), numbers in sorted(groups.items()):
        # As many recordings of this length as fill the hours of the group.
        hours_of_group = shares[source][lang] * total
        mean_length = lengths[numbers].mean()
        count = max(1, round(hours_of_group / mean_length))
        picked.append(repeated(np.array(numbers), count, rng))
    return rng.permutation(np.concatenate(picked))


class SpeechCollator:
    """Rows of `SpeechRows` -> the padded input of a speech encoder, by its feature extractor;
    `index` and `meaning`."""

    def __init__(self, extractor: Any):
        self.extractor = extractor

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        inputs = self.extractor([row["samples"] for row in rows], return_tensors="pt")
        name = self.extractor.model_input_names[0]
        return {
            name: inputs[name].float(),
            "attention_mask": inputs["attention_mask"].long(),
            "index": torch.tensor([row["index"] for row in rows]),
            "meaning": torch.tensor([row["meaning"] for row in rows]),
        }
