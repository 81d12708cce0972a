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

from ...modeling import SpectrumConfig
from ...modeling.packing_spectrum import PackedDocument, sentence_segments
from .base import SpectrumStage, SpectrumStageConfig, SpectrumTrainer
from .dry_run_size import PlannedBatch, sentence_tokens


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

    def planned_batch(self, planned: SpectrumConfig, config: SentencesConfig) -> PlannedBatch:
        """`max_tokens` sentences, each with its prompt. The first token is not predicted and the end
        token is, so a sentence has as many labels as tokens."""
        of_sentence = sentence_tokens(config) + len(planned.prompt_ids)
        row = max(config.row_length, config.max_sentences * of_sentence)
        return PlannedBatch(config.max_tokens, config.max_tokens * of_sentence, row)


STAGE = SpectrumSentencesStage()
