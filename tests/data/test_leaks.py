"""Test sentences in training text: counted by letters and digits, in all formats."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data.leaks import find_leaks, text_columns

from ..refusals import refuses


@pytest.fixture
def pairs(tmp_path):
    """Training pairs; two of their texts are spelled like a test sentence."""
    rows = {
        "src_lang": ["eng_Latn"] * 3,
        "src": ["Good  morning!", "See you.", "Thanks."],
        "tgt_lang": ["fra_Latn"] * 3,
        "tgt": ["Bonjour", "\u00c0 demain", "MERCI"],
        "source": ["package"] * 3,
    }
    pq.write_table(pa.table(rows), tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


def texts(path, *sentences):
    """An n-way table of test sentences."""
    path.parent.mkdir(exist_ok=True)
    languages = ["fra_Latn"] * len(sentences)
    pq.write_table(
        pa.table({"id": range(len(sentences)), "lang": languages, "text": list(sentences)}), path
    )
    return path


def test_case_spaces_punctuation_do_not_count(pairs, tmp_path):
    test = texts(tmp_path / "held" / "test.parquet", "good morning", "Merci.", "Salut")
    report = find_leaks(pairs, test)
    assert report["leaks"] == 2
    assert report["examples"] == ["Merci.", "good morning"]


def test_a_sentence_that_contains_another_is_no_leak(pairs, tmp_path):
    test = texts(tmp_path / "held" / "test.parquet", "Good morning to you")
    assert find_leaks(pairs, test)["leaks"] == 0


def test_texts_without_letters_are_compared_as_they_are(tmp_path):
    train = texts(tmp_path / "train.parquet", "!!!", "?")
    test = texts(tmp_path / "held" / "test.parquet", "?", "...")
    assert find_leaks(train, test)["examples"] == ["?"]


def test_leaks_are_counted_by_file(pairs, tmp_path):
    test = texts(tmp_path / "held" / "test.parquet", "Thanks")
    report = find_leaks(tmp_path, test)
    assert report["files"] == {str(pairs): 1}


def test_test_files_in_the_training_folder_are_no_training_text(pairs, tmp_path):
    texts(tmp_path / "test" / "a.parquet", "Salut")
    assert find_leaks(tmp_path, tmp_path / "test")["leaks"] == 0


def test_text_files_are_compared_too(tmp_path):
    (tmp_path / "train.txt").write_text("One.\nTwo.\n")
    (tmp_path / "test.tsv").write_text(
        "source\tsource_lang\ttarget\ttarget_lang\nTWO\teng_Latn\tZwei\tdeu_Latn\n"
    )
    assert find_leaks(tmp_path / "train.txt", tmp_path / "test.tsv")["examples"] == ["TWO"]


def test_a_column_source_of_packages_is_no_text():
    assert text_columns(["src_lang", "src", "tgt_lang", "tgt", "source"]) == ["src", "tgt"]


def test_a_folder_of_test_files_alone_is_refused(tmp_path):
    test = texts(tmp_path / "test.parquet", "a")
    refuses("holds nothing but the test files", find_leaks, tmp_path, test)


def test_an_empty_test_set_is_refused(pairs, tmp_path):
    test = texts(tmp_path / "held" / "test.parquet")
    refuses("has no sentence", find_leaks, pairs, test)


def test_the_command_prints_the_counts(pairs, tmp_path, hf_echo_cli):
    test = texts(tmp_path / "held" / "test.parquet", "Thanks")
    code, out, _ = hf_echo_cli("data", "leaks", pairs, test)
    assert code == 0
    assert '"leaks": 1' in out
