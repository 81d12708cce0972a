"""Descriptions and back-translations by a language model: prompts of Figure 13, replies, rows, and the commands."""

import json

import descriptions
import pytest
from descriptions import Text, back_translations, describable, parse_description, parse_translation, read_texts

from hf_echo.data import load_parallel
from hf_echo.negatives.language_model import InvalidReply, Reply

from ..refusals import refusals, refuses

CODE = "def f(x):\n    return x + 1"


def test_prompts_of_the_figures():
    code, math = descriptions.descriptions([Text("f({example})", "cpp"), Text("$x^2$", "latex")])
    (turn,) = code.messages
    assert turn["role"] == "user" and turn["content"].endswith("and nothing else:\n\nf({example})")
    assert turn["content"].startswith("Translate the following C++ snippet to a single sentence, ensuring")
    assert math.messages[0]["content"].startswith("Describe the following mathematical text in a single")
    first, second = back_translations([Text("A {language} boat.", "eng_Latn")], ["French", "tha_Thai"])
    assert [turn["role"] for turn in first.messages] == ["system", "user"]
    assert first.messages[0]["content"].startswith("You are a helpful translation assistant. You respond only")
    assert first.messages[1]["content"] == (
        "Translate the following text from English into French. Don't produce any other output outside of the"
        " translation.\n\nA {language} boat."
    )
    assert "English into Thai." in second.messages[1]["content"]
    for wrong in ("eng_Latn", "python", "klingon"):
        refuses(wrong, list, back_translations([], [wrong]))


def test_valid_replies():
    want = "A function f takes x and returns x plus one."
    for reply in (want, f'"{want}"', f"```\n{want}\n```", f"\n {want} \n", f"<think>hm\n\nhm</think>{want}"):
        assert parse_description(reply, CODE) == want
    assert parse_description("The loop ends by a break statement.", "break;") == "The loop ends by a break statement."
    quoted = 'The string "a" is joined to "b"'
    assert parse_description(quoted, CODE) == quoted
    assert parse_translation(" Il a vendu 5 bateaux.\n", "He sold 5 boats.") == "Il a vendu 5 bateaux."
    assert parse_translation("« Non »", '"No"') == "« Non »"  # quotes that the text has, too
    assert parse_translation('"Non"', "No") == "Non"
    assert parse_translation("un\ndeux", "one\ntwo") == "un\ndeux"


test_replies_that_are_none = refusals(
    (parse_description, "  ", CODE, "empty"),
    (parse_description, "''' '''", CODE, "empty"),
    (parse_description, "Here it is:\n\nA function.", CODE, "2 lines instead of 1"),
    (parse_description, "The code def f(x): return x + 1 defines f.", CODE, "contains the input verbatim"),
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
        return Reply("Calls f." if "Python" in text else "¿Uno? " + text[-7:] if "Spanish" in text else "The sum.")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """table(rows) -> path of a file of these rows; the language model is a fake."""
    monkeypatch.setattr(descriptions, "Endpoint", lambda *_, **__: FakeModel())

    def write(rows):
        path = tmp_path / "in.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def test_rows_of_code_and_latex_are_read_class_by_class(run_main, table, tmp_path):
    """What source_code.py and latex.py write is read as it is."""
    rows = [("a", "python", "f(x)", "code"), ("b", "latex", "$a + b$", "inline")]
    rows.append(("c", "latex", "Let $x$ be.", "sentence"))
    path = table([dict(zip(("id", "language", "text", "class"), row)) for row in rows])
    out = tmp_path / "out.jsonl"

    def call(*arguments):
        return run_main([descriptions.describe, descriptions.back_translate], *arguments, "--model", "m")

    code, printed, _ = call("describe", path, out)
    assert code == 0 and json.loads(printed)["answered"] == 3
    rows = [(r["source_lang"], r["target"], r["provenance"]) for r in load_parallel(out)]
    assert rows[:2] == [("python", "Calls f.", "code"), ("latex", "The sum.", "math")]
    assert call("back-translate", path, out, "--only", "sentence", "--to", "spa_Latn")[0] == 0
    (row,) = load_parallel(out)
    assert (row["source"], row["source_lang"], row["target"]) == ("¿Uno? $x$ be.", "spa_Latn", "Let $x$ be.")
    assert (row["target_lang"], row["provenance"]) == ("eng_Latn", "back_translation")
    code, _, err = call("describe", path, out, "--only", "none")
    assert code == 2 and "no usable row of class 'none'" in err


GOOD, EMPTY = {"text": "a", "lang": "c"}, {"text": "", "lang": "c"}
test_refusals = refusals(
    ([{"words": "a b"}], {}, "has no column of texts .*found: words"),
    ([{"text": "a b"}], {}, "has no column of language"),
    ([{"text": "a b"}], {"lang": "python", "only": "code"}, "has no column class to choose 'code'"),
    ([GOOD, EMPTY], {}, "row 2: .*1 bad rows"),
    ([{"text": "a b"}], {"lang": "eng_Latn"}, "row 1: eng_Latn is neither code nor latex"),
    call=lambda rows, options, table: read_texts(table(rows), describable, **options),
)


def test_bad_rows_and_missing_files(table, caplog, tmp_path):
    assert len(read_texts(table([GOOD, EMPTY]), describable, on_bad_row="skip")) == 1
    (tmp_path / "a.tsv").write_text('text\tlang\n"Well," he said\teng_Latn\n"No\teng_Latn\nNA\teng_Latn\n')
    texts = read_texts(tmp_path / "a.tsv", descriptions.translatable)
    assert [text for text, _ in texts] == ['"Well," he said', '"No', "NA"]
    assert "skipped 1 bad row" in caplog.text
    refuses("no file nowhere.jsonl; give a table", read_texts, "nowhere.jsonl", describable, error=FileNotFoundError)
