"""Curves of a token stage: which checkpoints, tags by projection,
and the files that a run of the script writes."""

import json
import shutil
import sys

import pandas as pd
import pytest
import token_curves

from hf_echo.evaluation.tokens.alignment import read_alignment

pytest.importorskip("sklearn")


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    for step in (100, 20, 3):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "config.json").write_text("{}")
    (tmp_path / "checkpoint-40").mkdir()  # one that was not written whole

    assert list(token_curves.saved_checkpoints(tmp_path)) == [3, 20, 100]


def test_a_run_without_checkpoints_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no checkpoint; train with save_steps"):
        token_curves.saved_checkpoints(tmp_path)


def test_tags_of_english_words():
    words = ["In", "1742", "he", "and", "I", "met", "Maria", "of", "St.", "Albans", "3rd"]

    tags = token_curves.silver_tags(words)

    assert tags == ["O", "NUMBER", "O", "O", "O", "O", "NAME", "O", "NAME", "NAME", "NUMBER"]


def pair(source: str, source_lang: str, target: str, target_lang: str, links: str):
    row = {"src_tokens": source.split(), "tgt_tokens": target.split(), "alignment": links}
    return read_alignment(row | {"src_lang": source_lang, "tgt_lang": target_lang}, "row")


def row(words: str, tags: str, lang: str):
    return {"tokens": words.split(), "tags": tags.split(), "lang": lang}


def test_tags_go_where_the_links_go():
    english = pair(
        "He met Anna in 1742",
        "eng_Latn",
        "En 1742 il rencontre Anna",
        "fra_Latn",
        "0-2 1-3 2-4 3-0 4-1",
    )
    german = pair(
        "1742 traf er Anna dort",
        "deu_Latn",
        "he met Anna there in 1742",
        "eng_Latn",
        "0-5 1-1 2-0 3-2",
    )

    train, test = token_curves.projected([german, english])
    _, german_test = token_curves.projected([english, german])

    # Tags go from the English words along the links, whichever side English is on.
    assert train == [
        {
            "tokens": ["he", "met", "Anna", "there", "in", "1742"],
            "tags": ["O", "O", "NAME", "O", "O", "NUMBER"],
            "lang": "eng_Latn",
        }
    ]
    assert test == [
        {
            "tokens": ["En", "1742", "il", "rencontre", "Anna"],
            "tags": ["O", "NUMBER", "O", "O", "NAME"],
            "lang": "fra_Latn",
        }
    ]
    assert german_test == [
        {
            "tokens": ["1742", "traf", "er", "Anna", "dort"],
            "tags": ["NUMBER", "O", "O", "NAME", "O"],
            "lang": "deu_Latn",
        }
    ]


def test_pairs_without_english_have_no_tags():
    french = pair("il dort", "fra_Latn", "er schläft", "deu_Latn", "0-0 1-1")

    assert token_curves.projected([french, french]) == ([], [])


@pytest.fixture
def start(toy, toy_tokenizer, tmp_path):
    """A random model."""
    return toy.save(tmp_path / "start", toy.make_model(toy_tokenizer, seed=5), toy_tokenizer)


@pytest.fixture
def run_folder(toy_folders, start, tmp_path):
    """A run whose checkpoint 2 is the random model, and its checkpoint 10 the trained toy."""
    run = tmp_path / "run"
    shutil.copytree(start, run / "checkpoint-2")
    shutil.copytree(toy_folders["training"], run / "checkpoint-10")
    return run


@pytest.fixture
def alignment_file(toy, tmp_path):
    """Toy sentences, a word for a word; the animal has a capital, as a name has."""
    rows = []
    for meaning in toy.split("dev"):
        english, french = (toy.say(meaning, lang)[:-1].split() for lang in ("eng_Latn", "fra_Latn"))
        english[2] = english[2].title()
        links = "0-0 1-1 2-2 3-3"
        rows.append((english, french, links, "eng_Latn", "fra_Latn"))
    file = tmp_path / "alignment.parquet"
    columns = ["src_tokens", "tgt_tokens", "alignment", "src_lang", "tgt_lang"]
    pd.DataFrame(rows, columns=columns).to_parquet(file)
    return file


def test_curves_show_what_was_learnt(toy, run_folder, start, alignment_file, tmp_path, monkeypatch):
    nway = tmp_path / "nway.parquet"
    pd.DataFrame(toy.nway_rows()).astype(str).to_parquet(nway)
    out = tmp_path / "out"
    words = [
        run_folder,
        "--start",
        start,
        "--alignment",
        alignment_file,
        "--nway",
        nway,
        "--out",
        out,
    ]
    monkeypatch.setattr(sys, "argv", ["token_curves.py", *map(str, words)])

    token_curves.main()

    rows = json.loads((out / "curves.json").read_text())["rows"]
    assert [row["step"] for row in rows] == [0, 2, 10]
    first, same_as_first, trained = (
        {name: row[name] for name in token_curves.CURVES} for row in rows
    )
    # Step 2 has learnt nothing yet; step 10 has.
    assert first == pytest.approx(same_as_first)
    assert trained["xsim++"] < 40 < first["xsim++"]
    assert trained["AER"] < first["AER"]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "curves.md").read_text().splitlines()) == 2 + len(rows)


def test_the_start_is_what_the_record_of_the_run_names(tmp_path):
    record = {"stage": "token", "values": {"model_name_or_path": "outputs/nano-omni/1_extension"}}
    (tmp_path / "recipe.json").write_text(json.dumps(record))

    assert token_curves.first_model(tmp_path) == "outputs/nano-omni/1_extension"


def test_a_folder_without_a_record_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no recipe.json; give the folder of a stage"):
        token_curves.first_model(tmp_path)
