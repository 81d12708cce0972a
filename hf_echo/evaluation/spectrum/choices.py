"""Multiple choice by negative log likelihood (OS 9.1): the document as embeddings, question and options in English.

The document may be in any language of the space; its question and options stay in English ("cross-lingual X-En").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...utils.results import Table

Embed = Callable[[list[str], str], np.ndarray]
SIB_TOPICS = (
    "science/technology",
    "travel",
    "politics",
    "sports",
    "health",
    "entertainment",
    "geography",
)


@dataclass
class Choice:
    """A question about a document.

    Attributes:
        sentences: the document; one element where segmentation is unreliable (the paper does not cut SIB-200).
        prompt: English text in front of the options, or its ids; empty for a plain continuation.
        options: English texts.
        answer: number of the right one.
    """

    sentences: list[str]
    lang: str
    prompt: str | Sequence[int]
    options: list[str]
    answer: int


def choice_accuracy(
    model: Any, tokenizer: Any, encode: Embed, choices: Sequence[Choice], *, mean: bool = False, batch: int = 16
) -> Table:
    """Accuracy in percent by language: the option with the lowest NLL is chosen.

    Args:
        model: a SpectrumForCausalLM.
        tokenizer: the decoder's, with `text_ids`.
        encode: (texts, lang) -> (n, d).
        mean: NLL per token instead of the sum.

    Raises:
        ValueError: no questions, or questions with different numbers of options in one language.
    """
    if not choices:
        raise ValueError("there are no questions")
    start, end, rows = model.config.start_token_id, model.config.decoder.eos_token_id, []
    for lang in dict.fromkeys(choice.lang for choice in choices):
        own = [choice for choice in choices if choice.lang == lang]
        right = 0
        for first in range(0, len(own), batch):
            part = own[first : first + batch]
            vectors = encode([text for choice in part for text in choice.sentences], lang)
            ends = np.cumsum([len(choice.sentences) for choice in part])[:-1]
            document = model.encode_document([torch.as_tensor(rows) for rows in np.split(np.asarray(vectors), ends)])
            options = [[[*ids, end] for ids in tokenizer.text_ids(list(choice.options))] for choice in part]
            prompts = [
                [start, *(tokenizer.text_ids([given])[0] if isinstance(given, str) else given)]
                if given
                else model.config.prompt_ids
                for given in (choice.prompt for choice in part)
            ]
            chosen = model.score_options(document, options, prompts, mean=mean).argmin(1).tolist()
            right += sum(c == choice.answer for c, choice in zip(chosen, part, strict=True))
        chance = float(np.mean([100 / len(choice.options) for choice in own]))
        rows.append({"lang": lang, "accuracy": 100 * right / len(own), "chance": chance, "count": len(own)})
    return Table(rows).with_average(["accuracy"])


def belebele_choices(
    rows: Iterable[Mapping[str, Any]], english: Iterable[Mapping[str, Any]], lang: str, cut: Callable[[str], list[str]]
) -> list[Choice]:
    """XBelebele: passages of `rows` (facebook/belebele, a language), questions and answers of the English rows.

    Args:
        cut: passage -> sentences.
    """
    asked = {(row["link"], row["question_number"]): row for row in english}
    return [
        Choice(
            sentences=cut(row["flores_passage"]),
            lang=lang,
            prompt=f"Question: {question['question']}\nAnswer: ",
            options=[question[f"mc_answer{i}"] for i in range(1, 5)],
            answer=int(question["correct_answer_num"]) - 1,
        )
        for row in rows
        if (question := asked.get((row["link"], row["question_number"]))) is not None
    ]


def story_choices(rows: Iterable[Mapping[str, Any]], english: Iterable[Mapping[str, Any]], lang: str) -> list[Choice]:
    """XStoryCloze: four sentences of `rows` (juletxara/xstory_cloze, a language), two endings of the English rows."""
    endings = {row["story_id"]: row for row in english}
    return [
        Choice(
            sentences=[row[f"input_sentence_{i}"] for i in range(1, 5)],
            lang=lang,
            prompt="",
            options=[ending["sentence_quiz1"], ending["sentence_quiz2"]],
            answer=int(ending["answer_right_ending"]) - 1,
        )
        for row in rows
        if (ending := endings.get(row["story_id"])) is not None
    ]


def topic_choices(rows: Iterable[Mapping[str, Any]], lang: str) -> list[Choice]:
    """SIB-200 (Davlan/sib200, a language): one text, not cut, and its topic."""
    return [Choice([row["text"]], lang, "Topic: ", list(SIB_TOPICS), SIB_TOPICS.index(row["category"])) for row in rows]
