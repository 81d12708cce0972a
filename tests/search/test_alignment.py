"""Alignment: the beads are the cheapest of all, long documents lose nothing, files and folders come back whole."""

import gzip
import json
import tracemalloc
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hf_echo.cli import pairs
from hf_echo.data import load_parallel
from hf_echo.search import align, align_files
from hf_echo.search.alignment import FULL
from hf_echo.utils.vectors import unit_length

from .words import encode, sentences


class Formula:
    """The costs of the module's docstring, one bead at a time; a bead is i, k, j, end: source and target sentences."""

    def __init__(self, x, y, x_lengths, y_lengths):
        self.x = x
        self.y = y
        self.x_lengths = x_lengths
        self.y_lengths = y_lengths

    def distance(self, i, k, j, end):
        """Equation 1 of the paper."""
        source = run(self.x, i, k)
        target = run(self.y, j, end)
        mean_strangeness = (strangeness(source, self.y) + strangeness(target, self.x)) / 2
        return (1 - source @ target) / mean_strangeness

    def learn_from(self, pairs):
        """The ratio of lengths and the threshold, from pairs (i, j) of single sentences."""
        log_ratios = [
            np.log(self.x_lengths[i] + 5) - np.log(self.y_lengths[j] + 5) for i, j in pairs
        ]
        distances = [self.distance(i, i + 1, j, j + 1) for i, j in pairs]
        self.length_ratio = np.exp(np.median(log_ratios))
        self.threshold = (1 + np.median(distances)) / 2

    def price(self, i, k, j, end):
        source_length = np.log(sum(self.x_lengths[i:k]) + 5)
        target_length = np.log(self.length_ratio * sum(self.y_lengths[j:end]) + 5)
        cost = self.distance(i, k, j, end) + 0.3 * min(1.5, abs(source_length - target_length))
        return (k - i) * (end - j) * (cost + 4 * max(0, cost - self.threshold))


def run(side, i, k):
    total = side[i:k].sum(axis=0)
    return total / np.linalg.norm(total)


def strangeness(vector, others):
    """1 minus the mean cosine with all sentences but the nearest."""
    cosines = sorted(float(vector @ other) for other in others)
    return 1 - np.mean(cosines[:-1])


def cheapest(n: int, m: int, largest: int, price) -> list[tuple[list[int], list[int]]]:
    """The beads of the alignment of least total price, among all alignments."""

    @cache
    def best_from(i, j):
        if i == n and j == m:
            return 0.0, ()
        options = []
        for a in range(largest):
            for b in range(largest + 1 - a):
                k = i + a
                end = j + b
                if k > n or end > m or a + b == 0 or (a * b == 0 and a + b > 1):
                    continue
                cost = price(i, k, j, end) if a and b else 0.7
                rest_cost, rest = best_from(k, end)
                options.append(
                    (cost + rest_cost, ((list(range(i, k)), list(range(j, end))), *rest))
                )
        return min(options)

    return list(best_from(0, 0)[1])


@pytest.mark.parametrize("seed", range(4))
def test_beads_are_the_cheapest_of_all(seed):
    rng = np.random.default_rng(seed)
    ideas = rng.normal(size=(8, 12))
    x = np.stack([ideas[0] + ideas[1], *ideas[2:5], ideas[6], ideas[7]])
    y = np.stack([*ideas[:3], ideas[5], ideas[6] + ideas[7], rng.normal(size=12)])
    x = unit_length(unit_length(x) + 0.1 * rng.normal(size=x.shape))
    y = unit_length(unit_length(y) + 0.1 * rng.normal(size=y.shape))
    x_lengths = rng.integers(20, 60, len(x)).tolist()
    y_lengths = rng.integers(20, 60, len(y)).tolist()

    beads = align(x, y, x_lengths, y_lengths, largest=4)

    formula = Formula(x, y, x_lengths, y_lengths)
    single = cheapest(len(x), len(y), 2, formula.distance)
    formula.learn_from(
        [(sources[0], targets[0]) for sources, targets in single if sources and targets]
    )
    expected = cheapest(len(x), len(y), 4, formula.price)
    # sentences alone have any order at one place
    assert sorted((list(bead.sources), list(bead.targets)) for bead in beads) == sorted(expected)


def numbers(beads, side: str) -> list[int]:
    """The sentences of a side, in the order of the beads."""
    return [number for bead in beads for number in getattr(bead, side)]


@pytest.fixture(scope="module")
def lost_chapters():
    """x, y, and the number of the idea of each of their sentences.

    Each side lacks another chapter, and strangers stand at an end.
    """
    rng = np.random.default_rng(0)
    ideas = rng.normal(size=(2400, 256)).astype(np.float32)
    x_ideas = np.delete(np.arange(2400), slice(700, 900))
    y_ideas = np.delete(np.arange(2400), slice(895, 1000))
    x = ideas[x_ideas] + 0.5 * rng.normal(size=(len(x_ideas), 256)).astype(np.float32)
    y = ideas[y_ideas] + 0.5 * rng.normal(size=(len(y_ideas), 256)).astype(np.float32)
    y = np.concatenate([y, rng.normal(size=(80, 256)).astype(np.float32)])
    return x, y, x_ideas.tolist(), [*y_ideas.tolist(), *[-1] * 80]


@pytest.mark.slow
def test_a_long_document_with_lost_chapters(lost_chapters):
    """Coarse to fine, without a table of all cells."""
    x, y, x_ideas, y_ideas = lost_chapters
    cells = len(x) * len(y)
    assert cells > 4 * FULL

    tracemalloc.start()
    beads = align(x, y, [40] * len(x), [50] * len(y))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * cells
    assert numbers(beads, "sources") == list(range(len(x)))
    assert numbers(beads, "targets") == list(range(len(y)))
    pairs = [bead for bead in beads if bead.is_pair and bead.cost < 0.6]
    for bead in pairs:
        assert x_ideas[bead.sources[0]] == y_ideas[bead.targets[0]]
    assert len(pairs) > 0.99 * len(set(x_ideas) & set(y_ideas))


def test_a_long_document_of_an_odd_number_of_sentences_may_end_with_strangers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1201, 32)).astype(np.float32)
    y = np.concatenate([x, rng.normal(size=(80, 32)).astype(np.float32)])
    assert len(x) * len(y) > FULL

    beads = align(x, y)

    assert [(bead.sources[0], bead.targets[0]) for bead in beads if bead.is_pair] == [
        (i, i) for i in range(1201)
    ]
    assert numbers(beads, "targets") == list(range(1281))


@pytest.fixture
def folders(tmp_path):
    """Two documents; in the first the target joins the first two sentences, has a blank line, and lacks the fifth."""
    for name in ("fr", "en"):
        (tmp_path / name).mkdir()
    first = sentences(8, 0)
    second = sentences(8, 1)
    first_of_target = [f"{first[0]} {first[1]}", "", *first[2:4], *first[5:]]
    write_lines(tmp_path / "fr" / "a.txt", first)
    write_lines(tmp_path / "en" / "a.txt", first_of_target)
    write_lines(tmp_path / "fr" / "b.txt", second)
    write_lines(tmp_path / "en" / "b.txt", second)
    write_lines(tmp_path / "en" / "c.txt", ["alone"])
    return tmp_path


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


TRUE = ["[0, 1]:[0]", "[2]:[2]", "[3]:[3]", "[4]:[]", "[5]:[4]", "[6]:[5]", "[7]:[6]"]
LANGUAGES = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}


def aligned(folders, out, encoder=encode, name="", **options):
    """The report of the two folders, or of their documents of a name, aligned into `out`."""
    source = folders / "fr" / name
    target = folders / "en" / name
    return align_files(source, target, folders / out, encoder, progress=False, **options)


def test_vecaligns_format_counts_lines(folders):
    aligned(folders, "out")
    lines = (folders / "out" / "a.txt.path").read_text().splitlines()
    assert [line.rsplit(":", 1)[0] for line in lines] == TRUE


def test_vecaligns_format_has_costs(folders):
    aligned(folders, "out")
    lines = (folders / "out" / "a.txt.path").read_text().splitlines()
    costs = [float(line.rsplit(":", 1)[1]) for line in lines]
    assert 0 <= min(costs) <= max(costs) < 0.2
    assert lines[3] == "[4]:[]:0.000000"


def test_a_document_of_one_side_is_left_out(folders):
    aligned(folders, "out")
    assert not (folders / "out" / "c.txt.path").exists()


def test_the_report_counts_sentences(folders):
    report = aligned(folders, "out")
    assert (report.documents, report.sources, report.targets, report.pairs) == (2, 16, 14, 14)
    assert (report.sources_alone, report.targets_alone) == (1, 0)


def test_the_report_counts_what_is_left_out(folders):
    report = aligned(folders, "out")

    assert report.documents_left_out == 1
    assert (report.sources_left_out, report.targets_left_out) == (0, 1)


NO_DOCUMENTS = {
    ".DS_Store": b"\0\1",
    "a.txt~": b"old",
    "Thumbs.db": b"\0",
    "photo.png": b"\x89PNG",
    "note.pdf": b"%PDF",
}


def test_other_files_in_folders_are_no_documents(folders):
    clean = aligned(folders, "clean.tsv")
    for name, content in NO_DOCUMENTS.items():
        for side in ("fr", "en"):
            (folders / side / name).write_bytes(content)

    report = aligned(folders, "out.tsv")

    assert (folders / "out.tsv").read_bytes() == (folders / "clean.tsv").read_bytes()
    assert report.documents_left_out == clean.documents_left_out + 2 * len(NO_DOCUMENTS)


@pytest.mark.parametrize("content", [b"", b"\n \n", bytes(range(256)), b"caf\xe9\n" * 9])
def test_a_document_without_text_does_not_stop_a_folder(folders, caplog, content):
    aligned(folders, "clean.tsv")
    write_lines(folders / "fr" / "aa.txt", ["red cat"])
    (folders / "en" / "aa.txt").write_bytes(content)

    report = aligned(folders, "out.tsv")

    assert (folders / "out.tsv").read_bytes() == (folders / "clean.tsv").read_bytes()
    assert (report.documents, report.documents_left_out) == (2, 3)
    assert "aa.txt" in caplog.text


def test_names_meet_in_either_normal_form(folders):
    """macOS decomposes the letters of names."""
    write_lines(folders / "fr" / "\u00e9t\u00e9.txt", ["red cat"])
    write_lines(folders / "en" / "e\u0301te\u0301.txt", ["red cat"])

    assert aligned(folders, "out").documents == 3


def test_sentences_without_direction_are_left_out(folders, caplog):
    def without_third(texts, lang):
        return encode(texts) * np.array([[text != sentences(8, 0)[2]] for text in texts])

    report = aligned(folders, "out", without_third)

    lines = (folders / "out" / "a.txt.path").read_text().splitlines()
    assert [line.rsplit(":", 1)[0] for line in lines] == [*TRUE[:1], "[]:[2]", "[2]:[]", *TRUE[2:]]
    assert (report.sources, report.sources_left_out, report.sources_alone) == (15, 1, 1)
    assert "sentences whose embedding is zero: 1" in caplog.text


def test_two_files_give_what_two_folders_give(folders):
    aligned(folders, "out")
    aligned(folders, "one.path", name="a.txt")
    assert (folders / "one.path").read_text() == (folders / "out" / "a.txt.path").read_text()


@pytest.mark.parametrize("name", ["out.tsv.gz", "out.parquet", "out.fr-en"])
def test_pairs_come_back(folders, name):
    """In every format the same pairs, of both documents in order."""
    aligned(folders, name, **LANGUAGES)

    rows = load_parallel(folders / name, **(LANGUAGES if ".tsv" in name else {}))
    lines = sentences(8, 0)
    assert rows["source"][:3] == [f"{lines[0]} {lines[1]}", lines[2], lines[3]]
    assert len(rows) == 14
    assert rows["source"] == rows["target"]


def test_standard_output_holds_the_pairs_alone(folders, run, monkeypatch):
    monkeypatch.setattr(pairs, "anywhere", lambda model: encode)
    monkeypatch.chdir(folders)
    aligned(folders, "o.tsv", name="a.txt")

    code, out, _ = run("align", "fr/a.txt", "en/a.txt", "-", "--json", "report.json")

    assert code == 0
    assert out == (folders / "o.tsv").read_text()
    assert json.loads((folders / "report.json").read_text())["pairs"] == 6


def test_raw_text_is_cut(folders):
    lines = sentences(12, 3)
    (folders / "raw.txt").write_text(". ".join(lines[:6]) + ".\n\n" + ". ".join(lines[6:]) + ".\n")
    (folders / "cut.txt").write_text("".join(f"{line}.\n" for line in lines))

    report = align_files(
        folders / "raw.txt",
        folders / "cut.txt",
        folders / "out.tsv",
        encode,
        raw=True,
        progress=False,
        **LANGUAGES,
    )

    assert (report.sources, report.targets, report.pairs) == (12, 12, 12)


@pytest.mark.parametrize(
    "source, target, out, options, message",
    [
        ("fr", "en/a.txt", "o.tsv", {}, "a file and a folder"),
        ("fr", "none", "o.tsv", {}, "no file or folder"),
        ("fr", "other", "o.tsv", {}, "no file names in common"),
        ("fr", "en", "o.xlsx", {}, "unknown format"),
        ("fr", "en", "out", {"threshold": 0.5}, "leave out raw and threshold"),
        ("fr", "en", "fr/a.txt", {}, "is an input too"),
        ("fr", "en", "o.tsv", {"raw": True}, "give the languages"),
        ("fr/a.txt", "empty.txt", "o.tsv", {}, "empty.txt is empty"),
        ("cut.gz", "en/a.txt", "o.tsv", {}, "cut.gz: damaged"),
        ("fr/a.txt", "cut.gz", "o.tsv", {}, "cut.gz: damaged"),
        ("fr", "en", "o.tmx", {}, "needs the languages"),
        ("-", "-", "o.tsv", {}, "both standard input"),
    ],
)
def test_refusals_come_before_anything_is_encoded(folders, source, target, out, options, message):
    (folders / "other").mkdir()
    (folders / "empty.txt").touch()
    (folders / "cut.gz").write_bytes(gzip.compress(bytes(range(99)))[:50])
    before = sorted(folders.rglob("*"))
    source_path = Path("-") if source == "-" else folders / source
    target_path = Path("-") if target == "-" else folders / target
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        align_files(
            source_path, target_path, folders / out, lambda *_: pytest.fail("encoded"), **options
        )
    assert sorted(folders.rglob("*")) == before
