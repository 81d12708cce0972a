"""A speech encoder made of a pretrained audio model and a new attention pooling, which stage `speech` trains."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel

from ...cards.model_card import write_checkpoint_card
from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...utils.folders import write_folder
from ...utils.lineage import write_lineage


def write_speech_encoder(
    audio: PreTrainedModel,
    extractor: EchoAudioFeatureExtractor,
    out: str | Path,
    *,
    operation: str,
    source: str | Path,
    embedding_size: int,
    pooler_layers: int,
    pooler_heads: int,
    license: str | None,
    seed: int,
) -> Path:
    """Write an EchoSpeechEncoder with `audio`; its pooling has random weights of `seed`.

    Args:
        operation: name of the conversion, for the lineage.
        source: what `audio` was read from, for the lineage.
    """
    audio.config._name_or_path = ""  # of the folder on this machine
    torch.manual_seed(seed)
    config = EchoSpeechConfig(
        audio_config=audio.config,
        embedding_size=embedding_size,
        pooler_layers=pooler_layers,
        pooler_heads=pooler_heads,
        pooler_intermediate_size=4 * audio.config.hidden_size,
    )
    model = EchoSpeechEncoder(config)
    model.audio = audio
    with write_folder(out) as folder:
        model.save_pretrained(folder)
        extractor.save_pretrained(folder)
        settings = {"embedding_size": embedding_size, "pooler_layers": pooler_layers, "pooler_heads": pooler_heads}
        settings |= {"seed": seed, "license": license}
        write_lineage(folder, operation, settings, parents={"source": source}, output_dir=out)
        write_checkpoint_card(folder)
    return Path(out)
