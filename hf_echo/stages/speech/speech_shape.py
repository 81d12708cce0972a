"""The shape of a new speech encoder: the fields of a recipe that set model and feature extractor,
and the size that a dry run reports."""

from __future__ import annotations

from typing import Any

import torch

from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...utils.did_you_mean import did_you_mean
from ..core.adapter import AdapterSettings
from ..core.model_shape import check_activations
from ..core.plan import count, count_learning, mark_what_learns, memory, put_adapter, with_total

OF_EXTRACTOR = ("features", "num_mel_bins", "stride")
OF_MODEL = (
    "audio_config",
    "embedding_size",
    "pooler_layers",
    "pooler_hidden_size",
    "pooler_heads",
    "pooler_intermediate_size",
    "pooler_dropout",
)
# by type of audio model; the others read samples
FEATURES = {"wav2vec2-bert": "log-mel", "whisper": "whisper"}


def new_config(shape: dict[str, Any]) -> EchoSpeechConfig:
    """Configuration of a new model.

    Args:
        shape: fields of EchoSpeechConfig; `audio_config` holds a `model_type` of transformers and
            its fields. Of the feature extractor: `features` (samples, log-mel or whisper),
            `num_mel_bins`, `stride`.

    Raises:
        ValueError: an unknown field, or values that do not fit together.
    """
    names = (*OF_MODEL, *OF_EXTRACTOR)
    for field in sorted(set(map(str, shape)) - set(names)):
        raise ValueError(f"unknown shape field {field!r}{did_you_mean(field, names)}")
    values = {key: value for key, value in shape.items() if key in OF_MODEL}
    # The first layer is as wide as what the extractor gives.
    extractor = new_extractor(shape)
    audio = values.get("audio_config")
    if isinstance(audio, dict) and extractor.features != "samples":
        name = "num_mel_bins"
        width = extractor.num_mel_bins
        formula = "num_mel_bins"
        if extractor.features == "log-mel":
            name = "feature_projection_input_dim"
            width = width * extractor.stride
            formula = "num_mel_bins * stride"
        if audio.setdefault(name, width) != width:
            raise ValueError(
                f"shape.audio_config.{name} is {audio[name]}, the extractor gives {formula} = {width}"
            )
    try:
        return EchoSpeechConfig(**values)
    except Exception as error:
        # transformers and huggingface_hub check types, each with errors of its own.
        raise ValueError(f"shape: {' '.join(str(error).splitlines()[-1].split())}") from None


def new_extractor(shape: dict[str, Any]) -> EchoAudioFeatureExtractor:
    options = {name: shape[name] for name in OF_EXTRACTOR if name in shape}
    audio = shape.get("audio_config")
    if isinstance(audio, dict):
        options.setdefault("features", FEATURES.get(audio.get("model_type"), "samples"))
    return EchoAudioFeatureExtractor(**{"features": "samples"} | options)


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


def size(
    config: EchoSpeechConfig, args: Any, adapter: AdapterSettings | None = None
) -> dict[str, Any]:
    """Parameters by part, seconds of audio and memory of weights, gradients and AdamW."""
    with torch.device("meta"):
        model = EchoSpeechEncoder(config)
    parameters = {name: count(part) for name, part in model.named_children()}
    mark_what_learns(model, model, args.freeze)
    in_4_bits = 0
    if adapter is not None:
        in_4_bits = put_adapter(model, adapter, "encoder")
        parameters["adapter"] = count(model) - sum(parameters.values())
    seconds = args.max_seconds * args.world_size * args.gradient_accumulation_steps
    return {
        "parameters": with_total(parameters),
        "batches": {"seconds per device": args.max_seconds, "hours per step": seconds / 3600},
        "memory_gib": memory(count(model), count_learning(model), in_4_bits=in_4_bits),
    }
