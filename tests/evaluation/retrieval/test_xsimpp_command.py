"""`hf-echo evaluate xsimpp`: the published set and rule negatives, of lines and of a table; the report says which."""

import json

import numpy as np
import pytest

COMMAND = "evaluate xsimpp"
ENGLISH = ["Three cats sleep.", "The market opens.", "She left Rome."]
FRENCH = ["Trois chats dorment.", "Le marché ouvre.", "Elle a quitté Rome."]
CHANGED = {"Two cats sleep.": {"src": "Three cats sleep.", "errtype": "number"}}
PLACES = {text: place for texts in (ENGLISH, FRENCH) for place, text in enumerate(texts)}


def encoder(texts, lang):
    """A sentence and its translation share a direction; so does the changed sentence, nearer to the French one."""
    vectors = []
    for text in texts:
        vector = np.zeros(5)
        vector[PLACES.get(text, 0)] = 1
        if lang == "eng_Latn" and text in ENGLISH:
            vector[4] = 0.5
        vector[3] = 0.0 if text in PLACES or text in CHANGED else 9.0  # negatives by rule are far away
        vectors.append(vector)
    return np.array(vectors)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.any_encoder.any_encoder", lambda name: encoder)
    (tmp_path / "fr.txt").write_text("\n".join(FRENCH) + "\n", encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    rows = ["id\tlang\ttext"]
    rows += [f"{i}\tfra_Latn\t{text}" for i, text in enumerate(FRENCH)]
    rows += [f"{i}\teng_Latn\t{text}" for i, text in enumerate(ENGLISH)]
    (tmp_path / "n.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "errtype.json").write_text(json.dumps(CHANGED), encoding="utf-8")
    return tmp_path


def of_lines(files):
    source = ("--source", files / "fr.txt", "--source-lang", "fra_Latn")
    return ("--model", "m", *source, "--target", files / "en.txt")


def test_the_published_set_of_lines(answer, files):
    report = answer(*of_lines(files), "--negatives", files / "errtype.json")

    assert report["error_rate"] == 0
    assert report["xsimpp"]["error_rate"] == pytest.approx(100 / 3)
    assert report["xsimpp"]["errors_by_kind/number"] == 1
    assert report["negatives"]["source"] == "published set"
    assert (report["negatives"]["count"], report["negatives"]["sentences"]) == (1, 1)


def test_rule_negatives_of_lines(answer, files):
    report = answer(*of_lines(files))

    assert report["negatives"]["source"] == "rule negatives"
    assert report["negatives"]["count"] > 1 and "file" not in report["negatives"]
    assert report["xsimpp"]["pool"] == 3 + report["negatives"]["count"]


def test_the_published_set_of_a_table(answer, files):
    report = answer("--model", "m", "--data", files / "n.tsv", "--negatives", files / "errtype.json")

    (row,) = report["rows"]
    assert (row["lang"], row["xsim"], row["pool"]) == ("fra_Latn", 0, 4)
    assert row["xsimpp"] == pytest.approx(100 / 3)
    assert report["negatives"]["source"] == "published set"


def test_xsim_with_hard_negatives_says_that_they_are_by_rule(hf_echo_cli, files):
    code, out, err = hf_echo_cli("evaluate", "xsim", *of_lines(files), "--hard-negatives")

    assert code == 0, err
    assert json.loads(out)["negatives"]["source"] == "rule negatives"


def test_a_group_may_be_the_languages_of_a_paper(answer, files):
    report = answer(
        "--model", "m", "--data", files / "n.tsv", "--negatives", files / "errtype.json", "--group", "mexma-34"
    )

    (group,) = report["by_mexma-34"]
    assert (group["mexma-34"], group["languages"]) == ("mexma-34", 1)
    assert group["xsimpp"] == report["average"]["xsimpp"]


def test_what_is_refused(refused, files):
    (files / "other.json").write_text('{"a": {"src": "b", "errtype": "c"}}', encoding="utf-8")
    lines = of_lines(files)
    refused("none of its 1 sentences is among the 3 target sentences", *lines, "--negatives", files / "other.json")
    refused("en.txt is not JSON", *lines, "--negatives", files / "en.txt")
    refused("rule negatives are English, not deu_Latn", *lines, "--target-lang", "deu_Latn")
    refused("by is 'continent'; it must be one of", "--model", "m", "--data", files / "n.tsv", "--group", "continent")
