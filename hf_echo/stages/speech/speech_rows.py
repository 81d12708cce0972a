"""Data, dev sets and feature extractor of the stage `speech`;
the training itself is in `speech_stage.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from datasets import Dataset
from pandas import DataFrame

from ...data.speech import load_speech, refuse_kept
from ...data.speech.batches import SpeechRows, audio_lengths, sampled_rows
from ...evaluation.retrieval.xsim import text_groups, xsim
from ...inference.any_encoder import any_encoder
from ...inference.embedding_store import frozen_embeddings
from ...inference.encode_speech import open_extractor
from ...languages import ENGLISH
from ...modeling import EchoAudioFeatureExtractor
from ...utils.fingerprint import fingerprint
from ...utils.results import Table
from ...utils.speech_data import MAX_VOICES
from ..core.arguments import DataArguments, ModelArguments
from ..core.text_pairs import load_with
from .speech_shape import new_extractor

RATE = 16_000  # samples a second, in which lengths are counted


@dataclass
class SpeechDev:
    """Speech to measure on, with the teacher's embeddings of its texts."""

    rows: Dataset
    teacher: str
    cache_dir: str

    @cached_property
    def texts(self) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
        """(rows, d) of the transcriptions and of the English
        (the transcription where there is none); the texts."""
        texts = teacher_texts(self.rows)
        key = f"{self.teacher} {fingerprint(self.teacher)}"
        sides = frozen_embeddings(texts, any_encoder(self.teacher), key, self.cache_dir)
        transcribed, english = (side[np.arange(len(self.rows))] for side in sides)
        return transcribed, english, texts["source"], texts["target"]


def speech_table(speech: np.ndarray, dev: SpeechDev) -> Table:
    """By language: rows, mse to the transcription, xsim to the transcriptions and to the English
    texts (percent).

    Equal texts are not errors of each other.

    Args:
        speech: (rows, d) embeddings of the audio.
    """
    transcribed, english, texts, english_texts = dev.texts
    codes = np.array(dev.rows["lang"])
    distances = np.square(speech - transcribed).sum(1)
    rows = []
    for lang in sorted(set(codes.tolist())):
        places = np.flatnonzero(codes == lang)
        rows.append(
            {
                "lang": lang,
                "rows": len(places),
                "mse": float(distances[places].mean()),
                "xsim": _error_rate(speech, transcribed, texts, places),
                "xsim_english": _error_rate(speech, english, english_texts, places),
            }
        )
    return Table(rows).with_average(("mse", "xsim", "xsim_english"))


def _error_rate(
    speech: np.ndarray, vectors: np.ndarray, texts: list[str], places: np.ndarray
) -> float | None:
    """xsim of these rows; None of one row, which has no neighbour.
    Equal texts are equally right."""
    if len(places) < 2:
        return None
    gold = text_groups([texts[place] for place in places])
    return xsim(speech[places], vectors[places], gold=gold).error_rate


def load(data: DataArguments) -> Dataset:
    if not data.train_data:
        raise ValueError(
            "train_data is missing: a table of audio paths and texts, a folder, or a Hub name"
        )
    rows = load_with(load_speech, data.train_data, data.data_options)
    refuse_kept(rows, f"train_data {data.train_data}")
    return rows


def load_dev(data: DataArguments) -> dict[str, SpeechDev]:
    """`dev_data`: {name: speech data, or a mapping of `load_speech` arguments with `path`}."""
    sets = {}
    for name, source in data.dev_data.items():
        options = dict(source) if isinstance(source, dict) else {"path": source}
        path = options.pop("path", None)
        if not path:
            raise ValueError(f"dev_data.{name} names no path: give a table, a folder or a Hub name")
        sets[name] = SpeechDev(load_speech(path, **options), data.teacher, data.cache_dir)
    return sets


def teacher_texts(rows: Dataset) -> Dataset:
    """What the teacher reads: source is the transcription, target its English,
    or the transcription without one."""
    # lists: from_dict reads a Column one row at a time
    targets = rows["text"][:]
    target_langs = rows["lang"][:]
    if "english" in rows.column_names:
        for row, english in enumerate(rows["english"][:]):
            if english:
                targets[row] = english
                target_langs[row] = ENGLISH
    return Dataset.from_dict(
        {
            "source": rows["text"][:],
            "source_lang": rows["lang"][:],
            "target": targets,
            "target_lang": target_langs,
        }
    )


def processor(model_args: ModelArguments, resume: str | None) -> EchoAudioFeatureExtractor:
    name = resume or model_args.model_name_or_path
    if name:
        return open_extractor(name)
    return new_extractor(model_args.shape)


def selected(dataset: Dataset, data_args: DataArguments, config: Any) -> Dataset:
    """Rows of at most `longest` seconds, drawn by OS Eq.
    1 where the recipe has a `sampling_exponent`."""
    lengths = audio_lengths(dataset, RATE, data_args.cache_dir)
    kept = np.flatnonzero(lengths <= config.longest * RATE)
    if not len(kept):
        raise ValueError(
            f"longest={config.longest:g}: all {len(dataset)} audios are longer (seconds)"
        )
    if len(kept) < len(dataset):
        dataset = dataset.select(kept)
        lengths = lengths[kept]
    # OS Eq. 1 sees the audio that is left, not what was too long.
    if config.sampling_exponent is None:
        return dataset
    return dataset.select(sampled_rows(dataset, lengths, config.sampling_exponent, config.seed))


def prepare(
    rows: Dataset, extractor: EchoAudioFeatureExtractor, data_args: DataArguments
) -> SpeechRows:
    rate = extractor.sampling_rate
    return SpeechRows(rows, rate, audio_lengths(rows, rate, data_args.cache_dir))


def data_table(rows: Dataset, seconds: np.ndarray) -> dict[str, Any]:
    """What a card says about the data: recordings, hours and voices by language and source; names
    of the voices.

    Rows that sampling repeats count once.
    """
    table = DataFrame({"path": [row["path"] or row["bytes"] for row in rows["audio"]]})
    table["hours"] = seconds / 3600
    for name in ("lang", "source", "speaker"):
        table[name] = rows[name][:] if name in rows.column_names else ""
    table = table.fillna("")
    # A recording can have several rows: its hours count once.
    counts = []
    for (lang, source), group in table.groupby(["lang", "source"]):
        recordings = group.drop_duplicates("path")
        counts.append(
            {
                "lang": lang,
                "source": source,
                "voices": len({*group.speaker} - {""}),
                "recordings": len(recordings),
                "hours": float(recordings.hours.sum()),
            }
        )
    voices = table[table.speaker != ""].groupby("source").speaker.unique()
    names = {source: sorted(speakers)[:MAX_VOICES] for source, speakers in voices.items()}
    return {"rows": counts, "voices": names}
