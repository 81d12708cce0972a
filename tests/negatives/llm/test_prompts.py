"""Prompts: the figures' text, places filled, few-shots from a file."""

from __future__ import annotations

import json

import pytest

from hf_echo.negatives.llm import (
    BACK_TRANSLATE,
    DESCRIBE_CODE,
    DESCRIBE_MATH,
    NEGATIVES,
    NEGATIVES_BY_KIND,
    back_translate,
    describe,
    load_prompt,
    negatives,
)
from hf_echo.negatives.llm.replies import parse_negatives
from hf_echo.negatives.llm.rows import Text


def test_questions_of_the_figures():
    code, math = describe([Text("f({example})", "cpp"), Text("$x^2$", "latex")])
    (turn,) = code.messages
    assert turn["role"] == "user" and turn["content"].endswith("and nothing else:\n\nf({example})")
    assert turn["content"].startswith("Translate the following C++ snippet to a single sentence, ensuring")
    assert math.messages[0]["content"].startswith("Describe the following mathematical text in a single")

    first, second = back_translate([Text("A {target_lang} boat.", "eng_Latn")], ["French", "tha_Thai"])
    assert [turn["role"] for turn in first.messages] == ["system", "user"]
    assert first.messages[0]["content"].startswith("You are a helpful translation assistant. You respond only")
    assert first.messages[1]["content"] == (
        "Translate the following text from English into French. Don't produce any other output outside of the"
        " translation.\n\nA {target_lang} boat."
    )
    assert "English into Thai." in second.messages[1]["content"]

    (job,) = negatives([{"target": "A boat.", "target_lang": "eng_Latn"}])
    (turn,) = job.messages
    assert turn["content"].endswith("Input sentence to transform: A boat.") and "{" not in turn["content"]
    assert 'Input: Tonight will be long.\nOutput: [\n"Yesterday may be long",\n' in turn["content"]
    assert "Output ONLY a Python list of 1-5 modified sentences" in turn["content"]


@pytest.mark.parametrize("kinds", [False, True])
def test_built_in_examples_are_valid_replies(kinds):
    prompt = NEGATIVES_BY_KIND if kinds else NEGATIVES
    for example in prompt.examples:
        assert len(parse_negatives(example.output, example.input, kinds=kinds)) >= 2
    assert ("pairs of method" in prompt.user) == kinds == ('["number", "Transformed' in prompt.user)


def test_few_shots_of_a_file(tmp_path):
    file = tmp_path / "shots.json"
    file.write_text(json.dumps([{"input": "x = 1", "output": "x is one."}]))
    messages = load_prompt(file, DESCRIBE_CODE).messages("y", "python", programming_language="Python")
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert messages[0]["content"].endswith("\n\nx = 1") and messages[1]["content"] == "x is one."

    file = tmp_path / "shots.yaml"
    file.write_text(
        "examples:\n- {input: A cat., output: Un chat., lang: fra_Latn}\n"
        "- {input: A dog., output: แมว, lang: tha_Thai}\n"
        "system: Be short.\nuser: 'In {target_lang}: {example}'\n"
    )
    messages = load_prompt(file, BACK_TRANSLATE).messages("A cow.", "tha_Thai", target_lang="Thai")
    assert [m["content"] for m in messages] == ["Be short.", "In Thai: A dog.", "แมว", "In Thai: A cow."]

    file.write_text("- input: A cat.\n  output: [A dog., 'No cat.']\n")
    (message,) = load_prompt(file, NEGATIVES).messages("A cow.")
    assert 'Input: A cat.\nOutput: [\n"A dog.",\n"No cat."\n]' in message["content"]
    assert "Tonight" not in message["content"]

    file.write_text("user: 'Change {example}'")  # no place for the built-in examples
    assert load_prompt(file, NEGATIVES).messages("A cow.") == [{"role": "user", "content": "Change A cow."}]
    file.write_text("system: Be short.")
    assert len(load_prompt(file, NEGATIVES).examples) == 2
    file.write_text("[]")
    assert load_prompt(file, NEGATIVES).examples == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: b: c", "not JSON or YAML"),
        ("just words", "give a list of examples, or a mapping"),
        ("", "give a list of examples, or a mapping"),
        ("few_shots: []", "give a list of examples, or a mapping"),
        ("examples: 3", "examples is not a list"),
        ("- {input: a}", "example 1: give input, output and perhaps lang"),
        ("- {input: a, output: b}\n- {input: 1, output: b}", "example 2: input must be a text"),
        ("- {input: a, output: {b: c}}", "example 1: input must be a text"),
        ("user: no place", r"user has no \{example\}"),
        ("system: 3", "system is not a text"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_prompt(tmp_path / "x.yaml", DESCRIBE_MATH)
    assert "x.yaml" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="no file .*y.yaml"):
        load_prompt(tmp_path / "y.yaml", DESCRIBE_MATH)
