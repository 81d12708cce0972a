"""Hard negatives by a language model: the prompt of Figure 15, what is an answer and what is none,
the command."""

import json

import pytest

from hf_echo.data import load_parallel
from hf_echo.negatives.language_model import InvalidReply
from hf_echo.negatives.written import EXAMPLES, negatives, parse_negatives

from ..refusals import refusals

COMMAND = "data negatives"
TEXT = "He sold 5 boats."
GOOD = ["She sold 5 boats.", "He sold 12 boats.", "He didn't sell 5 boats."]


def test_the_prompt_is_that_of_the_figure():
    (job,) = negatives([{"target": "A {boat}.", "target_lang": "eng_Latn"}])
    (turn,) = job.messages
    assert turn["role"] == "user"
    assert turn["content"].endswith("Input sentence to transform: A {boat}.")
    assert 'Input: Tonight will be long.\nOutput: [\n"Yesterday may be long",\n' in turn["content"]
    assert "Output ONLY a Python list of 1-5 modified sentences" in turn["content"]


@pytest.mark.parametrize("text, wrong", EXAMPLES)
def test_the_examples_of_the_figure_are_answers(text, wrong):
    assert parse_negatives(json.dumps(wrong), text) == wrong


DRESSES = [
    str(GOOD),
    json.dumps(GOOD),
    json.dumps(GOOD, indent=2),
    "```python\n" + str(GOOD) + "\n```",
    "Sure! Here are [3] sentences, it's easy:\n\n```\n"
    + json.dumps(GOOD)
    + "\n```\nDone [really].",
    f"Here you are: {GOOD}. I hope that's fine.",
    '<think>["He sold 5 boats."] no, that\'s the same.</think>\n' + str(GOOD),
    "[\n'She sold 5 boats.',\n'He sold 12 boats.',\n\"He didn't  sell\\n5 boats.\",\n]",
]
NO_LISTS = [
    "I cannot do that.",
    "[1, 2]",
    "['a', 'b'",
    '["She sold 5 boats.", "He sold',
    "[f'{x}', 'b']",
    "[__import__('os').getcwd()]",
    '["She sold 5 boats." "He sold 12 boats."]',  # a comma is missing
]


@pytest.mark.parametrize("reply", DRESSES)
def test_negatives_in_every_dress(reply):
    assert parse_negatives(reply, TEXT) == GOOD


def test_signs_of_lists_inside_sentences():
    sentences = ['She said "no ] way".', "It's [5] o'clock", "naïve \\ café 😀", "a/b"]

    assert parse_negatives(str(sentences), TEXT) == sentences
    assert parse_negatives(json.dumps(sentences), TEXT) == sentences


def test_escapes_of_json_are_read():
    assert parse_negatives(r'["caf\u00e9 \ud83d\ude00 a\/b"]', TEXT) == ["café 😀 a/b"]


test_negatives_that_are_none = refusals(
    *[(reply, "empty") for reply in ("", "<think>hm</think>")],
    *[(reply, "no Python list") for reply in NO_LISTS],
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
    call=lambda reply: parse_negatives(reply, TEXT),
    error=InvalidReply,
)


@pytest.mark.parametrize("noise", ["[", "]", "['", '["', "[]", "['a' ", "\\'", "[[]"])
def test_what_opens_without_a_close_is_refused_in_time(noise):
    """Trying each to the end would be quadratic."""
    with pytest.raises(InvalidReply):
        parse_negatives((noise * 20_000)[:19_990], TEXT)


PAIR = {
    "source": "x",
    "source_lang": "fra_Latn",
    "target": TEXT,
    "target_lang": "eng_Latn",
    "provenance": "mined",
}


@pytest.fixture
def table(tmp_path):
    """An English target with negatives, and a French one."""
    rows = [
        {**PAIR, "hard_negatives": ["he sold 12 boats", "Old."]},
        {
            **PAIR,
            "target": "Il a vendu 5 bateaux.",
            "target_lang": "fra_Latn",
            "source": "y",
            "hard_negatives": [],
        },
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "in.jsonl"


@pytest.fixture
def options(server):
    server.script = lambda request, times: str(GOOD)
    return ("--model", "m", "--endpoint", server.url)


def test_only_english_targets_are_asked_for(run, table, options, tmp_path):
    code, out, _ = run(table, tmp_path / "out.jsonl", *options)

    counts = json.loads(out)
    assert code == 0
    assert counts["answered"] == 1
    assert counts["not_asked"] == 1
    assert load_parallel(tmp_path / "out.jsonl")["hard_negatives"][1] == []


def test_negatives_stay_while_none_comes_twice(run, table, options, tmp_path):
    run(table, tmp_path / "out.jsonl", *options)

    negatives_of_rows = load_parallel(tmp_path / "out.jsonl")["hard_negatives"]
    assert negatives_of_rows[0] == ["he sold 12 boats", "Old.", GOOD[0], GOOD[2]]


def test_the_key_is_sent_but_not_kept(run, table, options, server, tmp_path, monkeypatch):
    keys = []
    note_key = lambda handler, *_: keys.append(handler.headers["Authorization"])  # noqa: E731
    monkeypatch.setattr(server.RequestHandlerClass, "log_request", note_key)
    monkeypatch.setenv("MY_KEY", "secret")
    run(table, tmp_path / "out.jsonl", *options, "--api-key-env", "MY_KEY")
    assert keys == ["Bearer secret"]
    assert b"secret" not in (tmp_path / "out.replies.sqlite").read_bytes()


def test_a_missing_table_is_named(refused, options, tmp_path):
    refused("none.tsv: no such file", tmp_path / "none.tsv", tmp_path / "out.jsonl", *options)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--on-bad-row", "no", "must be"),
        ("--attempts", 0, "attempts"),
        ("--temperature", "nan", "temperature"),
    ],
)
def test_a_wrong_option_is_refused(refused, table, options, tmp_path, option, value, message):
    refused(message, table, tmp_path / "out.jsonl", *options, option, value)
