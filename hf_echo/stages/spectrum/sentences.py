"""Sentence-level language modelling with teacher forcing (OS 9.1): all sentences of a document in
one pass.

The tokens of sentence i+1 read the tower's states of BOE and sentences 1 ... i. Tower and
cross-attention learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...modeling.packing_spectrum import PackedDocument, sentence_segments
from .base import SpectrumStage, SpectrumStageConfig, SpectrumTrainer


@dataclass
class SentencesConfig(SpectrumStageConfig):
    """OS 9.2: 35k steps at 2e-4; a batch has 2M sentence embeddings over all devices."""


class SentencesTrainer(SpectrumTrainer):
    """Cross-entropy of the tokens of each sentence, and of the end of the document
    (an empty sentence)."""

    def document(
        self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator
    ) -> PackedDocument:
        """A document of which each sentence is written from the vectors before it."""
        sentences = [ids.tolist() for ids in row["sentences"]]
        segments = sentence_segments(
            sentences, self.spectrum.prompt_ids, self.spectrum.decoder.eos_token_id
        )
        return PackedDocument(vectors, segments=segments if row["ends"] else segments[:-1])


class SpectrumSentencesStage(SpectrumStage):
    name = "spectrum_sentences"
    config = SentencesConfig
    trainer = SentencesTrainer


STAGE = SpectrumSentencesStage()
