"""A speech encoder made of a pretrained audio model and a new attention pooling, which stage `speech` trains."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel

from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from .writing import converted, license_of_source


def write_speech_encoder(
    audio: PreTrainedModel,
    extractor: EchoAudioFeatureExtractor,
    out: str | Path,
    *,
    operation: str,
    source: str | Path,
    license: str | None,
    seed: int,
    **sizes: int,
) -> Path:
    """Write an EchoSpeechEncoder with `audio`; its pooling has random weights of `seed`.

    Args:
        operation: name of the conversion, for the lineage.
        source: what `audio` was read from, for the lineage; its README.md gives the license where `license` is None.
        sizes: embedding_size, pooler_layers and pooler_heads.
    """
    audio.config._name_or_path = ""  # of the folder on this machine
    torch.manual_seed(seed)
    inner = 4 * audio.config.hidden_size
    model = EchoSpeechEncoder(EchoSpeechConfig(audio_config=audio.config, pooler_intermediate_size=inner, **sizes))
    model.audio = audio
    values = {**sizes, "seed": seed, "license": license or license_of_source(source)}
    with converted(out, operation, values, source=source) as folder:
        model.save_pretrained(folder)
        extractor.save_pretrained(folder)
    return Path(out)
