"""Next-sentence retrieval: does the tower's prediction find the sentence that follows?

After each sentence of a document, the candidates are the sentences that were not read yet, and cosine chooses. Two
baselines need no model: the embedding of the last sentence, and the mean of all before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


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


def next_sentence_retrieval(documents: Sequence[np.ndarray], predictions: Sequence[np.ndarray]) -> dict[str, float]:
    """Accuracy in percent: {"prediction", "last_sentence", "mean_before", "chance", "questions"}.

    A question is a place in a document with at least one sentence before and two not read yet.

    Raises:
        ValueError: shapes differ, or there is no question.
    """
    right = dict.fromkeys(("prediction", "last_sentence", "mean_before"), 0)
    questions, chance = 0, 0.0
    for vectors, predicted in zip(documents, predictions, strict=True):
        if vectors.shape != predicted.shape:
            raise ValueError(f"predictions are {predicted.shape} for embeddings of {vectors.shape}")
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        for i in range(1, len(vectors) - 1):
            candidates = unit[i:]
            queries = {"prediction": predicted[i], "last_sentence": vectors[i - 1], "mean_before": unit[:i].mean(0)}
            for name, query in queries.items():
                scores = candidates @ query
                right[name] += bool(scores[0] >= scores.max())
            questions, chance = questions + 1, chance + 1 / len(candidates)
    if not questions:
        raise ValueError("no document has three sentences: there is nothing to choose from")
    return {name: 100 * n / questions for name, n in right.items()} | {
        "chance": 100 * chance / questions,
        "questions": questions,
    }
