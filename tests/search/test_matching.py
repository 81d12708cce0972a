"""Documents are matched by content: BiMax against its formula, one-to-one pairs, files,
and what is refused."""

import json
from string import ascii_lowercase

import numpy as np
import pytest

from hf_echo.cli.pairs import Match
from hf_echo.search import match_files
from hf_echo.search.matching import bimax, match_documents, one_to_one
from hf_echo.utils.vectors import unit_length


def documents(rng, count, sentences=6, width=16):
    """Unit rows of random sentences, by document."""
    rows = rng.normal(size=(count * sentences, width)).astype(np.float32)
    return np.split(unit_length(rows), count)


def matched(sources, targets, **options) -> dict[int, int]:
    """The source of each matched target."""
    matches = match_documents(
        sources.__getitem__, len(sources), targets.__getitem__, len(targets), **options
    )
    return dict(zip(matches.targets.tolist(), matches.sources.tolist(), strict=True))


def test_bimax_is_the_mean_of_the_best_cosines():
    x, y = documents(np.random.default_rng(0), 2)

    score = bimax(x, y)

    # The definition, over all cosines of two documents.
    cosines = x @ y.T
    expected = (cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2
    assert score == pytest.approx(expected, abs=1e-6)


def test_bimax_of_a_document_with_itself_in_another_order_is_1():
    (x,) = documents(np.random.default_rng(0), 1)

    assert bimax(x, x[::-1]) == pytest.approx(1, abs=1e-6)


def test_the_best_pairs_come_first_without_a_document_twice():
    """Pairs (0, 0), (0, 1), (1, 0), (1, 1): after the best only the worst has two new documents."""
    scores = np.array([0.9, 0.8, 0.85, 0.1], np.float32)

    matches = one_to_one(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), scores)

    assert matches.sources.tolist() == [0, 1]
    assert matches.targets.tolist() == [0, 1]


def test_noisy_copies_are_found_among_strangers():
    """Thirty of forty documents have a copy with noise, other order and one sentence less."""
    rng = np.random.default_rng(0)
    sources = documents(rng, 40)
    copied = rng.permutation(40)[:30].tolist()
    copies = []
    for number in copied:
        noisy = sources[number] + 0.075 * rng.normal(size=sources[number].shape)
        copies.append(unit_length(rng.permutation(noisy)[:5]).astype(np.float32))

    source_of_target = matched(sources, [*copies, *documents(rng, 20)])

    assert [source_of_target[number] for number in range(30)] == copied


def test_sentences_decide_where_means_are_equal():
    """Two documents whose sentences have one mean: only BiMax tells them apart."""
    first = np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 1]], np.float32)
    second = np.array([[0, 1, 0], [0, -1, 0], [0, 0, 1]], np.float32)

    assert matched([first, second], [second, first]) == {0: 1, 1: 0}


def test_an_index_of_faiss_finds_the_candidates():
    sources = documents(np.random.default_rng(0), 30)

    source_of_target = matched(sources, sources, index="IVF4,Flat;nprobe=4")

    assert source_of_target == {number: number for number in range(30)}


def test_a_document_without_sentences_has_no_partner():
    sides = [*documents(np.random.default_rng(0), 3), np.empty((0, 16), np.float32)]

    assert matched(sides, sides) == {0: 0, 1: 1, 2: 2}


def test_a_side_without_sentences_is_refused():
    sides = documents(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="the target side has no document"):
        matched(sides, [np.empty((0, 4), np.float32)])


def letters(texts, lang=None, progress=False):
    """Counts of letters: an encoder that knows no language."""
    vectors = np.zeros((len(texts), 26), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        vector[:] = [text.lower().count(letter) for letter in ascii_lowercase]
    return vectors


STORIES = {
    "cats.txt": "zebra quiz\nquick fox\n",
    "dogs.txt": "hello world\nbanana boat\n\n",
    "birds.txt": "mississippi river\nkayak kiosk\n",
}


@pytest.fixture
def folders(tmp_path):
    """Documents of three stories; the other side has other names, and a stranger."""
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
    for number, (name, text) in enumerate(STORIES.items()):
        (tmp_path / "a" / name).write_text(text, encoding="utf-8")
        (tmp_path / "b" / f"{9 - number}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "b" / "0.txt").write_text("uuuu vvvv\n", encoding="utf-8")
    return tmp_path


def table_rows(path):
    """The fields of each line behind the header."""
    _, *lines = path.read_text().splitlines()
    return [line.split("\t") for line in lines]


def test_folders_of_other_names_are_matched(folders):
    report = match_files(folders / "a", folders / "b", folders / "out", letters)

    pairs = {(source, target) for _, source, target, _ in table_rows(folders / "out" / "pairs.tsv")}
    assert pairs == {("cats.txt", "9.txt"), ("dogs.txt", "8.txt"), ("birds.txt", "7.txt")}
    assert (report.sources, report.targets, report.pairs, report.targets_alone) == (3, 4, 3, 1)


def test_a_table_gets_the_pairs_alone(folders):
    match_files(folders / "a", folders / "b", folders / "out", letters)

    match_files(folders / "a", folders / "b", folders / "pairs.tsv", letters)

    expected = [row[:3] for row in table_rows(folders / "out" / "pairs.tsv")]
    assert table_rows(folders / "pairs.tsv") == expected
    assert (folders / "pairs.tsv").read_text().startswith("score\tsource\ttarget\n")


@pytest.mark.parametrize("name", ["000001.txt", "000002.txt", "000003.txt"])
def test_matched_documents_have_equal_names(folders, name):
    match_files(folders / "a", folders / "b", folders / "out", letters)

    source = (folders / "out" / "source" / name).read_text()
    target = (folders / "out" / "target" / name).read_text()
    assert source == target
    assert source.strip() in {story.strip() for story in STORIES.values()}


def test_a_threshold_leaves_pairs_out(folders):
    """No score is above 1."""
    report = match_files(folders / "a", folders / "b", folders / "out", letters, threshold=1.1)

    assert (report.pairs, report.below_threshold) == (0, 3)


def test_a_file_without_text_is_counted(folders):
    (folders / "a" / "empty.txt").write_text("\n")

    report = match_files(folders / "a", folders / "b", folders / "out", letters)

    assert (report.sources, report.left_out) == (3, 1)


def test_crawls_are_matched_by_row(tmp_path):
    pytest.importorskip("sentencex")
    zebra = json.dumps({"url": "https://x/0", "text": "Zebra quiz. Quick fox."})
    banana = json.dumps({"url": "https://x/1", "text": "Hello world. Banana boat."})
    river = json.dumps({"url": "https://x/2", "text": "Mississippi river. Kayak kiosk."})
    source = tmp_path / "a.jsonl"
    source.write_text("\n".join([zebra, banana, river]))
    target = tmp_path / "b.jsonl"
    target.write_text("\n".join([river, zebra, banana]))
    langs = dict(source_lang="eng_Latn", target_lang="eng_Latn")

    match_files(source, target, tmp_path / "out", letters, **langs)

    names = {
        (source, target) for _, source, target, _ in table_rows(tmp_path / "out" / "pairs.tsv")
    }
    # The same document stands in another row of the other crawl.
    assert names == {
        ("a.jsonl:1", "b.jsonl:2"),
        ("a.jsonl:2", "b.jsonl:3"),
        ("a.jsonl:3", "b.jsonl:1"),
    }


@pytest.mark.parametrize(
    "target, options, error, message",
    [
        ("c", {}, FileNotFoundError, "no file or folder"),
        ("a/cats.txt", {}, ValueError, "is one text"),
        ("b", {"raw": True}, ValueError, "give the languages"),
    ],
)
def test_inputs_are_refused_before_anything_is_encoded(folders, target, options, error, message):
    def never(*arguments, **options):
        raise AssertionError("encoded")

    with pytest.raises(error, match=message):
        match_files(folders / "a", folders / target, folders / "out", never, **options)


def test_the_command_takes_its_output_as_an_option(folders, monkeypatch):
    calls = []

    def record(source, target, out, encode, **options):
        calls.append((out, options))
        return match_files(source, target, out, letters)

    monkeypatch.setattr("hf_echo.search.match_files", record)
    settings = Match(
        source=folders / "a", target=folders / "b", named_out=folders / "p.tsv", model="m"
    )

    settings.run()

    ((out, options),) = calls
    assert out == folders / "p.tsv"
    assert "named_out" not in options


def test_the_command_asks_for_an_output(folders):
    settings = Match(source=folders / "a", target=folders / "b", model="m")

    with pytest.raises(ValueError, match="no OUT: give a folder, or PAIRS.tsv"):
        settings.run()


def test_a_folder_of_somebody_else_is_not_written_into(folders):
    (folders / "out").mkdir()
    (folders / "out" / "mine.doc").write_text("x")

    with pytest.raises(ValueError, match="is not empty"):
        match_files(folders / "a", folders / "b", folders / "out", letters)
