"""Data, dev sets, feature extractor and shape of the stage `speech`; the training itself is in `speech_stage.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from pandas import DataFrame

from ...data.speech import load_speech, refuse_kept
from ...data.speech.batches import SpeechRows, audio_lengths, sampled_rows
from ...evaluation.retrieval.xsim import text_groups, xsim
from ...inference.any_encoder import any_encoder
from ...inference.embedding_store import frozen_embeddings
from ...inference.encode_speech import open_extractor
from ...languages import ENGLISH
from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...utils.did_you_mean import did_you_mean
from ...utils.fingerprint import fingerprint
from ...utils.results import Table
from ...utils.speech_data import MAX_VOICES
from ..core.arguments import DataArguments, ModelArguments
from ..core.model_shape import check_activations
from ..core.plan import Start, count, memory, start_or_shape, with_total
from ..core.text_pairs import load_with

RATE = 16_000  # samples a second, in which lengths are counted
OF_EXTRACTOR = ("features", "num_mel_bins", "stride")
OF_MODEL = (
    *("audio_config", "embedding_size", "pooler_layers", "pooler_hidden_size", "pooler_heads"),
    *("pooler_intermediate_size", "pooler_dropout"),
)
# by type of audio model; the others read samples
FEATURES = {
    "wav2vec2-bert": "log-mel",
    "whisper": "whisper",
}


@dataclass
class SpeechDev:
    """Speech to measure on, with the teacher's embeddings of its texts."""

    rows: Dataset
    teacher: str
    cache_dir: str

    @cached_property
    def texts(self) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
        """(rows, d) of the transcriptions and of the English (the transcription where there is none); the texts."""
        texts = teacher_texts(self.rows)
        key = f"{self.teacher} {fingerprint(self.teacher)}"
        sides = frozen_embeddings(texts, any_encoder(self.teacher), key, self.cache_dir)
        own, english = (side[np.arange(len(self.rows))] for side in sides)
        return own, english, texts["source"], texts["target"]


def speech_table(speech: np.ndarray, dev: SpeechDev) -> Table:
    """By language: rows, mse to the transcription, xsim to the transcriptions and to the English texts (percent).

    Equal texts are not errors of each other.

    Args:
        speech: (rows, d) embeddings of the audio.
    """
    text, english, texts, english_texts = dev.texts
    codes = np.array(dev.rows["lang"])
    distance = np.square(speech - text).sum(1)
    rows = []
    for lang in sorted(set(codes.tolist())):
        own = np.flatnonzero(codes == lang)
        row: dict[str, Any] = {"lang": lang, "rows": len(own), "mse": float(distance[own].mean())}
        for name, vectors, words in (
            ("xsim", text, texts),
            ("xsim_english", english, english_texts),
        ):
            # Equal texts are equally right; one row alone has no neighbour.
            gold = text_groups([words[i] for i in own])
            row[name] = (
                xsim(speech[own], vectors[own], gold=gold).error_rate if len(own) > 1 else None
            )
        rows.append(row)
    return Table(rows).with_average(("mse", "xsim", "xsim_english"))


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
    for name, given in data.dev_data.items():
        options = dict(given) if isinstance(given, dict) else {"path": given}
        path = options.pop("path", None)
        if not path:
            raise ValueError(f"dev_data.{name} names no path: give a table, a folder or a Hub name")
        sets[name] = SpeechDev(load_speech(path, **options), data.teacher, data.cache_dir)
    return sets


def teacher_texts(rows: Dataset) -> Dataset:
    """What the teacher reads: source is the transcription, target its English, or the transcription without one."""
    english = rows["english"] if "english" in rows.column_names else [None] * len(rows)
    # lists: from_dict reads a Column one row at a time
    text = rows["text"][:]
    lang = rows["lang"][:]
    target = [
        (en, ENGLISH) if en else (own, code)
        for en, own, code in zip(english, text, lang, strict=True)
    ]
    texts, codes = map(list, zip(*target, strict=True))
    return Dataset.from_dict(
        {"source": text, "source_lang": lang, "target": texts, "target_lang": codes}
    )


def processor(model_args: ModelArguments, resume: str | None) -> EchoAudioFeatureExtractor:
    name = resume or model_args.model_name_or_path
    if name:
        return open_extractor(name)
    return new_extractor(model_args.shape)


def selected(dataset: Dataset, data_args: DataArguments, config: Any) -> Dataset:
    """Rows of at most `longest` seconds, drawn by OS Eq. 1 where the recipe has a `sampling_exponent`."""
    lengths = audio_lengths(dataset, RATE, data_args.cache_dir)
    kept = np.flatnonzero(lengths <= config.longest * RATE)
    if not len(kept):
        raise ValueError(
            f"longest={config.longest:g}: all {len(dataset)} audios are longer (seconds)"
        )
    if len(kept) < len(dataset):
        dataset = dataset.select(kept)
        lengths = lengths[kept]
    if config.sampling_exponent is None:
        return dataset
    return dataset.select(sampled_rows(dataset, lengths, config.sampling_exponent, config.seed))


def prepare(
    rows: Dataset, extractor: EchoAudioFeatureExtractor, data_args: DataArguments
) -> SpeechRows:
    rate = extractor.sampling_rate
    return SpeechRows(rows, rate, audio_lengths(rows, rate, data_args.cache_dir))


def data_table(rows: Dataset, seconds: np.ndarray) -> dict[str, Any]:
    """What a card says about the data: recordings, hours and voices by language and source; names of the voices.

    Rows that sampling repeats count once.
    """
    names = {
        name: rows[name][:] if name in rows.column_names else ""
        for name in ("lang", "source", "speaker")
    }
    paths = [row["path"] or row["bytes"] for row in rows["audio"]]
    table = DataFrame(names | {"path": paths, "hours": seconds / 3600}).fillna("")
    voices = table[table.speaker != ""].groupby("source").speaker.unique()
    # A recording can have several rows: its hours count once.
    counted = [
        {
            "lang": lang,
            "source": source,
            "voices": len({*own.speaker} - {""}),
            "recordings": own.path.nunique(),
        }
        | {"hours": float(own.drop_duplicates("path").hours.sum())}
        for (lang, source), own in table.groupby(["lang", "source"])
    ]
    return {
        "rows": counted,
        "voices": {source: sorted(own)[:MAX_VOICES] for source, own in voices.items()},
    }


def new_config(shape: dict[str, Any]) -> EchoSpeechConfig:
    """Configuration of a new model.

    Args:
        shape: fields of EchoSpeechConfig; `audio_config` holds a `model_type` of transformers and its fields. Of the
            feature extractor: `features` (samples, log-mel or whisper), `num_mel_bins`, `stride`.

    Raises:
        ValueError: an unknown field, or values that do not fit together.
    """
    known = (*OF_MODEL, *OF_EXTRACTOR)
    for field in sorted(set(map(str, shape)) - set(known)):
        raise ValueError(f"unknown shape field {field!r}{did_you_mean(field, known)}")
    values = {key: value for key, value in shape.items() if key in OF_MODEL}
    extractor = new_extractor(shape)
    audio = values.get("audio_config")
    if isinstance(audio, dict) and extractor.features != "samples":
        name = "num_mel_bins"
        width = extractor.num_mel_bins
        of = "num_mel_bins"
        if extractor.features == "log-mel":
            name = "feature_projection_input_dim"
            width = width * extractor.stride
            of = "num_mel_bins * stride"
        if audio.setdefault(name, width) != width:
            raise ValueError(
                f"shape.audio_config.{name} is {audio[name]}, the extractor gives {of} = {width}"
            )
    try:
        return EchoSpeechConfig(**values)
    except (
        Exception
    ) as error:  # transformers and huggingface_hub check types, each with errors of its own
        raise ValueError(f"shape: {' '.join(str(error).splitlines()[-1].split())}") from None


def new_extractor(shape: dict[str, Any]) -> EchoAudioFeatureExtractor:
    audio = shape.get("audio_config")
    of_type = FEATURES.get(audio.get("model_type") if isinstance(audio, dict) else None, "samples")
    return EchoAudioFeatureExtractor(
        **{"features": of_type} | {k: shape[k] for k in OF_EXTRACTOR if k in shape}
    )


def check_shape(shape: dict[str, Any]) -> None:
    """Raises ValueError (one line) where no model can have this shape."""
    audio = shape.get("audio_config")
    if isinstance(audio, dict):
        check_activations(audio, "shape.audio_config")
    with torch.device("meta"):
        try:
            EchoSpeechEncoder(new_config(shape))
        except (TypeError, RuntimeError, AttributeError, AssertionError) as error:
            raise ValueError(f"shape: {' '.join(str(error).split())}") from None


def plan(model_args: ModelArguments, start: Start) -> EchoSpeechConfig | None:
    return start_or_shape(
        model_args, start, lambda: new_config(model_args.shape), (EchoSpeechConfig,)
    )


def size(config: EchoSpeechConfig, args: Any) -> dict[str, Any]:
    """Parameters by part, seconds of audio and memory of weights, gradients and AdamW."""
    with torch.device("meta"):
        model = EchoSpeechEncoder(config)
    parameters = with_total({name: count(part) for name, part in model.named_children()})
    seconds = args.max_seconds * args.world_size * args.gradient_accumulation_steps
    return {
        "parameters": parameters,
        "batches": {"seconds per device": args.max_seconds, "hours per step": seconds / 3600},
        "memory_gib": memory(parameters["total"], parameters["total"]),
    }
