"""Prompts of five parts: every template is drawn, targets fit the format that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from hf_echo.stages.spectrum import prompts
from hf_echo.stages.spectrum.prompts import draw_prompt, written_prompt

ROW = {
    "task": "Categorize the document.",
    "question": "Which topic?",
    "choices": ["sports", "travel"],
    "answer": "travel",
}


def test_parts_targets_and_options_fit_each_other():
    seen = set()
    for seed in range(300):
        prompt = draw_prompt(ROW, np.random.default_rng(seed))
        assert prompt.target == prompt.options[1] and len(prompt.options) == 2
        assert "Categorize the document." in prompt.user and "Which topic?" in prompt.user
        assert "sports" in prompt.user and "travel" in prompt.user
        kind = next(k for k, texts in prompts.TARGETS.items() if prompt.user.endswith(texts))
        fits = {"id": prompt.target in ("2", "B", "b"), "answer": prompt.target == "travel"}
        fits["both"] = prompt.target in ("2) travel", "B: travel", "b. travel")
        assert fits[kind]
        seen.add((prompt.system, kind, prompt.target))
    assert {system for system, _, _ in seen} == set(prompts.SYSTEMS)
    assert {target for _, _, target in seen} == {"2", "B", "b", "travel", "2) travel", "B: travel", "b. travel"}


def test_question_and_choices_are_left_out_where_there_are_none():
    prompt = draw_prompt({"task": "Summarize.", "answer": "A storm.", "choices": []}, np.random.default_rng(0))
    assert prompt.target == "A storm." and prompt.options == ["A storm."]
    assert "Question" not in prompt.user and "Options" not in prompt.user and "\n" not in prompt.user


class Vocabulary:
    def __init__(self, *words):
        self.words = words

    def get_vocab(self):
        return self.words


def test_the_llama_3_template_is_that_of_figure_7():
    prompt = prompts.Prompt("You are a helpful assistant", "Categorize.", "a", ["a"])
    assert written_prompt(prompt, Vocabulary("<|start_header_id|>")) == (
        "<|start_header_id|>system<|end_header_id|>\n\nYou are a helpful assistant<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nCategorize.<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert written_prompt(prompt, Vocabulary()) == "You are a helpful assistant\n\nCategorize.\n\nAnswer: "


def test_wrong_answers_are_one_line():
    with pytest.raises(ValueError, match="needs an answer"):
        draw_prompt({"choices": ["a"]}, np.random.default_rng(0))
    with pytest.raises(ValueError, match="'c' is not among the choices"):
        draw_prompt({"choices": ["a"], "answer": "c"}, np.random.default_rng(0))
