"""Supervised fine-tuning (OS 9.1): a document as embeddings, a prompt of five drawn parts,
the answer as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...data.documents import TokenizedDocuments
from ...modeling import SpectrumConfig, SpectrumForCausalLM
from ...modeling.packing_spectrum import PackedDocument, Segment
from ...utils.settings import setting
from .base import SpectrumStage, SpectrumStageConfig, SpectrumTrainer
from .dry_run_size import PlannedBatch
from .prompts import draw_prompt, written_prompt

# about what a prompt costs beside question and choices, for batches of equal cost
PROMPT_TOKENS = 96


@dataclass
class TasksConfig(SpectrumStageConfig):
    """OS 9.2: 10k steps at 5e-6, the token decoder learns too;
    a batch has 1M tokens over all devices."""

    learning_rate: float = setting("AdamW's initial learning rate", 5e-6)
    train_decoder: bool = setting("the whole token decoder learns", True)
    max_target: int = setting("tokens of an answer; longer ones are cut", 256, least=1)
    max_sentences: int = setting("of a document: its answer belongs to all of it", 10_000, least=1)


class TasksTrainer(SpectrumTrainer):
    """Cross-entropy of the answer; the prompt is drawn again for each batch."""

    def __init__(
        self,
        model: SpectrumForCausalLM,
        args: TasksConfig,
        *,
        train_dataset: TokenizedDocuments,
        **kwargs: Any,
    ):
        missing = sum(not answer for answer in train_dataset.tasks["answer"])
        if missing:
            raise ValueError(
                f"{missing} documents have no answer; fine-tuning needs the column `answer` in each row"
            )
        super().__init__(model, args, train_dataset=train_dataset, **kwargs)

    def document(
        self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator
    ) -> PackedDocument:
        """The question behind the vectors of its document, and the answer that the decoder
        writes."""
        prompt = draw_prompt(row, rng)
        start = [self.spectrum.start_token_id, *written_prompt(prompt, self.tokenizer)]
        target = [*self.tokenizer.text_ids([prompt.target])[0], self.spectrum.decoder.eos_token_id]
        written = target[: self.args.max_target + 1]
        segment = Segment([*start, *written], len(start), len(vectors) + 1)
        return PackedDocument(vectors, prefix=len(vectors), segments=[segment])

    def batch_lengths(self) -> np.ndarray:
        """(rows,) vectors and tokens of each row, by which batches are filled."""
        tasks = self.train_dataset.tasks
        texts = []
        for question, choices, answer in zip(tasks["question"], tasks["choices"], tasks["answer"]):
            texts.append(" ".join([question or "", *choices, answer]))
        costs = np.array([len(ids) for ids in self.tokenizer.text_ids(texts)])
        windows = self.train_dataset.windows
        return windows[:, 2] + costs[windows[:, 0]] + PROMPT_TOKENS


class SpectrumTasksStage(SpectrumStage):
    name = "spectrum_tasks"
    config = TasksConfig
    trainer = TasksTrainer

    def planned_batch(self, planned: SpectrumConfig, config: TasksConfig) -> PlannedBatch:
        """All are tokens of prompts and answers: how many sentences a document has is not known."""
        return PlannedBatch(0, config.max_tokens, config.row_length)


STAGE = SpectrumTasksStage()
