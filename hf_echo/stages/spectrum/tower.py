"""Tower warm-up (OS 9.1): predict the embedding of the next sentence from those before,
by MSE or InfoNCE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from ...evaluation.spectrum import next_sentence_retrieval, tower_predictions
from ...inference.embedding_store import VectorRows
from ...losses import gather_with_grad, mse_loss, next_embedding_loss
from ...modeling import SpectrumConfig, SpectrumModel
from ...modeling.packing_spectrum import PackedDocument
from ...utils.settings import setting
from ..core.adapter import AdapterSettings
from ..core.arguments import ModelArguments
from ..core.base import LossParts
from ..core.loss_blocks import loss_by_blocks
from .base import DevDocuments, SpectrumStage, SpectrumStageConfig, SpectrumTrainer
from .dry_run_size import size_of_tower
from .parts import load_tower


@dataclass
class TowerConfig(SpectrumStageConfig):
    """OS 9.2: 55k steps at 2e-4; a batch has 2M sentence embeddings over all devices."""

    objective: Literal["infonce", "mse"] = setting("infonce is better in the paper", "infonce")
    negatives: Literal["document", "batch", "both"] = setting("of infonce", "both")
    logit_scale: float = setting("of infonce", 20.0, above=0)
    metric_for_best_model: str | None = setting(
        "dev metric that chooses the best", "next_sentence_error"
    )


class TowerTrainer(SpectrumTrainer):
    """The tower alone, causal; slot i predicts sentence i+1, BOE the first."""

    metrics: tuple[str, ...] = ("next_sentence_error",)

    def freeze(self, model: SpectrumModel, args: TowerConfig) -> None:
        model.requires_grad_(True)

    def document(
        self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator
    ) -> PackedDocument:
        return PackedDocument(vectors)

    def count_tokens(self, inputs: dict[str, Any]) -> int:
        return int((inputs["document_ids"] >= 0).sum())

    def part_sizes(self, inputs: dict[str, Any]) -> dict[str, int]:
        return {"next_embedding": int(_has_next(inputs).sum())}

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        """The loss of each sentence's embedding, predicted from those before it."""
        names = ("embeddings", "document_ids", "positions", "prefix")
        predictions = model(**{name: inputs[name] for name in names}).next_embedding
        has_next = _has_next(inputs)
        # The last slot of a document has no next one.
        predicted = predictions[:, :-1][has_next]
        target = inputs["embeddings"][:, 1:][has_next]
        document = inputs["slot_documents"][:, 1:][has_next]
        key = inputs["slot_keys"][:, 1:][has_next]
        if self.args.objective == "mse":
            return {"next_embedding": mse_loss(predicted, target)}, {"next_embedding": 1.0}
        # Candidates of all processes.
        all_target, offset = gather_with_grad(target)
        all_document, _ = gather_with_grad(document)
        all_key, _ = gather_with_grad(key)

        def loss_of_rows(part: slice) -> dict[str, torch.Tensor]:
            loss = next_embedding_loss(
                predicted[part],
                target[part],
                document=document[part],
                key=key[part],
                all_target=all_target,
                all_document=all_document,
                all_key=all_key,
                offset=offset + part.start,
                logit_scale=self.args.logit_scale,
                negatives=self.args.negatives,
            )
            return {"next_embedding": loss}

        # 64 devices of 32,768 sentences have 256 GiB of cosines on each of them.
        parts = loss_by_blocks(loss_of_rows, len(predicted), columns=len(all_target))
        return parts, {"next_embedding": 1.0}

    def measure(
        self,
        model: SpectrumModel,
        dev_sets: Mapping[str, DevDocuments],
        *,
        prefix: str = "eval",
        tables: dict | None = None,
    ) -> dict[str, float]:
        """{"eval_NAME_next_sentence_error": percent of places where the next sentence is not found
        among the others of its document, "eval_next_sentence_error": mean over the sets}; see
        `next_sentence_retrieval`."""
        metrics: dict[str, float] = {}
        for name, dev in dev_sets.items():
            ends = np.cumsum([len(row) for row in dev.rows["sentences"]])
            documents = np.split(dev.embeddings(), ends[:-1])
            accuracy = next_sentence_retrieval(documents, tower_predictions(model, documents))
            metrics[f"{prefix}_{name}_next_sentence_error"] = round(100 - accuracy["prediction"], 2)
        if metrics:
            metrics[f"{prefix}_next_sentence_error"] = float(np.mean(list(metrics.values())))
        return metrics


def _has_next(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """(rows, slots - 1) bool: the next slot is of the same document."""
    ids = inputs["document_ids"]
    return (ids[:, :-1] == ids[:, 1:]) & (ids[:, 1:] >= 0)


class SpectrumTowerStage(SpectrumStage):
    name = "spectrum_tower"
    config = TowerConfig
    trainer = TowerTrainer
    takes_adapter = False  # the tower has no pretrained weights

    def load_model(self, model: ModelArguments, embeddings: VectorRows) -> SpectrumModel:
        return load_tower(model, embeddings)

    def size(
        self, planned: SpectrumConfig, config: Any, adapter: AdapterSettings | None = None
    ) -> dict[str, Any]:
        """Parameters, and memory of a step, of the tower alone."""
        return size_of_tower(planned, config)


STAGE = SpectrumTowerStage()
