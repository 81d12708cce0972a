"""Documents are matched by content: BiMax against its formula, one-to-one pairs, files, and what is refused."""

import json

import numpy as np
import pytest

from hf_echo.search import match_files
from hf_echo.search.matching import bimax, match_documents, one_to_one
from hf_echo.utils.vectors import unit_length

from ..refusals import refuses


def documents(rng, count, sentences=6, width=16):
    """Unit rows of random sentences, by document."""
    return [
        unit_length(rng.normal(size=(sentences, width))).astype(np.float32) for _ in range(count)
    ]


def test_bimax_is_the_mean_of_the_best_cosines():
    rng = np.random.default_rng(0)
    x, y = documents(rng, 2)
    best_of_x = [max(float(a @ b) for b in y) for a in x]
    best_of_y = [max(float(a @ b) for a in x) for b in y]
    want = (sum(best_of_x) / len(x) + sum(best_of_y) / len(y)) / 2
    assert bimax(x, y) == pytest.approx(want, abs=1e-6)


def test_bimax_of_a_document_with_itself_in_another_order_is_1():
    (x,) = documents(np.random.default_rng(0), 1)
    assert bimax(x, x[::-1]) == pytest.approx(1, abs=1e-6)


def test_the_best_pairs_come_first_without_a_document_twice():
    sources = np.array([0, 0, 1, 1])
    targets = np.array([0, 1, 0, 1])
    scores = np.array([0.9, 0.8, 0.85, 0.1], np.float32)
    matches = one_to_one(sources, targets, scores)
    assert list(zip(matches.sources.tolist(), matches.targets.tolist(), strict=True)) == [
        (0, 0),
        (1, 1),
    ]


def test_noisy_copies_are_found_among_strangers():
    rng = np.random.default_rng(0)
    sources = documents(rng, 40)
    order = rng.permutation(40)
    noisy = []
    for number in order[:30]:
        copy = sources[number] + 0.3 * rng.normal(size=sources[number].shape) / 4
        noisy.append(unit_length(rng.permutation(copy)[:5]).astype(np.float32))
    targets = [*noisy, *documents(rng, 20)]
    matches = match_documents(sources.__getitem__, 40, targets.__getitem__, 50)
    found = dict(zip(matches.targets.tolist(), matches.sources.tolist(), strict=True))
    assert [found[number] for number in range(30)] == order[:30].tolist()


def test_sentences_decide_where_means_are_equal():
    """Two documents whose sentences have one mean: only BiMax tells them apart."""
    first = np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 1]], np.float32)
    second = np.array([[0, 1, 0], [0, -1, 0], [0, 0, 1]], np.float32)
    sides = [first, second]
    matches = match_documents(sides.__getitem__, 2, sides[::-1].__getitem__, 2)
    assert dict(zip(matches.sources.tolist(), matches.targets.tolist(), strict=True)) == {
        0: 1,
        1: 0,
    }


def test_an_index_of_faiss_finds_the_candidates():
    sources = documents(np.random.default_rng(0), 30)
    matches = match_documents(
        sources.__getitem__, 30, sources.__getitem__, 30, index="IVF4,Flat;nprobe=4"
    )
    assert matches.sources.tolist() == matches.targets.tolist()


def test_a_document_without_sentences_has_no_partner():
    sides = [*documents(np.random.default_rng(0), 3), np.empty((0, 16), np.float32)]
    matches = match_documents(sides.__getitem__, 4, sides.__getitem__, 4)
    assert sorted(matches.sources.tolist()) == [0, 1, 2]


def test_a_side_without_sentences_is_refused():
    nothing = [np.empty((0, 4), np.float32)]
    sides = documents(np.random.default_rng(0), 1)
    refuses(
        "the target side has no document",
        match_documents,
        sides.__getitem__,
        1,
        nothing.__getitem__,
        1,
    )


def words(texts, lang=None, progress=False):
    """Counts of letters: an encoder that knows no language."""
    vectors = np.zeros((len(texts), 26), np.float32)
    for row, text in enumerate(texts):
        for letter in text.lower():
            if "a" <= letter <= "z":
                vectors[row, ord(letter) - 97] += 1
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


def test_folders_of_other_names_are_matched(folders):
    report = match_files(folders / "a", folders / "b", folders / "out", words)
    rows = [
        line.split("\t") for line in (folders / "out" / "pairs.tsv").read_text().splitlines()[1:]
    ]
    assert {(source, target) for _, source, target, _ in rows} == {
        ("cats.txt", "9.txt"),
        ("dogs.txt", "8.txt"),
        ("birds.txt", "7.txt"),
    }
    assert (report.sources, report.targets, report.pairs, report.targets_alone) == (3, 4, 3, 1)


def test_matched_documents_have_equal_names(folders):
    match_files(folders / "a", folders / "b", folders / "out", words)
    for name in ("000001.txt", "000002.txt", "000003.txt"):
        source = (folders / "out" / "source" / name).read_text()
        assert source == (folders / "out" / "target" / name).read_text()
        assert source.splitlines() in [text.split("\n")[:2] for text in STORIES.values()]


def test_a_threshold_leaves_pairs_out(folders):
    report = match_files(folders / "a", folders / "b", folders / "out", words, threshold=1.1)
    assert (report.pairs, report.below_threshold) == (0, 3)


def test_a_file_without_text_is_counted(folders):
    (folders / "a" / "empty.txt").write_text("\n")
    report = match_files(folders / "a", folders / "b", folders / "out", words)
    assert (report.sources, report.left_out) == (3, 1)


def test_crawls_are_matched_by_row(tmp_path):
    pytest.importorskip("sentencex")
    texts = [
        "Zebra quiz. Quick fox.",
        "Hello world. Banana boat.",
        "Mississippi river. Kayak kiosk.",
    ]
    for side, order in (("a", [0, 1, 2]), ("b", [2, 0, 1])):
        rows = [
            json.dumps({"url": f"https://x/{number}", "text": texts[number]}) for number in order
        ]
        (tmp_path / f"{side}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    langs = dict(source_lang="eng_Latn", target_lang="eng_Latn")
    match_files(tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "out", words, **langs)
    rows = [
        line.split("\t")[1:3]
        for line in (tmp_path / "out" / "pairs.tsv").read_text().splitlines()[1:]
    ]
    assert sorted(rows) == [
        ["a.jsonl:1", "b.jsonl:2"],
        ["a.jsonl:2", "b.jsonl:3"],
        ["a.jsonl:3", "b.jsonl:1"],
    ]


def test_inputs_are_refused_before_anything_is_encoded(folders):
    def never(*arguments, **options):
        raise AssertionError("encoded")

    a = folders / "a"
    refuses(
        "no file or folder",
        match_files,
        a,
        folders / "c",
        folders / "out",
        never,
        error=FileNotFoundError,
    )
    refuses("is one text", match_files, a, a / "cats.txt", folders / "out", never)
    refuses("give the languages", match_files, a, folders / "b", folders / "out", never, raw=True)
    (folders / "out").mkdir()
    (folders / "out" / "mine.doc").write_text("x")
    refuses("is not empty", match_files, a, folders / "b", folders / "out", words)
