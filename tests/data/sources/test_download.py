"""The download of sources from a mirror of tiny repositories:
tables, test splits without leaks, going on, refusals."""

import json

import pyarrow.parquet as pq
import pytest

from hf_echo.data.leaks import find_leaks
from hf_echo.data.sources import downloading as downloads
from hf_echo.data.sources import table
from hf_echo.data.sources.origins import GitRepository
from hf_echo.data.sources.rows import PAIR_COLUMNS
from hf_echo.data.sources.table import Source

from ...refusals import refuses
from .clones import commit_files, git

COMMAND = "data download"
WORDS = "en\tfr\nGood morning, all!\tBonjour\nSee you.\t\u00c0 bient\u00f4t\nThanks.\tMerci\n"
TESTS = "en\tfr\nGOOD MORNING all\tSalut\n"


def read_pairs(files):
    (repository,) = files
    for line in repository.lines("pairs.tsv")[1:]:
        english, french = line.split("\t")
        yield False, "eng_Latn", english, "fra_Latn", french


def read_tests(files):
    for _, *row in read_pairs(files):
        yield True, *row


def source(name, commit, read, license="permissive"):
    origins = (GitRepository(f"me/{name}", commit, ("*.tsv",)),)
    return Source(
        name, "words", license, "CC0 1.0", origins, read, PAIR_COLUMNS, None, "nothing", "nobody"
    )


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A folder of clones, with these sources instead of the public ones:
    words, tests and secrets."""
    folder = tmp_path / "mirror"
    words = commit_files(folder / "me+words" / "repo", {"pairs.tsv": WORDS})
    tests = commit_files(folder / "me+tests" / "repo", {"pairs.tsv": TESTS})
    sources = {
        "words": source("words", words, read_pairs),
        "tests": source("tests", tests, read_tests, "share-alike"),
        "secrets": source("secrets", words, read_pairs, "research"),
    }
    facts = {"rows": "3", "test_rows": "0", "megabytes": "0.1", "minutes": "0.1"}
    facts["languages"] = "eng_Latn fra_Latn"
    monkeypatch.setattr(table, "_measured", lambda: dict.fromkeys(sources, facts))
    for module in (table, downloads):
        monkeypatch.setattr(module, "SOURCES", sources)
    return folder


def english_of(path):
    return pq.read_table(path)["src"].to_pylist()


def test_a_table_is_written_for_each_source(mirror, tmp_path):
    report = downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    assert report["rows"] == {"words": 3}
    assert english_of(tmp_path / "out" / "words.parquet") == [
        "Good morning, all!",
        "See you.",
        "Thanks.",
    ]


def test_no_test_sentence_stands_in_training_text(mirror, tmp_path):
    report = downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    # spelled in another way
    assert english_of(tmp_path / "out" / "words.parquet") == [
        "See you.",
        "Thanks.",
    ]
    assert report["held_out"] == {"words": 1}


def test_a_test_split_goes_to_its_own_folder(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    assert english_of(tmp_path / "out" / "test" / "tests.parquet") == ["GOOD MORNING all"]
    assert not (tmp_path / "out" / "tests.parquet").exists()


def test_a_test_split_that_comes_later_leaves_earlier_tables(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    downloads.download(tmp_path / "out", ["tests"], mirror=mirror)
    assert english_of(tmp_path / "out" / "words.parquet") == ["See you.", "Thanks."]


def test_what_is_held_out_in_one_language_is_held_out_in_all(mirror, tmp_path, monkeypatch):
    def read_nway(files):
        (repository,) = files
        for number, line in enumerate(repository.lines("pairs.tsv")[1:]):
            english, french = line.split("\t")
            yield False, number, "eng_Latn", english
            yield False, number, "fra_Latn", french

    # The pairs of the mirror as sentences of two languages that share an id.
    words = downloads.SOURCES["words"]
    nway = Source(
        "words",
        "",
        "permissive",
        "",
        words.origins,
        read_nway,
        ("id", "lang", "text"),
        "id",
        "",
        "",
    )
    monkeypatch.setitem(downloads.SOURCES, "words", nway)
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    # Sentence 0 stands in the test split in one language: it goes in both.
    assert set(pq.read_table(tmp_path / "out" / "words.parquet")["id"].to_pylist()) == {1, 2}


def test_the_second_call_writes_nothing(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_a_download_has_no_leaks_by_its_own_command(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    assert find_leaks(tmp_path / "out", tmp_path / "out" / "test")["leaks"] == 0


def test_a_table_that_was_changed_is_written_again(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    (tmp_path / "out" / "words.parquet").write_bytes(b"half")
    downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    assert len(english_of(tmp_path / "out" / "words.parquet")) == 3


def test_a_stopped_download_goes_on(mirror, tmp_path, monkeypatch):
    def stop(files):
        raise KeyboardInterrupt

    whole = downloads.SOURCES["tests"]
    broken = Source("tests", "", "share-alike", "", whole.origins, stop, PAIR_COLUMNS, None, "", "")
    monkeypatch.setitem(downloads.SOURCES, "tests", broken)
    with pytest.raises(KeyboardInterrupt):
        downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    assert not list((tmp_path / "out").glob("*.parquet"))  # nothing half-written

    # What was read before is not read again.
    words = downloads.SOURCES["words"]
    unread = Source("words", "", "permissive", "", words.origins, stop, PAIR_COLUMNS, None, "", "")
    monkeypatch.setitem(downloads.SOURCES, "words", unread)
    monkeypatch.setitem(downloads.SOURCES, "tests", whole)
    report = downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    assert report["rows"]["words"] == 2


def test_only_the_languages_that_are_named_are_kept(mirror, tmp_path, monkeypatch):
    def two(files):
        yield False, "eng_Latn", "a", "fra_Latn", "b"
        yield False, "eng_Latn", "c", "deu_Latn", "d"

    words = downloads.SOURCES["words"]
    both = Source("words", "", "permissive", "", words.origins, two, PAIR_COLUMNS, None, "", "")
    monkeypatch.setitem(downloads.SOURCES, "words", both)
    downloads.download(tmp_path / "out", ["words"], languages=["fra_Latn"], mirror=mirror)
    assert english_of(tmp_path / "out" / "words.parquet") == ["a"]


def test_the_readme_has_the_licence_of_each_table(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words", "tests"], mirror=mirror)
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "| words | words | 2 | 2 | 0 | 1 | CC0 1.0 (permissive) | me/words@" in readme


def test_rows_are_counted_by_language(mirror, tmp_path):
    downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    lines = (tmp_path / "out" / "row_counts.md").read_text().splitlines()
    assert lines[2:] == ["| words.parquet | eng_Latn | 3 |", "| words.parquet | fra_Latn | 3 |"]


def test_research_text_is_taken_only_if_it_is_asked_for(mirror):
    plain, _ = downloads.chosen_sources()
    asked, _ = downloads.chosen_sources(license="research")
    assert [each.name for each in plain] == ["words", "tests"]
    assert [each.name for each in asked] == ["words", "tests", "secrets"]


def test_permissive_leaves_share_alike_out(mirror):
    sources, _ = downloads.chosen_sources(license="permissive")
    assert [each.name for each in sources] == ["words"]


def test_a_research_source_by_name_is_refused_without_the_licence(mirror):
    refuses("add --license research", downloads.chosen_sources, ["secrets"])


def test_a_folder_with_other_tables_is_refused(mirror, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.parquet").write_bytes(b"")
    refuses(
        "is there, and not of a download",
        downloads.download,
        tmp_path / "out",
        ["words"],
        mirror=mirror,
    )


def test_a_disk_without_room_is_one_line(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 10})())
    refuses("free", downloads.download, tmp_path / "out", ["words"], mirror=mirror, error=OSError)
    assert not (tmp_path / "out").exists()


def test_a_mirror_that_lacks_bytes_is_reported(mirror, tmp_path, monkeypatch):
    commit = commit_files(mirror / "me+words" / "repo", {"more.tsv": "x\n"})
    place = mirror / "me+words" / "repo"
    blob = git(place, "rev-parse", f"{commit}:more.tsv")
    (place / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    monkeypatch.setitem(downloads.SOURCES, "words", source("words", commit, read_pairs))
    report = downloads.download(tmp_path / "out", ["words"], mirror=mirror)
    assert report["absent_files"] == {"words": {"me/words": 1}}


def test_the_command_prints_its_report(mirror, tmp_path, run):
    code, out, err = run(
        tmp_path / "out", "--sources", "words", "tests", "--mirror", mirror, "--yes"
    )
    assert code == 0, err
    assert json.loads(out)["rows"] == {"words": 2, "tests": 0}


def test_a_dry_run_writes_nothing(mirror, tmp_path, run):
    code, out, _ = run(tmp_path / "out", "--dry-run")
    assert code == 0
    assert "words" in out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("unknown source 'wrds'; did you mean 'words'?", ["--sources", "wrds"]),
        ("no chosen source has kik_Latn", ["--languages", "kik_Latn"]),
        ("unknown language 'klingonish'", ["--languages", "klingonish"]),
        ("--license is 'free'", ["--license", "free"]),
        ("no folder", ["--mirror", "nowhere", "--yes"]),
    ],
)
def test_wrong_words_are_one_line(message, words, mirror, tmp_path, run):
    code, _, err = run(tmp_path / "out", *words)
    assert code == 2
    assert message in err.strip().splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_sources_are_listed_with_their_licences(mirror, hf_echo_cli):
    code, out, _ = hf_echo_cli("data", "sources")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["words", "tests", "secrets", "3"]
    assert "CC0 1.0" in out


def test_every_public_source_is_pinned():
    for each in table.SOURCES.values():
        for origin in each.origins:
            assert (
                len(getattr(origin, "commit", "")) == 40 or len(getattr(origin, "sha256", "")) == 64
            )


def test_every_public_source_has_languages():
    for each in table.SOURCES.values():
        assert len(each.languages) > 1


def test_rows_that_nobody_has_counted_are_called_so(mirror, monkeypatch):
    facts = dict.fromkeys(("rows", "test_rows", "megabytes", "minutes"), "")
    facts["languages"] = "eng_Latn fra_Latn"
    monkeypatch.setattr(table, "_measured", lambda: {"words": facts})
    line, _ = downloads.plan_lines([downloads.SOURCES["words"]])
    assert "rows not counted yet    2 languages" in line


def test_one_source_is_no_plural():
    """NTREX: 17.0 MB and less than a minute, by measured.tsv."""
    *_, total = downloads.plan_lines([table.SOURCES["ntrex"]])
    start = "1 source, 17 MB of tables; to make them takes a minute at most of one core"
    assert total.startswith(start)
