"""Bitext retrieval on a folder of test sets, against a search in numpy and mteb's own reader of
result files."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.evaluation.benchmarks.bitext import (
    bitext_files,
    measure_bitext,
    read_bitext,
    summary,
    write_task_results,
)
from hf_echo.evaluation.result_files import read_result

COMMAND = "evaluate bitext"
ENGLISH = ["The cat sleeps.", "It is raining.", "We have bread.", "Paris is large."]
FRENCH = ["Le chat dort.", "Il pleut.", "Nous avons du pain.", "Paris est grande."]
GERMAN = ["Die Katze schläft.", "Es regnet.", "Wir haben Brot.", "Paris ist groß."]


def random_vectors(texts, lang):
    """A vector of size 3 for each text, drawn by its letters:
    some sentences find a wrong translation."""
    vectors = []
    for text in texts:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        vectors.append(np.random.default_rng(seed).normal(size=3))
    return np.array(vectors, dtype=np.float32)


@pytest.fixture
def folder(tmp_path):
    """An n-way set of three languages, and a set of two pairs with English."""
    folder = tmp_path / "test"
    folder.mkdir()
    rows = {"id": [], "lang": [], "text": []}
    for lang, texts in (("eng_Latn", ENGLISH), ("fra_Latn", FRENCH), ("deu_Latn", GERMAN)):
        rows["id"] += [str(number) for number in range(len(texts))]
        rows["lang"] += [lang] * len(texts)
        rows["text"] += texts
    pq.write_table(pa.table(rows), folder / "news.parquet")
    pairs = {
        "src_lang": ["eng_Latn"] * 2,
        "src": ENGLISH[:2],
        "tgt_lang": ["fra_Latn", "deu_Latn"],
        "tgt": [FRENCH[0], GERMAN[1]],
    }
    pq.write_table(pa.table(pairs), folder / "everyday.parquet")
    return folder


def test_xsim_of_each_language_is_that_of_a_search_in_numpy(folder):
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"))

    english = random_vectors(ENGLISH, None)
    english /= np.linalg.norm(english, axis=1, keepdims=True)
    expected = {}
    for lang, texts in (("fra_Latn", FRENCH), ("deu_Latn", GERMAN)):
        nearest = (random_vectors(texts, None) @ english.T).argmax(1)
        expected[lang] = 100 * np.mean(nearest != np.arange(4))
    assert {row["lang"]: row["xsim"] for row in table.rows} == pytest.approx(expected)
    assert sum(expected.values()) > 0  # else any measure would pass


def test_pairs_with_english_are_candidates_of_their_language_alone(folder):
    table = measure_bitext(random_vectors, read_bitext(folder / "everyday.parquet"))

    assert {row["lang"]: row["count"] for row in table.rows} == {"fra_Latn": 1, "deu_Latn": 1}


def test_sentences_of_the_training_text_are_left_out_in_all_languages(folder, tmp_path):
    train = tmp_path / "train.txt"
    train.write_text("IL PLEUT\n", encoding="utf-8")

    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"), train=train)

    assert table.notes["leaked"] == 1
    assert [row["count"] for row in table.rows] == [3, 3]


def test_the_training_text_may_hold_all_sentences(folder, tmp_path):
    train = tmp_path / "train.txt"
    train.write_text("\n".join(ENGLISH), encoding="utf-8")

    with pytest.raises(ValueError, match="all of its sentences stand in"):
        measure_bitext(random_vectors, read_bitext(folder / "news.parquet"), train=train)


def test_languages_are_measured_where_a_set_has_them(folder):
    texts = read_bitext(folder / "news.parquet")

    table = measure_bitext(random_vectors, texts, languages=["swh_Latn", "deu_Latn"])

    assert [row["lang"] for row in table.rows] == ["deu_Latn"]


def test_a_set_with_none_of_the_languages_is_refused(folder):
    with pytest.raises(ValueError, match="none of swh_Latn"):
        measure_bitext(random_vectors, read_bitext(folder / "news.parquet"), languages=["swh_Latn"])


def test_the_limit_counts_sentences_of_a_language(folder):
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"), limit=2)

    assert [row["count"] for row in table.rows] == [2, 2]


def test_an_unknown_set_is_refused_with_those_that_there_are(folder):
    with pytest.raises(ValueError, match="no set 'flores'; it has everyday, news"):
        bitext_files(folder, ["flores"])


def test_a_summary_has_the_mean_over_languages(folder):
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"))

    (row,) = summary({"news": table}).rows

    mean = np.mean([entry["xsim"] for entry in table.rows])
    assert row == {"set": "news", "languages": 2, "sentences": 4, "leaked": None, "xsim": mean}


def test_mteb_reads_the_result_files(folder, tmp_path):
    mteb = pytest.importorskip("mteb")
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"))

    (file,) = write_task_results({"news": table}, "org/model", tmp_path / "out", {"news": 1.5})

    # mteb itself reads the file.
    result = mteb.results.TaskResult.from_disk(file)
    assert result.task_name == "news"
    scores = {score["hf_subset"]: score["accuracy"] for score in result.scores["test"]}
    # Accuracy and error rate sum up to one.
    expected = {f"{row['lang']}-eng_Latn": 1 - row["xsim"] / 100 for row in table.rows}
    assert scores == pytest.approx(expected)


def test_result_files_can_be_averaged(folder, tmp_path):
    pytest.importorskip("mteb")
    table = measure_bitext(random_vectors, read_bitext(folder / "news.parquet"))
    (file,) = write_task_results({"news": table}, "org/model", tmp_path / "out", {"news": 1.5})

    name, scores = read_result(file)

    # The average that was written, as percent right.
    assert name == "news"
    assert scores.average["score"] == pytest.approx(100 - table.average["xsim"])


def test_the_command_measures_all_sets(folder, toy_folders, answer):
    report = answer(toy_folders["release"], "--data", folder, "--lang", "French")

    assert [row["set"] for row in report["rows"]] == ["everyday", "news"]
    assert [row["lang"] for row in report["languages"]["news"]] == ["fra_Latn"]


@pytest.fixture
def folder_without_english(folder):
    """The sets, and one more of two languages: `bible_more` of the public test sets has no English."""
    rows = {"id": ["1", "1"], "lang": ["fra_Latn", "deu_Latn"], "text": [FRENCH[0], GERMAN[0]]}
    pq.write_table(pa.table(rows), folder / "old.parquet")
    return folder


def test_the_command_leaves_out_a_set_without_english(folder_without_english, toy_folders, answer):
    report = answer(toy_folders["release"], "--data", folder_without_english, "--lang", "French")

    assert [row["set"] for row in report["rows"]] == ["everyday", "news"]
    assert report["left_out"] == {"old": "no rows in eng_Latn, into which the others are searched"}


def test_a_named_set_without_english_is_refused(folder_without_english, toy_folders, run):
    arguments = ["--data", folder_without_english, "--set", "old"]
    code, _, err = run(toy_folders["release"], *arguments)
    assert code == 2
    assert "old.parquet: no rows in eng_Latn" in err


def test_a_folder_of_which_no_set_has_the_language_is_refused(folder, toy_folders, run):
    code, _, err = run(toy_folders["release"], "--data", folder, "--lang", "swh_Latn")
    assert code == 2
    assert "has no set that can be measured" in err


def test_a_folder_without_sets_says_which_command_writes_them(tmp_path, refused, toy_folders):
    refused("hf-echo data download", toy_folders["release"], "--data", tmp_path)


def test_without_data_the_public_sets_are_asked_for(run, toy_folders, monkeypatch, tmp_path):
    """Nobody is there to answer; what would be downloaded is said before."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run(toy_folders["release"])
    assert code == 2
    assert "flores_devtest" in err
    assert "add --yes to download it, or give --data FOLDER" in err
