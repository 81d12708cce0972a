"""Replies: what is an answer, and the reason why not."""

from __future__ import annotations

import json

import pytest

from hf_echo.negatives.llm.replies import (
    InvalidReply,
    parse_description,
    parse_negatives,
    parse_translation,
)

TEXT = "He sold 5 boats."
GOOD = ["She sold 5 boats.", "He sold 12 boats.", "He didn't sell 5 boats."]


@pytest.mark.parametrize(
    "reply",
    [
        str(GOOD),
        json.dumps(GOOD),
        json.dumps(GOOD, indent=2),
        "```python\n" + str(GOOD) + "\n```",
        "Sure! Here are [3] sentences, it's easy:\n\n```\n" + json.dumps(GOOD) + "\n```\nDone [really].",
        f"Here you are: {GOOD}. I hope that's fine.",
        '<think>["He sold 5 boats."] no, that\'s the same.</think>\n' + str(GOOD),
        "[\n'She sold 5 boats.',\n'He sold 12 boats.',\n\"He didn't  sell\\n5 boats.\",\n]",
    ],
)
def test_negatives_in_every_dress(reply):
    assert parse_negatives(reply, TEXT) == [(sentence, None) for sentence in GOOD]


def test_brackets_quotes_and_escapes_inside_sentences():
    sentences = ['She said "no ] way".', "It's [5] o'clock", "naïve \\ café 😀", "a/b"]
    assert [s for s, _ in parse_negatives(str(sentences), TEXT)] == sentences
    assert [s for s, _ in parse_negatives(json.dumps(sentences), TEXT)] == sentences
    assert parse_negatives(r'["caf\u00e9 \ud83d\ude00 a\/b"]', TEXT) == [("café 😀 a/b", None)]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("<think>hm</think>", "empty"),
        ("I cannot do that.", "no Python list"),
        ("[1, 2]", "no Python list"),
        ("['a', 'b'", "no Python list"),
        ('["She sold 5 boats.", "He sold', "no Python list"),
        ('["She sold 5 boats." "He sold 12 boats."]', "no Python list"),  # a comma is missing
        ("[f'{x}', 'b']", "no Python list"),
        ("[__import__('os').getcwd()]", "no Python list"),
        ("[]", "a list of 0 sentences instead of 1-5"),
        (str([f"boat {i}" for i in range(12)]), "a list of 12 sentences instead of 1-5"),
        ("['a boat', 3]", "item 2 is not a string but int"),
        ("[['a boat', 'b']]", "item 1 is not a string but list"),
        ("['a boat', '']", "item 2 is empty"),
        ("['a boat', ' ... ']", "item 2 is empty"),
        ("['a boat', 'he SOLD 5 boats']", "item 2 is equal to the input"),
        ("['a boat', 'two', 'A boat!']", "item 3 is equal to item 1"),
        (json.dumps(["a \ud800 boat"]).encode().decode("unicode_escape"), "not valid Unicode"),
        ("[" * 30_000, "30000 characters long"),
    ],
)
def test_negatives_that_are_none(reply, reason):
    with pytest.raises(InvalidReply) as caught:
        parse_negatives(reply, TEXT)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("noise", ["[", "]", "['", '["', "[]", "['a' ", "\\'", "[[]"])
def test_noise_ends(noise):
    """Brackets and quotes that open and never close: trying each to the end would be quadratic."""
    with pytest.raises(InvalidReply):
        parse_negatives((noise * 20_000)[:19_990], TEXT)


def test_negatives_by_kind():
    reply = "[('Entity', 'She sold 5 boats.'), [\"number\", 'He sold 12 boats.']]"
    want = [("She sold 5 boats.", "entity"), ("He sold 12 boats.", "number")]
    assert parse_negatives(reply, TEXT, kinds=True) == want
    for wrong, reason in [
        ("['She sold 5 boats.']", "item 1 is not a pair"),
        ("[('style', 'x')]", "kind 'style', not one of causality, entity, number"),
        ("[('entity', 5)]", "item 1 is not a string but int"),
        ("[('entity', 'He sold 5 boats')]", "item 1 is equal to the input"),
    ]:
        with pytest.raises(InvalidReply, match=reason):
            parse_negatives(wrong, TEXT, kinds=True)


CODE = "def f(x):\n    return x + 1"


def test_descriptions():
    want = "A function f takes x and returns x plus one."
    for reply in (want, f'"{want}"', f"```\n{want}\n```", f"\n {want} \n", f"<think>hm\n\nhm</think>{want}"):
        assert parse_description(reply, CODE) == want
    assert parse_description("The loop ends by a break statement.", "break;") == "The loop ends by a break statement."
    quoted = 'The string "a" is joined to "b"'
    assert parse_description(quoted, CODE) == quoted


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("  ", "empty"),
        ("''' '''", "empty"),
        ("Here it is:\n\nA function.", "2 lines instead of 1"),
        ("The code def f(x): return x + 1 defines f.", "contains the input verbatim"),
        ("DEF f(x) return x 1", "equal to the input"),
    ],
)
def test_descriptions_that_are_none(reply, reason):
    with pytest.raises(InvalidReply, match=reason):
        parse_description(reply, CODE)


def test_translations():
    assert parse_translation(" Il a vendu 5 bateaux.\n", TEXT) == "Il a vendu 5 bateaux."
    assert parse_translation("« Non »", '"No"') == "« Non »"  # quotes that the text has, too
    assert parse_translation('"Non"', "No") == "Non"
    assert parse_translation("एक नाव", "a boat") == "एक नाव"
    assert parse_translation("un\ndeux", "one\ntwo") == "un\ndeux"
    for reply, reason in [
        ("", "empty"),
        ("he sold 5 boats", "equal to the input"),
        ("Voici :\nIl", "2 lines"),
    ]:
        with pytest.raises(InvalidReply, match=reason):
            parse_translation(reply, TEXT)
