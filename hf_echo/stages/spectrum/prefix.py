"""Prefix language modelling (OS 9.1): the first part of a document as embeddings, the rest as
tokens.

The tower reads the first part in both directions. With `autoencode_fraction` a share of the
documents is rebuilt from all its embeddings instead of continued ("Spectrum auto-encode", Table
20).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...modeling import EchoTokenizer, SpectrumConfig, SpectrumForCausalLM
from ...modeling.packing_spectrum import PackedDocument, Segment
from ...utils.settings import setting
from .base import SpectrumStage, SpectrumStageConfig, SpectrumTrainer
from .dry_run_size import PlannedBatch, sentence_tokens

CONTINUE = "Continue the document:"
REBUILD = "Repeat the document:"


@dataclass
class PrefixConfig(SpectrumStageConfig):
    """OS 9.2: 95k steps at 2e-4; a batch has 1M tokens over all devices:
    source, target and prompt."""

    max_target: int = setting("tokens of a continuation; longer ones are cut", 512, least=1)
    autoencode_fraction: float = setting(
        "share of documents that are rebuilt from their embeddings, not continued",
        0.0,
        least=0,
        most=1,
    )


class PrefixTrainer(SpectrumTrainer):
    """Cross-entropy of the continuation; none on the prompt."""

    def __init__(
        self,
        model: SpectrumForCausalLM,
        args: PrefixConfig,
        *,
        tokenizer: EchoTokenizer,
        **kwargs: Any,
    ):
        self.prompts = {}  # text of a prompt -> its ids
        for text in (CONTINUE, REBUILD):
            self.prompts[text] = prompt_ids(model.config, tokenizer, text)
        self.space = tokenizer.text_ids([" "])[0]
        super().__init__(model, args, tokenizer=tokenizer, **kwargs)

    def document(
        self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator
    ) -> PackedDocument:
        """A document that the decoder rebuilds whole, or continues from a sentence drawn at
        random."""
        sentences = [ids.tolist() for ids in row["sentences"]]
        if rng.random() < self.args.autoencode_fraction:
            return self.packed(vectors, sentences, REBUILD)
        # one sentence follows BOE alone
        split = int(rng.integers(1, len(sentences))) if len(sentences) > 1 else 0
        return self.packed(vectors[:split], sentences[split:], CONTINUE, ends=row["ends"])

    def packed(
        self,
        vectors: torch.Tensor,
        written: Sequence[Sequence[int]],
        prompt: str,
        ends: bool = True,
    ) -> PackedDocument:
        """Embeddings that are read and sentences that are written -> a document for the model; a
        text that is cut has no end token."""
        # Sentences with a space between them.
        ids: list[int] = []
        for number, sentence in enumerate(written):
            if number > 0:
                ids += self.space
            ids += sentence
        most = self.args.max_target
        start = self.prompts[prompt]
        target = [*start, *ids[:most]]
        if ends and len(ids) <= most:
            target.append(self.spectrum.decoder.eos_token_id)
        segment = Segment(target, len(start), len(vectors) + 1)
        return PackedDocument(vectors, prefix=len(vectors), segments=[segment])

    def batch_lengths(self) -> np.ndarray:
        """Source, target and prompt, as if all sentences were both."""
        rows = self.train_dataset
        return (
            rows.windows[:, 2]
            + np.minimum(rows.tokens(), self.args.max_target)
            + len(self.prompts[CONTINUE])
        )


def prompt_ids(config: SpectrumConfig, tokenizer: EchoTokenizer, text: str) -> list[int]:
    """Start token and the prompt."""
    return [config.start_token_id, *tokenizer.text_ids([text])[0]]


class SpectrumPrefixStage(SpectrumStage):
    name = "spectrum_prefix"
    config = PrefixConfig
    trainer = PrefixTrainer

    def planned_batch(self, planned: SpectrumConfig, config: PrefixConfig) -> PlannedBatch:
        """`max_tokens` are filled as if all sentences were read and written."""
        of_sentence = sentence_tokens(config)
        slots = config.max_tokens / (1 + of_sentence)
        document = min(config.max_sentences * of_sentence, config.max_target)
        row = max(config.row_length, document)
        return PlannedBatch(slots, config.max_tokens - slots, row)


STAGE = SpectrumPrefixStage()
