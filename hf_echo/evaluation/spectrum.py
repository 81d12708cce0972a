"""Measures of Spectrum (OS 9): next sentences by the tower, multiple choice by NLL, rebuilt documents.

`hf_echo.evaluation.benchmarks.choices` makes the questions of the paper's sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..utils.results import Table
from ..utils.vectors import unit_length

SIB_TOPICS = ("science/technology", "travel", "politics", "sports", "health", "entertainment", "geography")
Embed = Callable[[list, str], np.ndarray]


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


@dataclass
class Choice:
    """A question about a document.

    Attributes:
        sentences: the document, in any language of the space, as texts or clips: what `encode` reads.
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
    model: Any, tokenizer: Any, encode: Embed, choices: Sequence[Choice], *, mean: bool = False, batch: int = 16
) -> Table:
    """Accuracy in percent by language of multiple choice: the option of the lowest negative log likelihood (OS 9.1).

    Args:
        model: a SpectrumForCausalLM.
        tokenizer: the decoder's, with `text_ids`.
        encode: (sentences of a document, lang) -> (n, d).
        mean: NLL per token instead of the sum.

    Raises:
        ValueError: no questions, or questions with different numbers of options in one language.
    """
    if not choices:
        raise ValueError("there are no questions")
    rows = []
    for lang in dict.fromkeys(choice.lang for choice in choices):
        of_language = [choice for choice in choices if choice.lang == lang]
        right = 0
        for first in range(0, len(of_language), batch):
            part = of_language[first : first + batch]
            best = _option_losses(model, tokenizer, encode, part, mean=mean).argmin(1).tolist()
            right += sum(option == choice.answer for option, choice in zip(best, part, strict=True))
        chance = float(np.mean([100 / len(choice.options) for choice in of_language]))
        accuracy = 100 * right / len(of_language)
        rows.append({"lang": lang, "accuracy": accuracy, "chance": chance, "count": len(of_language)})
    return Table(rows).with_average(["accuracy"])


def _option_losses(model: Any, tokenizer: Any, encode: Embed, choices: Sequence[Choice], *, mean: bool) -> torch.Tensor:
    """NLL of each option: (choices, options)."""
    end = [model.config.decoder.eos_token_id]
    documents, options, prompts = [], [], []
    for choice in choices:
        documents.append(torch.as_tensor(np.asarray(encode(choice.sentences, choice.lang))))
        last = end if choice.ends else []
        options.append([[*ids, *last] for ids in tokenizer.text_ids(list(choice.options))])
        prompt = choice.prompt
        if isinstance(prompt, str):
            prompt = tokenizer.text_ids([prompt])[0]
        # Without a prompt the option is read as the next sentence of the document.
        prompts.append([model.config.start_token_id, *prompt] if choice.prompt else model.config.prompt_ids)
    return model.score_options(model.encode_document(documents), options, prompts, mean=mean)


def rebuild_bleu(
    written: Sequence[str], references: Sequence[str], lengths: Sequence[int], *, limits: Sequence[int] = (4, 8, 16)
) -> Table:
    """BLEU of documents rebuilt from their embeddings, by range of sentences and for all: the columns of OS Table 20.

    `bleu1` to `bleu4` are the precisions of n-grams as sacrebleu prints them, `bleu` is their geometric mean times the
    brevity penalty. The table's own row says so: 99.9, 99.8, 99.7 and 99.6 beside 99.71 (cumulative figures would end
    at BLEU-4 = BLEU).

    Args:
        lengths: sentences of each document.
        limits: upper ends of the ranges; a last range holds longer documents.

    Raises:
        ValueError: the numbers of texts differ, or there are none.
    """
    from sacrebleu.metrics import BLEU

    if not written or not len(written) == len(references) == len(lengths):
        raise ValueError(
            f"there are {len(written)} texts, {len(references)} references and {len(lengths)} lengths: give one of "
            "each per document, at least one"
        )
    ranges = [("all", 0.0, float("inf"))]
    ranges += [(f"{start + 1} to {end}", start, end) for start, end in zip([0, *limits], limits, strict=False)]
    ranges.append((f"over {limits[-1]}", limits[-1], float("inf")))
    metric, rows = BLEU(), []
    for label, start, end in ranges:
        chosen = [i for i, count in enumerate(lengths) if start < count <= end]
        if not chosen:
            continue
        score = metric.corpus_score([written[i] for i in chosen], [[references[i] for i in chosen]])
        row: dict[str, Any] = {"sentences": label, "documents": len(chosen)}
        for n, precision in enumerate(score.precisions, 1):
            row[f"bleu{n}"] = precision
        rows.append(row | {"bleu": score.score, "brevity_penalty": score.bp})
    return Table(rows, notes={"signature": str(metric.get_signature())})
