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
    pooler_heads: int,
    embedding_size: int = 1024,
    pooler_layers: int = 3,
    license: str | None = None,
    seed: int = 0,
) -> Path:
    """Write an EchoSpeechEncoder with `audio`; its pooling has random weights of `seed`.

    Args:
        operation: name of the conversion, for the lineage.
        source: what `audio` was read from, for the lineage.
        embedding_size: of the sentence embedding: that of the text encoder whose space is to be learned.
        pooler_layers, pooler_heads: of the transformer decoder that pools the frames (OS 4.6: three layers).
        license: of the weights, for the card; None takes the one in the README.md of `source`.
    """
    sizes = dict(embedding_size=embedding_size, pooler_layers=pooler_layers, pooler_heads=pooler_heads)
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
