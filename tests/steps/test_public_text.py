"""Journeys without a folder of corpora: what they download, the question before it,
and the mix that follows."""

import io
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from hf_echo.data.sources import SOURCES, downloading, table
from hf_echo.data.sources.origins import GitRepository
from hf_echo.data.sources.rows import PAIR_COLUMNS
from hf_echo.data.sources.table import Source
from hf_echo.steps import public_text
from hf_echo.steps.recipe import find_recipes

COMMAND = "train"
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]


def test_a_journey_reads_the_sources_of_its_tables():
    names = public_text.public_sources(find_recipes("echo-nano"), {})
    assert {"ntrex", "flores_sib", "tatoeba_challenge", "bible"} <= set(names)


def test_test_splits_are_downloaded_too():
    assert {"flores_devtest", "tatoeba_laser"} <= set(
        public_text.public_sources(find_recipes("echo-nano"), {})
    )


def test_research_text_is_not_taken_for_a_journey():
    names = public_text.public_sources(find_recipes("echo-nano"), {})
    assert all(SOURCES[name].license != "research" for name in names)


def test_a_folder_of_the_user_is_no_download():
    assert public_text.public_sources(find_recipes("echo-nano"), {"corpora": "mine"}) == []


@pytest.mark.parametrize("journey", ["nano-real", "nano-mexma", "nano-emma-x", "echo-nano-speech"])
def test_journeys_on_real_text_start_without_a_folder(journey):
    names = public_text.public_sources(find_recipes(journey), {})
    assert {"tatoeba_challenge", "flores_devtest"} <= set(names)


def test_a_journey_without_that_step_downloads_nothing():
    assert public_text.public_sources(find_recipes("nano"), {}) == []


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The only public source: a repository of two pairs on this machine."""
    place = tmp_path / "host" / "me" / "words"
    place.mkdir(parents=True)
    # A git repository with two pairs, which may be fetched in part.
    (place / "pairs.tsv").write_text("Good morning.\tBonjour.\nSee you.\tA bientot.\n")
    subprocess.run([*GIT, "init", "--quiet", place], check=True)
    subprocess.run([*GIT, "-C", place, "config", "uploadpack.allowFilter", "true"], check=True)
    subprocess.run(
        [*GIT, "-C", place, "config", "uploadpack.allowAnySHA1InWant", "true"], check=True
    )
    subprocess.run([*GIT, "-C", place, "add", "."], check=True)
    subprocess.run([*GIT, "-C", place, "commit", "--quiet", "--message", "words"], check=True)
    commit = subprocess.run(
        [*GIT, "-C", place, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )

    def read(files):
        for line in files[0].lines("pairs.tsv"):
            english, french = line.split("\t")
            yield False, "eng_Latn", english, "fra_Latn", french

    # It replaces the table of public sources.
    repository = GitRepository("me/words", commit.stdout.strip(), host=f"file://{tmp_path}/host/")
    words = Source(
        "words", "words", "permissive", "CC0 1.0", (repository,), read, PAIR_COLUMNS, None, "", ""
    )
    facts = {"rows": "2", "test_rows": "0", "megabytes": "0.1", "minutes": "0.1"}
    facts["languages"] = "eng_Latn fra_Latn"
    monkeypatch.setattr(table, "_measured", lambda: {"words": facts})
    monkeypatch.setattr(downloading, "SOURCES", {"words": words})
    monkeypatch.setattr("hf_echo.data.sources.SOURCES", {"words": words})
    monkeypatch.setattr(public_text, "TESTS", ())
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def recipe(words, tmp_path):
    """A recipe of one table, which is public."""
    recipe = {"operation": "collect_data", "output_dir": "out", "languages": ["fra_Latn"]}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe | {"tables": {"words.parquet": {}}}))
    return tmp_path / "r.yaml"


def test_the_question_is_not_passed_over_silently(recipe, run):
    code, _, err = run(recipe)
    assert code == 2
    assert "add --yes to download it, or give corpora=FOLDER" in err.splitlines()[-1]
    assert "CC0 1.0" in err  # what it would download


def test_yes_downloads_the_text_that_the_step_reads(recipe, run, tmp_path):
    code, _, err = run(recipe, "--yes")
    assert code == 0, err
    targets = pq.read_table(tmp_path / "out" / "train.parquet")["target"].to_pylist()
    assert sorted(targets) == ["Good morning.", "See you."]


def test_a_dry_run_names_the_download_as_no_problem(recipe, run, tmp_path):
    code, out, err = run(recipe, "--dry-run")
    assert code == 0, out
    assert "words" in err
    assert not (tmp_path / "outputs").exists()


def test_a_journey_says_its_hours(recipe, run, monkeypatch):
    """The name of a journey is that of its recipe, or of the folder of its recipes."""
    monkeypatch.setattr(public_text, "JOURNEY_HOURS", {str(recipe): 3.5})
    _, _, err = run(recipe, "--dry-run")
    assert "a minute at most of one core" in err
    assert "took 3.5 hours on two cores" in err


def test_what_is_there_is_not_asked_for_again(recipe, run):
    run(recipe, "--yes")
    code, _, err = run(recipe)
    assert code == 0, err


@pytest.fixture
def script():
    """arguments(words): what a script reads from its command line."""
    parser = ArgumentParser()
    public_text.add_corpora(parser)
    parser.add_argument("out")
    return lambda *words: parser.parse_args(words)


def test_a_script_takes_a_folder(script):
    assert public_text.corpora_of(script("mine", "out"), "words") == Path("mine")


def test_a_script_without_a_folder_downloads_after_a_yes(words, script, tmp_path):
    folder = public_text.corpora_of(script("out", "--yes"), "words")
    assert pq.read_table(tmp_path / folder / "words.parquet")["src"].to_pylist() == [
        "Good morning.",
        "See you.",
    ]


def test_a_script_without_a_folder_asks_first(words, script, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y"))  # nobody: no terminal
    with pytest.raises(SystemExit, match="add --yes to download it, or give CORPORA"):
        public_text.corpora_of(script("out"), "words")
    assert not (tmp_path / public_text.PUBLIC).exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("answer, is_read", [("y\n", True), ("\n", False)])
def test_a_question_needs_a_yes(words, script, tmp_path, monkeypatch, answer, is_read):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    try:
        public_text.corpora_of(script("out"), "words")
    except SystemExit as end:
        assert "nothing was downloaded" in str(end)
    assert (tmp_path / public_text.PUBLIC / "words.parquet").exists() == is_read
