"""Encode speech as embeddings: batches by seconds, bf16 where it is fast, long audio cut at
pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoFeatureExtractor

from ..data.speech import audio_length, audio_pieces, read_audio
from ..modeling import EchoAudioFeatureExtractor, EchoSpeechEncoder
from ..modeling.generation_echo import check_numbers
from ..modeling.modeling_echo_base import check_finite
from ..utils.bars import hidden
from ..utils.files import make_once
from ..utils.vectors import unit_length
from .encode import opening, pick_device, pick_dtype

MAX_SECONDS = {"cpu": 60.0}  # padded seconds of a batch; other devices take ten times as much
LONGEST = 30.0  # seconds that an encoder reads at once
GROUP = 2  # batches whose pieces are sorted by length


def is_speech(name: str | Path) -> bool:
    """Whether a checkpoint is a speech encoder."""
    try:
        with opening(name) as place:
            return AutoConfig.from_pretrained(place).model_type == "echo_speech"
    except (OSError, ValueError, KeyError):
        return False


def open_speech_encoder(
    name_or_path: str | Path, *, dtype: torch.dtype = torch.float32
) -> EchoSpeechEncoder:
    """The EchoSpeechEncoder of a folder or Hub name.

    Raises:
        FileNotFoundError: there is none. ValueError: a damaged checkpoint, or a model of another
            type.
    """
    with opening(name_or_path) as name:
        _check_type(name)
        return EchoSpeechEncoder.from_pretrained(name, dtype=dtype)


def open_extractor(name_or_path: str | Path) -> Any:
    """The feature extractor of a speech encoder; raises as `open_speech_encoder`."""
    with opening(name_or_path) as name:
        _check_type(name)
        return AutoFeatureExtractor.from_pretrained(name)


def _check_type(name: str) -> None:
    kind = AutoConfig.from_pretrained(name).model_type
    if kind != "echo_speech":
        raise ValueError(
            f"{name} is a model of type {kind!r}, not a speech encoder; hf-echo convert wav2vec2 makes one"
        )


def load_speech_encoder(
    name_or_path: str | Path, *, device: str | None = None, dtype: str = "auto"
) -> tuple[EchoSpeechEncoder, EchoAudioFeatureExtractor]:
    """Load (EchoSpeechEncoder, its feature extractor) from a folder or Hub name; arguments as in
    `load_encoder`."""
    place = pick_device(device)
    model = open_speech_encoder(name_or_path, dtype=pick_dtype(dtype, place))
    return model.to(place).eval(), open_extractor(name_or_path)


@torch.inference_mode()
def encode_speech(
    model: EchoSpeechEncoder,
    extractor: Any,
    audio: Iterable[Any],
    *,
    max_seconds: float | None = None,
    longest: float = LONGEST,
    on_long: str = "warn",
    normalize: bool = False,
    progress: bool = False,
    work: Path | None = None,
) -> np.ndarray:
    """Encode audio as sentence embeddings.

    Args:
        model, extractor: of `load_speech_encoder`.
        audio: paths, bytes of files, arrays at the extractor's rate, {"array", "sampling_rate"} or
            {"path", "bytes"}.
        max_seconds: padded seconds of a batch; None is 60 on a CPU and 600 elsewhere.
        longest: seconds that the model reads at once.
        on_long: of longer audio: "warn" truncates, "error" raises, "split" cuts at pauses and
            averages the embeddings of the pieces, weighted by their length.
        normalize: divide embeddings by their L2 norm.
        work: folder for the embeddings of batches, from which a stopped run with equal arguments
            continues.

    Returns:
        (len(audio), embedding_size) float32; row i is audio i.

    Raises:
        FileNotFoundError, ValueError: audio that is not there or not usable; longer audio with
            "error".
    """
    samples = isinstance(audio, np.ndarray) and audio.dtype != object
    if samples or isinstance(audio, (str, bytes, Path, dict, torch.Tensor)):
        raise ValueError("audio is one recording; give a list of recordings")
    audio = audio.tolist() if hasattr(audio, "tolist") else list(audio)
    check_numbers(max_seconds=max_seconds, longest=longest)
    rate = extractor.sampling_rate
    size = model.config.embedding_size
    budget = round((max_seconds or MAX_SECONDS.get(model.device.type, 600.0)) * rate)
    # All lengths first: a recording that is not there is refused before anything is encoded.
    lengths = [audio_length(item, rate, name=f"audio {row}") for row, item in enumerate(audio, 1)]
    sums = np.zeros((len(audio), size), np.float32)
    weight = np.zeros(len(audio), np.float32)
    bar = tqdm(
        total=round(sum(lengths) / rate), desc="Encoding", unit="s", disable=hidden(progress)
    )
    limit = round(longest * rate)
    steps = count()

    def embedded(read: Callable[[], list[np.ndarray]]) -> np.ndarray:
        if work is None:
            return _embed(model, extractor, read())
        file = work / f"{next(steps):06d}.npy"
        return np.load(make_once(file, lambda to: np.save(to, _embed(model, extractor, read()))))

    # Whole recordings of similar length share a batch.
    short = [row for row, length in enumerate(lengths) if length <= limit]
    for rows in seconds_batches([lengths[row] for row in short], budget):
        rows = [short[row] for row in rows]

        def read_rows(rows: list[int] = rows) -> list[np.ndarray]:
            return [read_audio(audio[row], rate, name=f"audio {row + 1}") for row in rows]

        sums[rows] = embedded(read_rows)
        weight[rows] = 1
        bar.update(round(sum(lengths[row] for row in rows) / rate))

    # Longer ones are cut; their embedding is the mean of the pieces', weighted by samples.
    for row, length in enumerate(lengths):
        if length <= limit:
            continue
        pieces = audio_pieces(
            audio[row], rate, longest=longest, on_long=on_long, name=f"audio {row + 1}"
        )
        for group in _groups(pieces, GROUP * budget):
            for batch in seconds_batches([len(piece) for piece in group], budget):
                batch_pieces = [group[number] for number in batch]
                share = np.array([len(piece) for piece in batch_pieces], np.float32)
                sums[row] += share @ embedded(partial(list, batch_pieces))
                weight[row] += share.sum()
            bar.update(round(sum(map(len, group)) / rate))
    bar.close()
    embeddings = sums / np.maximum(weight, 1e-12)[:, None]
    check_finite(torch.from_numpy(embeddings))
    if normalize:
        unit_length(embeddings, out=embeddings)
    return embeddings


def seconds_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of rows of similar length, longest first; rows times the longest stay within the
    budget, or one row."""
    # A batch costs its rows times its longest row, which is its first.
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or lengths[batches[-1][0]] * (len(batches[-1]) + 1) > budget:
            batches.append([])
        batches[-1].append(row)
    return batches


def _groups(pieces: Iterable[np.ndarray], samples: int) -> Iterator[list[np.ndarray]]:
    """Lists of pieces, each of about so many samples together."""
    group: list[np.ndarray] = []
    for piece in pieces:
        group.append(piece)
        if sum(map(len, group)) >= samples:
            yield group
            group = []
    if group:
        yield group


def _embed(model: EchoSpeechEncoder, extractor: Any, samples: list[np.ndarray]) -> np.ndarray:
    inputs = extractor(samples, return_tensors="pt").to(model.device)
    return model(**inputs).sentence_embedding.float().cpu().numpy()
