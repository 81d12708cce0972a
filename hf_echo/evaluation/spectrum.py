"""Measures of Spectrum (OS 9): next sentences by the tower, multiple choice by NLL, rebuilt
documents.

`hf_echo.evaluation.benchmarks.choices` makes the questions of the paper's sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..inference.encode import evaluating
from ..utils.results import Table
from ..utils.vectors import unit_length

SIB_TOPICS = (
    "science/technology",
    "travel",
    "politics",
    "sports",
    "health",
    "entertainment",
    "geography",
)
AT_ONCE = 16  # questions that are scored together

Embed = Callable[[list, str], np.ndarray]


@torch.no_grad()
def tower_predictions(tower: Any, documents: Sequence[np.ndarray]) -> list[np.ndarray]:
    """(sentences, d) of each document -> (sentences, d), row i predicted from BOE and the first i
    sentences."""
    predictions = []
    with evaluating(tower):
        for document in documents:
            # The last sentence predicts nothing: (1, sentences - 1, d).
            before = torch.as_tensor(document[:-1], dtype=torch.float32, device=tower.device)[None]
            predicted = tower(before).next_embedding[0]  # (sentences, d), the first from BOE
            predictions.append(predicted.float().cpu().numpy())
    return predictions


def next_sentence_retrieval(
    documents: Sequence[np.ndarray],
    predictions: Sequence[np.ndarray],
) -> dict[str, float]:
    """Accuracy in percent: {"prediction", "last_sentence", "mean_before", "chance", "questions"}.

    A question is a place in a document with at least one sentence before and two not read yet:
    cosine chooses the next sentence among all of the document but the last that was read. Two
    baselines need no model: the embedding of the last sentence, and the mean of all before.
    """
    points: dict[str, list[float]] = {
        "prediction": [],
        "last_sentence": [],
        "mean_before": [],
        "chance": [],
    }
    for vectors, predicted in zip(documents, predictions, strict=True):
        unit = unit_length(vectors)
        for i in range(1, len(vectors) - 1):
            # The next sentence is the first of the choices. The one before it, which was read last,
            # is none.
            choices = np.concatenate([unit[i:], unit[: i - 1]])
            points["prediction"].append(_points(choices @ predicted[i]))
            points["last_sentence"].append(_points(choices @ vectors[i - 1]))
            points["mean_before"].append(_points(choices @ unit[:i].mean(0)))
            points["chance"].append(1 / len(choices))
    figures = {name: 100 * float(np.mean(of_name)) for name, of_name in points.items()}
    return figures | {"questions": len(points["chance"])}


def _points(scores: np.ndarray) -> float:
    """1 if the first score is the highest; equal scores, of equal sentences, share the point."""
    best = scores == scores.max()
    return best[0] / best.sum()


@dataclass
class Choice:
    """A question about a document.

    Attributes:
        sentences: the document, in any language of the space, as texts or clips: what `encode`
            reads.
        prompt: English text in front of the options, or its ids; empty for a plain continuation.
        options: English texts, or the letters of options that stand in the prompt.
        answer: number of the right one, from 0.
        ends: whether the score includes the end token. A letter is scored without it.
    """

    sentences: list
    lang: str
    prompt: str | Sequence[int]
    options: list[str]
    answer: int
    ends: bool = True


def choice_accuracy(
    model: Any,
    tokenizer: Any,
    encode: Embed,
    choices: Sequence[Choice],
) -> Table:
    """Accuracy in percent by language of multiple choice: the option of the lowest negative log
    likelihood (OS 9.1).

    Args:
        model: a SpectrumForCausalLM.
        tokenizer: the decoder's, with `text_ids`.
        encode: (sentences of a document, lang) -> (n, d).
    """
    by_language: dict[str, list[Choice]] = {}
    for choice in choices:
        by_language.setdefault(choice.lang, []).append(choice)
    rows = []
    for lang, questions in by_language.items():
        right = 0
        for first in range(0, len(questions), AT_ONCE):
            part = questions[first : first + AT_ONCE]
            lowest = _option_losses(model, tokenizer, encode, part).argmin(1)
            right += int((lowest == torch.tensor([choice.answer for choice in part])).sum())
        accuracy = 100 * right / len(questions)
        chance = float(np.mean([100 / len(choice.options) for choice in questions]))
        rows.append({"lang": lang, "accuracy": accuracy, "chance": chance, "count": len(questions)})
    return Table(rows).with_average(["accuracy"])


def _option_losses(
    model: Any, tokenizer: Any, encode: Embed, choices: Sequence[Choice]
) -> torch.Tensor:
    """NLL of each option: (choices, options)."""
    documents = []
    options = []
    prompts = []
    for choice in choices:
        # A document is a matrix of sentence embeddings, of any length.
        documents.append(torch.as_tensor(np.asarray(encode(choice.sentences, choice.lang))))
        end = [model.config.decoder.eos_token_id] if choice.ends else []
        option_ids = tokenizer.text_ids(list(choice.options))
        options.append([[*ids, *end] for ids in option_ids])
        prompt = choice.prompt
        if isinstance(prompt, str):
            prompt = tokenizer.text_ids([prompt])[0]
        if choice.prompt:
            prompts.append([model.config.start_token_id, *prompt])
        else:  # the option is read as the next sentence of the document
            prompts.append(model.config.prompt_ids)
    return model.score_options(model.encode_document(documents), options, prompts)


def rebuild_bleu(written: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU of documents rebuilt from their embeddings: the columns of OS Table 20.

    `bleu1` to `bleu4` are the precisions of n-grams as sacrebleu prints them, `bleu` is their
    geometric mean times the brevity penalty. The table's own row says so: 99.9, 99.8, 99.7 and 99.6
    beside 99.71 (cumulative figures would end at BLEU-4 = BLEU).
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    score = metric.corpus_score(written, [references])
    row: dict[str, Any] = {"documents": len(written)}
    for n, precision in enumerate(score.precisions, 1):
        row[f"bleu{n}"] = precision
    row["bleu"] = score.score
    row["brevity_penalty"] = score.bp
    row["signature"] = str(metric.get_signature())
    return row
