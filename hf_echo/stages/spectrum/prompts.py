"""Prompts of fine-tuning (OS 9.1, Figure 7): five parts, each drawn from a list of templates.

    system prompt, task prompt, question block, choices block, target format

A part is left out where the row has nothing for it. The texts are ours; the paper prints one example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

SYSTEMS = (
    "You are a helpful assistant",
    "You read documents carefully and answer briefly.",
    "You answer what is asked about a document.",
)
TASKS = (
    "{task}",
    "{task} The document is in {language}.",
    "Read the {language} document. {task}",
    "Task: {task}",
)
DEFAULT_TASK = "Answer the question about the document."
QUESTIONS = ("Question: {question}", "Q: {question}", "{question}")
CHOICES = (
    "Here are the choices: {choices}",
    "Possible answers: {choices}",
    'Options: "{choices}". Which is correct?',
)
FORMATS = ("{number}) {choice}", "{letter}: {choice}", "{small}. {choice}")
IDS = ("{number}", "{letter}", "{small}")  # of FORMATS, in the same order
JOINS = ("\n", ", ", " ")
TARGETS = {
    "id": ("Return only the ID of the correct option.", "Answer with the option's ID only."),
    "answer": ("Return only the answer.", "Answer in words, without the option's ID."),
    "both": ("Output the correct option by writing both the ID and the answer text.",),
}


class Prompt(NamedTuple):
    """What is asked, and what is to be written.

    `options`: the target that each choice would be, for scoring.
    """

    system: str
    user: str
    target: str
    options: list[str]


def draw_prompt(row: Mapping[str, Any], rng: np.random.Generator, *, language: str = "English") -> Prompt:
    """One of the product of templates.

    Args:
        row: `task`, `question`, `choices`, `answer`, as in `hf_echo.data.documents`.

    Raises:
        ValueError: the row has no answer, or one that is not among its choices.
    """
    answer, choices = row.get("answer"), list(row.get("choices") or [])
    if not answer:
        raise ValueError("a document for fine-tuning needs an answer")
    if choices and answer not in choices:
        raise ValueError(f"the answer {answer!r} is not among the choices {choices}")

    def pick(templates: Sequence[str]) -> str:
        return templates[int(rng.integers(len(templates)))]

    parts = [pick(TASKS).format(task=row.get("task") or DEFAULT_TASK, language=language)]
    if row.get("question"):
        parts.append(pick(QUESTIONS).format(question=row["question"]))
    options = [answer]
    if choices:
        style, kind = int(rng.integers(len(FORMATS))), pick(tuple(TARGETS))
        numbered = [
            dict(number=i + 1, letter=chr(65 + i), small=chr(97 + i), choice=choice) for i, choice in enumerate(choices)
        ]
        lines = [FORMATS[style].format(**values) for values in numbered]
        parts.append(pick(CHOICES).format(choices=pick(JOINS).join(lines)))
        parts.append(pick(TARGETS[kind]))
        ids = [IDS[style].format(**values) for values in numbered]
        options = {"id": ids, "answer": choices, "both": lines}[kind]
        answer = options[choices.index(answer)]
    return Prompt(pick(SYSTEMS), "\n\n".join(parts), answer, options)


def written_prompt(prompt: Prompt, tokenizer: Any) -> str:
    """The text that the decoder reads: the Llama 3 template where the tokenizer has its tokens, else plain lines."""
    if "<|start_header_id|>" in tokenizer.get_vocab():
        return (
            f"<|start_header_id|>system<|end_header_id|>\n\n{prompt.system}<|eot_id|>"
            f"<|start_header_id|>user<|end_header_id|>\n\n{prompt.user}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        )
    return f"{prompt.system}\n\n{prompt.user}\n\nAnswer: "
