"""Prompts of fine-tuning (OS 9.1, Figure 7): five parts, each drawn from a list of templates.

    system prompt, task prompt, question block, choices block, target format

A part is left out where the row has nothing for it. The texts are ours; the paper prints one
example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...languages import language

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

SPECIAL = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")


class Prompt(NamedTuple):
    """What is asked, and what is to be written.

    `options`: the target that each choice would be, for scoring.
    """

    system: str
    user: str
    target: str
    options: list[str]


def draw_prompt(row: Mapping[str, Any], rng: np.random.Generator) -> Prompt:
    """One of the product of templates, for a row of `hf_echo.data.documents`.
    Some name the document's language."""
    answer = row.get("answer")
    choices = list(row.get("choices") or [])

    def pick(templates: Sequence[str]) -> str:
        return templates[int(rng.integers(len(templates)))]

    # Task and question, then the choices in one of the ways to number them; the answer follows
    # their form.
    name = language(row["lang"]).name
    parts = [pick(TASKS).format(task=row.get("task") or DEFAULT_TASK, language=name)]
    if row.get("question"):
        parts.append(pick(QUESTIONS).format(question=row["question"]))
    options = [answer]
    if choices:
        style = int(rng.integers(len(FORMATS)))
        kind = pick(tuple(TARGETS))
        lines = []
        ids = []
        for i, choice in enumerate(choices):
            names = {"number": i + 1, "letter": chr(ord("A") + i), "small": chr(ord("a") + i)}
            lines.append(FORMATS[style].format(**names, choice=choice))
            ids.append(IDS[style].format(**names))
        parts.append(pick(CHOICES).format(choices=pick(JOINS).join(lines)))
        parts.append(pick(TARGETS[kind]))
        options = {"id": ids, "answer": choices, "both": lines}[kind]
        answer = options[choices.index(answer)]
    return Prompt(pick(SYSTEMS), "\n\n".join(parts), answer, options)


def written_prompt(prompt: Prompt, tokenizer: Any) -> list[int]:
    """Ids that the decoder reads after its start token.

    The template of Llama 3 (Figure 7) where the tokenizer has its special tokens, else plain lines.
    A special token that a text spells is text.
    """
    header, end_of_header, end_of_turn = map(tokenizer.backend_tokenizer.token_to_id, SPECIAL)
    if header is None:
        return tokenizer.text_ids([f"{prompt.system}\n\n{prompt.user}\n\nAnswer: "])[0]
    ids = []
    for role, text in (("system", prompt.system), ("user", prompt.user), ("assistant", "")):
        ids += [header, *_exact_ids(tokenizer, role), end_of_header]
        ids += [*_exact_ids(tokenizer, f"\n\n{text}"), end_of_turn]
    return ids[:-1]  # the model writes the end of its own turn


def _exact_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text as it stands: `text_ids` would strip it and put a space in front."""
    backend = tokenizer.backend_tokenizer
    words = backend.pre_tokenizer.pre_tokenize_str(text)
    return [token.id for word, _ in words for token in backend.model.tokenize(word)]
