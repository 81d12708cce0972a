"""BLASER 2.0 (Dale and Costa-jussà, 2024): the quality of a translation from sentence embeddings,
about 1 to 5.

With s, t, r the embeddings of source, translation and reference, divided by their lengths, a
multilayer perceptron (tanh) reads

    ref   [r, t, s * t, r * t, |t - s|, |t - r|]
    qe    [s, t, s * t, |t - s|]
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_blaser import INPUTS, BlaserConfig

FILES = ("configuration_blaser.py", "modeling_blaser.py")


@dataclass
class BlaserOutput(ModelOutput):
    """Attributes:
    scores: (rows,), higher is better.
    """

    scores: torch.FloatTensor | None = None


class BlaserModel(PreTrainedModel):
    """Scores of translations from embeddings (rows, embedding_size)."""

    config_class = BlaserConfig
    base_model_prefix = "mlp"

    def __init__(self, config: BlaserConfig):
        super().__init__(config)
        hidden_sizes = config.hidden_sizes or []
        sizes = [INPUTS[config.kind] * config.embedding_size, *hidden_sizes]
        layers: list[nn.Module] = []
        for read, written in zip(sizes, sizes[1:]):
            layers += [nn.Dropout(config.dropout), nn.Linear(read, written), nn.Tanh()]
        self.mlp = nn.Sequential(*layers, nn.Dropout(config.dropout), nn.Linear(sizes[-1], 1))
        self.post_init()

    def forward(
        self, source: torch.Tensor, translation: torch.Tensor, reference: torch.Tensor | None = None
    ) -> BlaserOutput:
        """
        Args:
            source, translation, reference: (rows, embedding_size); the reference for the kind "ref"
                only.
        """
        s = normalize(source, dim=-1)
        t = normalize(translation, dim=-1)
        if reference is None:
            parts = [s, t, s * t, (t - s).abs()]
        else:
            r = normalize(reference, dim=-1)
            parts = [r, t, s * t, r * t, (t - s).abs(), (t - r).abs()]
        return BlaserOutput(scores=self.mlp(torch.cat(parts, dim=-1))[..., 0])

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save as usual, with this code beside the weights for trust_remote_code."""
        super().save_pretrained(save_directory, *args, **kwargs)
        here = Path(__file__).parent
        for name in FILES:
            if here.resolve() != Path(save_directory).resolve():
                shutil.copyfile(here / name, Path(save_directory) / name)
