"""Descriptions and back-translations by a language model:
prompts of Figure 13, replies, rows, and the commands."""

import json

import descriptions
import pytest
from descriptions import (
    Text,
    back_translations,
    describable,
    parse_description,
    parse_translation,
    read_texts,
)

from hf_echo.data import load_parallel
from hf_echo.negatives.language_model import InvalidReply, Reply

from ..refusals import refusals, refuses

CODE = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    "text, start, end",
    [
        (
            Text("f({example})", "cpp"),
            "Translate the following C++ snippet to a single sentence, ensuring",
            "and nothing else:\n\nf({example})",
        ),
        (Text("$x^2$", "latex"), "Describe the following mathematical text in a single", "$x^2$"),
    ],
)
def test_prompts_of_descriptions_are_the_papers(text, start, end):
    (job,) = descriptions.descriptions([text])
    (turn,) = job.messages
    assert turn["role"] == "user"
    assert turn["content"].startswith(start)
    assert turn["content"].endswith(end)


def test_prompts_of_back_translations_are_the_papers():
    french, thai = back_translations(
        [Text("A {language} boat.", "eng_Latn")], ["French", "tha_Thai"]
    )

    system, user = french.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].startswith("You are a helpful translation assistant. You respond only")
    assert user["content"] == (
        "Translate the following text from English into French. Don't produce any other output outside of the"
        " translation.\n\nA {language} boat."
    )
    assert "English into Thai." in thai.messages[1]["content"]


@pytest.mark.parametrize("lang", ["eng_Latn", "python", "klingon"])
def test_what_is_no_language_to_translate_into(lang):
    refuses(lang, list, back_translations([], [lang]))


DESCRIPTION = "A function f takes x and returns x plus one."


@pytest.mark.parametrize(
    "frame", ["{}", '"{}"', "```\n{}\n```", "\n {} \n", "<think>hm\n\nhm</think>{}"]
)
def test_a_description_is_taken_out_of_its_frame(frame):
    assert parse_description(frame.format(DESCRIPTION), CODE) == DESCRIPTION


@pytest.mark.parametrize(
    "reply, code",
    [
        (
            "The loop ends by a break statement.",
            "break;",
        ),  # a single word may occur in its own description
        ('The string "a" is joined to "b"', CODE),  # quotes inside are no frame
    ],
)
def test_a_description_stays_as_it_is(reply, code):
    assert parse_description(reply, code) == reply


@pytest.mark.parametrize(
    "reply, text, translation",
    [
        (" Il a vendu 5 bateaux.\n", "He sold 5 boats.", "Il a vendu 5 bateaux."),
        ("« Non »", '"No"', "« Non »"),  # quotes that the text has, too
        ('"Non"', "No", "Non"),
        ("un\ndeux", "one\ntwo", "un\ndeux"),
    ],
)
def test_translations_of_replies(reply, text, translation):
    assert parse_translation(reply, text) == translation


test_replies_that_are_none = refusals(
    (parse_description, "  ", CODE, "empty"),
    (parse_description, "''' '''", CODE, "empty"),
    (parse_description, "Here it is:\n\nA function.", CODE, "2 lines instead of 1"),
    (
        parse_description,
        "The code def f(x): return x + 1 defines f.",
        CODE,
        "contains the input verbatim",
    ),
    (parse_description, "DEF f(x) return x 1", CODE, "equal to the input"),
    (parse_translation, "", "He sold 5 boats.", "empty"),
    (parse_translation, "he sold 5 boats", "He sold 5 boats.", "equal to the input"),
    (parse_translation, "Voici :\nIl", "He sold 5 boats.", "2 lines"),
    call=lambda parse, reply, text: parse(reply, text),
    error=InvalidReply,
)


class FakeModel:
    model = "fake"

    def __call__(self, messages, parameters):
        text = messages[-1]["content"]
        if "Python" in text:
            return Reply("Calls f.")
        return Reply("¿Uno? " + text[-7:] if "Spanish" in text else "The sum.")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """table(rows) -> path of a file of these rows; the language model is a fake."""
    monkeypatch.setattr(descriptions, "Endpoint", lambda *_, **__: FakeModel())

    def write(rows):
        path = tmp_path / "in.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def command(run_main, table, tmp_path):
    """command(name, *options) on rows as source_code.py and latex.py write them:
    (code, printed, errors, file)."""
    rows = [
        {"id": "a", "language": "python", "text": "f(x)", "class": "code"},
        {"id": "b", "language": "latex", "text": "$a + b$", "class": "inline"},
        {"id": "c", "language": "latex", "text": "Let $x$ be.", "class": "sentence"},
    ]
    path = table(rows)
    out = tmp_path / "out.jsonl"

    def call(name, *options):
        commands = [descriptions.describe, descriptions.back_translate]
        return *run_main(commands, name, path, out, *options, "--model", "m"), out

    return call


def test_the_command_describes_code_or_latex(command):
    code, printed, _, out = command("describe")

    assert code == 0
    assert json.loads(printed)["answered"] == 3
    rows = [(row["source_lang"], row["target"], row["provenance"]) for row in load_parallel(out)]
    assert rows[:2] == [("python", "Calls f.", "code"), ("latex", "The sum.", "math")]


def test_the_command_translates_one_class(command):
    code, _, _, out = command("back-translate", "--only", "sentence", "--to", "spa_Latn")

    assert code == 0
    (row,) = load_parallel(out)
    assert (row["source"], row["source_lang"], row["target"]) == (
        "¿Uno? $x$ be.",
        "spa_Latn",
        "Let $x$ be.",
    )
    assert (row["target_lang"], row["provenance"]) == ("eng_Latn", "back_translation")


def test_the_command_names_a_class_without_rows(command):
    code, _, err, _ = command("describe", "--only", "none")
    assert code == 2
    assert "no usable row of class 'none'" in err


GOOD = {"text": "a", "lang": "c"}
EMPTY = {"text": "", "lang": "c"}
test_refusals = refusals(
    ([{"words": "a b"}], {}, "has no column of texts .*found: words"),
    ([{"text": "a b"}], {}, "has no column of language"),
    ([{"text": "a b"}], {"lang": "python", "only": "code"}, "has no column class to choose 'code'"),
    ([GOOD, EMPTY], {}, "row 2: .*1 bad rows"),
    ([{"text": "a b"}], {"lang": "eng_Latn"}, "row 1: eng_Latn is neither code nor latex"),
    call=lambda rows, options, table: read_texts(table(rows), describable, **options),
)


def test_bad_rows_are_skipped_by_option(table, caplog):
    assert len(read_texts(table([GOOD, EMPTY]), describable, on_bad_row="skip")) == 1
    assert "skipped 1 bad row" in caplog.text


def test_quotes_of_a_tsv_are_text(tmp_path):
    (tmp_path / "a.tsv").write_text(
        'text\tlang\n"Well," he said\teng_Latn\n"No\teng_Latn\nNA\teng_Latn\n'
    )
    texts = read_texts(tmp_path / "a.tsv", descriptions.translatable)
    assert [text for text, _ in texts] == ['"Well," he said', '"No', "NA"]


def test_a_missing_file_is_named():
    refuses(
        "no file nowhere.jsonl; give a table",
        read_texts,
        "nowhere.jsonl",
        describable,
        error=FileNotFoundError,
    )
