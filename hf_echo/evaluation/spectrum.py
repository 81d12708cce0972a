"""Next-sentence retrieval by the tower of Spectrum (OS 9.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..utils.vectors import unit_length

SIB_TOPICS = ("science/technology", "travel", "politics", "sports", "health", "entertainment", "geography")


@torch.no_grad()
def tower_predictions(tower: Any, documents: Sequence[np.ndarray]) -> list[np.ndarray]:
    """(sentences, d) of each document -> (sentences, d), row i predicted from BOE and the first i sentences."""
    was_training = tower.training
    tower.eval()
    predictions = []
    for document in documents:
        vectors = torch.as_tensor(document, dtype=torch.float32, device=tower.device)[None, : len(document) - 1]
        predictions.append(tower(vectors).next_embedding[0].float().cpu().numpy())
    tower.train(was_training)
    return predictions


def next_sentence_retrieval(
    documents: Sequence[np.ndarray], predictions: Sequence[np.ndarray], *, candidates: str = "others"
) -> dict[str, float]:
    """Accuracy in percent: {"prediction", "last_sentence", "mean_before", "chance", "questions"}.

    A question is a place in a document with at least one sentence before and two not read yet: cosine chooses the next
    sentence, of the "others" (all sentences of the document but the last that was read) or of the "unread" ones. Two
    baselines need no model: the embedding of the last sentence, and the mean of all before.
    """
    if candidates not in ("others", "unread"):
        raise ValueError(f"candidates must be 'others' or 'unread', not {candidates!r}")
    right = dict.fromkeys(("prediction", "last_sentence", "mean_before"), 0.0)
    questions, chance = 0, 0.0
    for vectors, predicted in zip(documents, predictions, strict=True):
        if vectors.shape != predicted.shape:
            raise ValueError(f"predictions are {predicted.shape} for embeddings of {vectors.shape}")
        unit = unit_length(vectors)
        for i in range(1, len(vectors) - 1):
            choices = unit[i:] if candidates == "unread" else np.concatenate([unit[i:], unit[: i - 1]])
            queries = {"prediction": predicted[i], "last_sentence": vectors[i - 1], "mean_before": unit[:i].mean(0)}
            for name, query in queries.items():
                scores = choices @ query
                best = scores == scores.max()
                right[name] += best[0] / best.sum()  # equal scores, of equal sentences, share the point
            questions, chance = questions + 1, chance + 1 / len(choices)
    if not questions:
        raise ValueError("no document has three sentences: there is nothing to choose from")
    figures = {name: float(100 * count / questions) for name, count in right.items()}
    return figures | {"chance": 100 * chance / questions, "questions": questions}
