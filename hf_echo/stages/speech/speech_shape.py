"""The shape of a new speech encoder: the fields of a recipe that set model and feature extractor,
and the size that a dry run reports."""

from __future__ import annotations

import logging
import math
import re
from typing import Any

import torch
from torch import nn

from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...modeling.configuration_echo_speech import CONFORMER, WHISPER
from ...utils.did_you_mean import did_you_mean
from ...utils.files import first_line
from ..core.adapter import AdapterSettings
from ..core.base import freeze_named
from ..core.kept_memory import kept_bytes
from ..core.model_shape import check_activations
from ..core.plan import count, count_learning, memory, put_adapter, with_total

logger = logging.getLogger(__name__)

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


def freeze_layers(model: EchoSpeechEncoder, frozen_layers: int) -> None:
    """Set `requires_grad` of the audio model: its first layers, and what is before them, stay; with
    -1 all of it does."""
    for name, parameter in model.audio.named_parameters():
        learns = frozen_layers == 0
        if frozen_layers > 0:
            learns = layer_of(name) >= frozen_layers
        # no loss reads masked_spec_embed where transformers' SpecAugment is off
        parameter.requires_grad_(learns and not name.endswith("masked_spec_embed"))


def layer_of(name: str) -> int:
    """Number of the layer that a parameter of an audio model belongs to; -1: of none."""
    match = re.search(r"(?:^|\.)layers\.(\d+)\.", name)
    return int(match[1]) if match else -1


def size(
    config: EchoSpeechConfig, args: Any, adapter: AdapterSettings | None = None
) -> dict[str, Any]:
    """Parameters by part, seconds of audio and memory of a step."""
    with torch.device("meta"):
        model = EchoSpeechEncoder(config)
    parameters = {name: count(part) for name, part in model.named_children()}
    # As the trainer does.
    freeze_layers(model, args.frozen_layers)
    if args.freeze:
        freeze_named(model, args.freeze)
    in_4_bits = 0
    if adapter is not None:
        in_4_bits = put_adapter(model, adapter, "encoder")
        parameters["adapter"] = count(model) - sum(parameters.values())
    seconds = args.max_seconds * args.world_size * args.gradient_accumulation_steps
    of_one_device = memory(
        count(model), count_learning(model), kept_of_audio(model, args), in_4_bits
    )
    return {
        "parameters": with_total(parameters),
        "batches": {"seconds per device": args.max_seconds, "hours per step": seconds / 3600},
        "memory_gib": of_one_device,
    }


def kept_of_audio(model: EchoSpeechEncoder, args: Any) -> float:
    """Bytes that a batch of the longest recordings keeps for the backward pass, of a model on
    "meta", which is not usable behind this; 0 where nobody can say.

    As on a GPU: attention of transformers' fast kind keeps no scores.
    """
    seconds = args.max_seconds
    if args.max_rows is not None:
        seconds = min(seconds, args.max_rows * args.longest)
    rows = math.ceil(seconds / args.longest)
    audio: Any = model.audio.train()
    # These look at random numbers, to leave layers or frames out.
    for module in audio.modules():
        if any(isinstance(part, nn.ModuleList) for part in module.children()):
            module.training = False
    audio.training = False
    for module in audio.modules():
        is_attention = type(module).__name__.endswith("Attention")
        if is_attention and isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0

    def forward() -> torch.Tensor:
        frames = audio(_silence(audio.config, rows, seconds / rows)).last_hidden_state
        mask = torch.ones(frames.shape[:2], dtype=torch.bool)
        return model.projection(model.pooler(frames, mask).float())

    try:
        return kept_bytes(
            model,
            forward,
            is_half=args.bf16 or args.fp16,
            is_checkpointed=args.gradient_checkpointing,
        )
    except RuntimeError as error:  # it looks at values
        logger.warning("no memory of activations is computed: %s", first_line(error))
        return 0.0


def _silence(audio: Any, rows: int, seconds: float) -> torch.Tensor:
    """(rows, samples) or (rows, frames, features): what an audio model of this configuration reads
    of so many seconds. A log-mel frame is of 10 ms and 80 features, some of them joined to one."""
    if audio.model_type not in FEATURES and audio.model_type != CONFORMER:
        return torch.zeros(rows, round(16_000 * seconds))
    if audio.model_type == WHISPER:
        frames = min(round(100 * seconds), 2 * audio.max_source_positions)
        return torch.zeros(rows, frames, audio.num_mel_bins)
    width = audio.feature_projection_input_dim
    joined = max(width // 80, 2)
    return torch.zeros(rows, round(100 * seconds / joined), width)
