"""The folder of a converted model: written whole, with its lineage and its card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ...cards.model_card import write_checkpoint_card
from ...cards.stamp import license_of
from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage

SONAR_LICENSE = "cc-by-nc-4.0"  # of SONAR's text and speech encoders and of BLASER


@contextmanager
def converted(
    out: str | Path, operation: str, values: Mapping[str, Any], **parents: str | Path | None
) -> Iterator[Path]:
    """Gives an empty folder, which becomes `out`, with lineage and card, when the block ends;
    `parents` by role."""
    with write_folder(out) as folder:
        yield folder
        named_parents = {role: name for role, name in parents.items() if name is not None}
        write_lineage(folder, operation, values, parents=named_parents, output_dir=out)
        write_checkpoint_card(folder)


def license_of_source(source: str | Path) -> str | None:
    """The license in the README.md of a folder or Hub name;
    None for a file, or where there is none."""
    return None if Path(source).is_file() else license_of(snapshot(source))


def write_speech_encoder(  # noqa: PLR0913 (the sizes of a pooling, and where the weights are from)
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
    """Write an EchoSpeechEncoder with `audio` and a pooling of three layers (OS 4.6) with random
    weights of `seed`."""
    sizes = dict(
        embedding_size=embedding_size, pooler_layers=pooler_layers, pooler_heads=pooler_heads
    )
    audio.config._name_or_path = ""  # of the folder on this machine
    torch.manual_seed(seed)
    inner = 4 * audio.config.hidden_size
    model = EchoSpeechEncoder(
        EchoSpeechConfig(audio_config=audio.config, pooler_intermediate_size=inner, **sizes)
    )
    model.audio = audio
    values = {**sizes, "seed": seed, "license": license or license_of_source(source)}
    with converted(out, operation, values, source=source) as folder:
        model.save_pretrained(folder)
        extractor.save_pretrained(folder)
    return Path(out)
