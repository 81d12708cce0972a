"""Alignment: the beads are the cheapest of all, long documents lose nothing,
files and folders come back whole."""

import gzip
import json
import tracemalloc
from functools import cache
from itertools import chain, product
from operator import itemgetter
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
    """The costs of the module's docstring, one bead at a time; a bead is i, k, j, end:
    source and target sentences."""

    def __init__(self, x, y, x_lengths, y_lengths):
        self.x = x
        self.y = y
        self.x_lengths = x_lengths
        self.y_lengths = y_lengths

    def distance(self, i, k, j, end):
        """Equation 1 of the paper."""
        source = joined(self.x[i:k])
        target = joined(self.y[j:end])
        mean_strangeness = (strangeness(source, self.y) + strangeness(target, self.x)) / 2
        return (1 - source @ target) / mean_strangeness

    def learn_from(self, beads):
        """The ratio of lengths and the threshold, from beads of single sentences."""
        log_ratios = []
        distances = []
        for sources, targets in beads:
            if sources and targets:
                i = sources[0]
                j = targets[0]
                log_ratios.append(np.log((self.x_lengths[i] + 5) / (self.y_lengths[j] + 5)))
                distances.append(self.distance(i, i + 1, j, j + 1))
        self.length_ratio = np.exp(np.median(log_ratios))
        self.threshold = (1 + np.median(distances)) / 2

    def price(self, i, k, j, end):
        source_length = sum(self.x_lengths[i:k])
        target_length = self.length_ratio * sum(self.y_lengths[j:end])
        length_difference = abs(np.log((source_length + 5) / (target_length + 5)))
        cost = self.distance(i, k, j, end) + 0.3 * min(1.5, length_difference)
        return (k - i) * (end - j) * (cost + 4 * max(0, cost - self.threshold))


def joined(sentences):
    total = sentences.sum(axis=0)
    return total / np.linalg.norm(total)


def strangeness(vector, others):
    """1 minus the mean cosine with all sentences but the nearest."""
    cosines = np.sort(others @ vector)
    return 1 - cosines[:-1].mean()


def bead_sizes(largest: int) -> list[tuple[int, int]]:
    """Numbers of source and target sentences: one sentence alone, or at most `largest` together."""
    together = []
    for source_count, target_count in product(range(1, largest), repeat=2):
        if source_count + target_count <= largest:
            together.append((source_count, target_count))
    return [(1, 0), (0, 1), *together]


def cheapest(n: int, m: int, largest: int, price) -> list[tuple[range, range]]:
    """The beads of the alignment of least total price, among all alignments;
    a sentence alone costs 0.7."""

    @cache
    def best_from(i, j):
        """(price, beads) of the sentences from i and j on."""
        if i == n and j == m:
            return 0.0, []
        # Every bead that may begin here, with the best rest behind it.
        alignments = []
        for source_count, target_count in bead_sizes(largest):
            k = i + source_count
            end = j + target_count
            if k > n or end > m:
                continue
            is_pair = source_count and target_count
            cost = price(i, k, j, end) if is_pair else 0.7
            rest_cost, rest = best_from(k, end)
            alignments.append((cost + rest_cost, [(range(i, k), range(j, end)), *rest]))
        return min(alignments, key=itemgetter(0))

    _, beads = best_from(0, 0)
    return beads


def numbers_of(beads) -> list[tuple[list[int], list[int]]]:
    """The sentences of each bead; sentences alone have any order at one place,
    so the beads are sorted."""
    return sorted((list(sources), list(targets)) for sources, targets in beads)


@pytest.mark.parametrize("seed", range(4))
def test_beads_are_the_cheapest_of_all(seed):
    # two sentences of x stand for one of y, two of y for one of x, and each side has a stranger
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
    formula.learn_from(cheapest(len(x), len(y), 2, formula.distance))
    expected = cheapest(len(x), len(y), 4, formula.price)
    assert numbers_of((bead.sources, bead.targets) for bead in beads) == numbers_of(expected)


def sentences_of(beads, side: str) -> list[int]:
    """The sentences of a side, in the order of the beads."""
    return [*chain.from_iterable(getattr(bead, side) for bead in beads)]


@pytest.fixture(scope="module")
def lost_chapters():
    """x, y, and the number of the idea of each of their sentences.

    Each side lacks another chapter, and strangers stand at an end.
    """
    rng = np.random.default_rng(0)
    ideas = rng.normal(size=(2400, 256)).astype(np.float32)
    numbers = np.arange(2400)
    x_ideas = np.delete(numbers, slice(700, 900))
    y_ideas = np.delete(numbers, slice(895, 1000))
    strangers = rng.normal(size=(80, 256))
    x = ideas[x_ideas]
    y = np.concatenate([ideas[y_ideas], strangers])
    x += 0.5 * rng.normal(size=x.shape)
    y[:-80] += 0.5 * rng.normal(size=(len(y_ideas), 256))
    return x, y.astype(np.float32), x_ideas, np.append(y_ideas, [-1] * 80)


@pytest.mark.slow
def test_a_long_document_with_lost_chapters(lost_chapters):
    """Coarse to fine: at least 99 % of the common ideas are paired and nothing else,
    without a table of all cells."""
    x, y, x_ideas, y_ideas = lost_chapters
    cells = len(x) * len(y)
    assert cells > 4 * FULL

    tracemalloc.start()
    beads = align(x, y, [40] * len(x), [50] * len(y))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # Memory below a table of all cells, and every sentence in one bead.
    assert peak < 4 * cells
    assert sentences_of(beads, "sources") == list(range(len(x)))
    assert sentences_of(beads, "targets") == list(range(len(y)))
    # Pairs without doubt are those of common ideas, and hardly one is missing.
    near_pairs = [bead for bead in beads if bead.is_pair and bead.cost < 0.6]
    for bead in near_pairs:
        assert x_ideas[bead.sources[0]] == y_ideas[bead.targets[0]]
    assert len(near_pairs) > 0.99 * len(np.intersect1d(x_ideas, y_ideas))


def test_a_long_document_of_an_odd_number_of_sentences_may_end_with_strangers():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1281, 32)).astype(np.float32)
    x = y[:1201]
    assert len(x) * len(y) > FULL

    beads = align(x, y)

    pairs = [bead for bead in beads if bead.is_pair]
    assert [bead.sources[0] for bead in pairs] == list(range(1201))
    assert [bead.targets[0] for bead in pairs] == list(range(1201))
    assert sentences_of(beads, "targets") == list(range(1281))


@pytest.fixture
def folders(tmp_path):
    """Two documents; in the first the target joins the first two sentences, has a blank line,
    and lacks the fifth."""
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


def beads_with_costs(folders) -> tuple[list[str], list[str]]:
    """What stands before the last colon in the lines of document a, and the costs behind it."""
    beads = []
    costs = []
    for line in (folders / "out" / "a.txt.path").read_text().splitlines():
        bead, _, cost = line.rpartition(":")
        beads.append(bead)
        costs.append(cost)
    return beads, costs


def test_vecaligns_format_counts_lines(folders):
    aligned(folders, "out")

    beads, _ = beads_with_costs(folders)
    assert beads == TRUE


def test_vecaligns_format_has_costs(folders):
    aligned(folders, "out")

    _, costs = beads_with_costs(folders)
    assert 0 <= min(map(float, costs)) <= max(map(float, costs)) < 0.2
    assert costs[3] == "0.000000"  # a sentence alone


def test_a_document_of_one_side_is_left_out(folders):
    report = aligned(folders, "out")

    assert not (folders / "out" / "c.txt.path").exists()
    assert report.documents_left_out == 1
    assert (report.sources_left_out, report.targets_left_out) == (0, 1)


def test_the_report_counts_sentences(folders):
    report = aligned(folders, "out")

    assert (report.documents, report.sources, report.targets, report.pairs) == (2, 16, 14, 14)
    assert (report.sources_alone, report.targets_alone) == (1, 0)


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
    third = sentences(8, 0)[2]

    def without_third(texts, lang):
        vectors = encode(texts)
        for vector, text in zip(vectors, texts, strict=True):
            if text == third:
                vector[:] = 0
        return vectors

    report = aligned(folders, "out", without_third)

    beads, _ = beads_with_costs(folders)
    assert beads == ["[0, 1]:[0]", "[]:[2]", "[2]:[]", *TRUE[2:]]
    assert (report.sources, report.sources_left_out, report.sources_alone) == (15, 1, 1)
    assert "sentences whose embedding is zero: 1" in caplog.text


def test_two_files_give_what_two_folders_give(folders):
    aligned(folders, "out")

    aligned(folders, "one.path", name="a.txt")

    assert (folders / "one.path").read_text() == (folders / "out" / "a.txt.path").read_text()


@pytest.mark.parametrize(
    "name, langs", [("out.tsv.gz", LANGUAGES), ("out.parquet", {}), ("out.fr-en", {})]
)
def test_pairs_come_back(folders, name, langs):
    """In every format the same pairs, of both documents in order;
    a TSV file does not hold the languages."""
    aligned(folders, name, **LANGUAGES)

    rows = load_parallel(folders / name, **langs)

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
    """Two paragraphs of six sentences each, against one sentence a line."""
    lines = [f"{line}." for line in sentences(12, 3)]
    raw = folders / "raw.txt"
    raw.write_text(" ".join(lines[:6]) + "\n\n" + " ".join(lines[6:]) + "\n")
    cut = folders / "cut.txt"
    write_lines(cut, lines)

    report = align_files(
        raw, cut, folders / "out.tsv", encode, raw=True, progress=False, **LANGUAGES
    )

    assert (report.sources, report.targets, report.pairs) == (12, 12, 12)


@pytest.mark.parametrize(
    "source, target, out, options, message",
    [
        ("fr", "en/a.txt", "o.tsv", {}, "a folder and a file"),
        ("en/a.txt", "fr", "o.tsv", {}, "a file and a folder"),
        ("fr", "none", "o.tsv", {}, "no file or folder"),
        ("fr", "other", "o.tsv", {}, "no file names in common"),
        ("fr", "en", "o.xlsx", {}, "unknown format"),
        ("fr", "en", "out", {"threshold": 0.5}, "leave out raw and threshold"),
        ("fr", "en", "fr/a.txt", {}, "is an input too"),
        ("fr", "en", "o.tsv", {"raw": True}, "give the languages"),
        ("fr/a.txt", "empty.txt", "o.tsv", {}, "empty.txt is empty"),
        ("cut.gz", "en/a.txt", "o.tsv", {}, "cut.gz: damaged"),
        ("fr", "en", "o.tmx", {}, "needs the languages"),
        ("-", "-", "o.tsv", {}, "both standard input"),
    ],
)
def test_refusals_come_before_anything_is_encoded(
    folders, monkeypatch, source, target, out, options, message
):
    monkeypatch.chdir(folders)
    Path("other").mkdir()
    Path("empty.txt").touch()
    Path("cut.gz").write_bytes(gzip.compress(bytes(99))[:-9])
    before = sorted(folders.rglob("*"))

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        align_files(
            Path(source), Path(target), Path(out), lambda *_: pytest.fail("encoded"), **options
        )

    assert sorted(folders.rglob("*")) == before
