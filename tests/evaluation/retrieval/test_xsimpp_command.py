"""`hf-echo evaluate xsimpp`: the published set and rule negatives, of lines and of a table;
the report says which."""

import json

import numpy as np
import pytest

COMMAND = "evaluate xsimpp"
ENGLISH = ["Three cats sleep.", "The market opens.", "She left Rome."]
FRENCH = ["Trois chats dorment.", "Le marché ouvre.", "Elle a quitté Rome."]
CHANGED = {"Two cats sleep.": {"src": "Three cats sleep.", "errtype": "number"}}
PLACES = {text: place for texts in (ENGLISH, FRENCH) for place, text in enumerate(texts)}


def encoder(texts, lang):
    """A sentence and its translation share a direction;
    so does the changed sentence, nearer to the French one."""
    vectors = np.zeros((len(texts), 5))
    for text, vector in zip(texts, vectors, strict=True):
        vector[PLACES.get(text, 0)] = 1
        if text in ENGLISH:
            vector[4] = 0.5
        elif text not in PLACES and text not in CHANGED:
            vector[3] = 9.0  # negatives by rule are far away
    return vectors


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.any_encoder.any_encoder", lambda name: encoder)
    rows = ["id\tlang\ttext"]
    for name, lang, sentences in (("fr.txt", "fra_Latn", FRENCH), ("en.txt", "eng_Latn", ENGLISH)):
        (tmp_path / name).write_text("\n".join(sentences) + "\n", encoding="utf-8")
        rows += [f"{number}\t{lang}\t{text}" for number, text in enumerate(sentences)]
    (tmp_path / "n.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "errtype.json").write_text(json.dumps(CHANGED), encoding="utf-8")
    return tmp_path


def of_lines(files):
    source = ("--source", files / "fr.txt", "--source-lang", "fra_Latn")
    return ("--model", "m", *source, "--target", files / "en.txt")


def test_the_published_set_of_lines(answer, files):
    report = answer(*of_lines(files), "--negatives", files / "errtype.json")

    assert report["error_rate"] == 0
    # One of the three sentences has its negative nearer than its translation.
    assert report["xsimpp"]["error_rate"] == pytest.approx(100 / 3)
    assert report["xsimpp"]["errors_by_kind/number"] == 1
    assert report["negatives"]["source"] == "published set"
    assert report["negatives"]["count"] == report["negatives"]["sentences"] == 1


def test_rule_negatives_of_lines(answer, files):
    report = answer(*of_lines(files))

    assert report["negatives"]["source"] == "rule negatives"
    assert report["negatives"]["count"] > 1
    assert "file" not in report["negatives"]
    assert report["xsimpp"]["pool"] == 3 + report["negatives"]["count"]


def test_the_published_set_of_a_table(answer, files):
    report = answer(
        "--model", "m", "--data", files / "n.tsv", "--negatives", files / "errtype.json"
    )

    (row,) = report["rows"]
    assert row["lang"] == "fra_Latn"
    assert row["xsim"] == 0
    assert row["pool"] == 4
    # As for the two files: one of three.
    assert row["xsimpp"] == pytest.approx(100 / 3)
    assert report["negatives"]["source"] == "published set"


def test_xsim_with_hard_negatives_says_that_they_are_by_rule(hf_echo_cli, files):
    code, out, err = hf_echo_cli("evaluate", "xsim", *of_lines(files), "--hard-negatives")

    assert code == 0, err
    assert json.loads(out)["negatives"]["source"] == "rule negatives"


def test_a_group_may_be_the_languages_of_a_paper(answer, files):
    report = answer(
        "--model",
        "m",
        "--data",
        files / "n.tsv",
        "--negatives",
        files / "errtype.json",
        "--group",
        "mexma-34",
    )

    (group,) = report["by_mexma-34"]
    assert group["mexma-34"] == "mexma-34"
    assert group["languages"] == 1
    assert group["xsimpp"] == report["average"]["xsimpp"]


def test_the_published_set_of_other_sentences_is_refused(refused, files):
    other = files / "other.json"
    other.write_text('{"a": {"src": "b", "errtype": "c"}}', encoding="utf-8")

    refused(
        "none of its 1 sentences is among the 3 target sentences",
        *of_lines(files),
        "--negatives",
        other,
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--negatives", "en.txt", "en.txt is not JSON"),
        ("--target-lang", "deu_Latn", "rule negatives are English, not deu_Latn"),
    ],
)
def test_what_is_refused_of_lines(refused, files, monkeypatch, option, value, message):
    monkeypatch.chdir(files)

    refused(message, *of_lines(files), option, value)


def test_an_unknown_group_is_refused(refused, files):
    refused(
        "unknown group 'continent'; it must be one of",
        "--model",
        "m",
        "--data",
        files / "n.tsv",
        "--group",
        "continent",
    )
