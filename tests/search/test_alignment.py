"""Alignment: the beads are the cheapest of all, long documents lose nothing, files and folders come back whole."""

import gzip
import json
import tracemalloc
from functools import cache

import numpy as np
import pytest

from hf_echo.cli import pairs
from hf_echo.data import load_parallel
from hf_echo.search import align, align_files
from hf_echo.search.alignment import FULL

from .words import encode, sentences


def cheapest(x, y, lengths, largest: int) -> list[tuple[list[int], list[int]]]:
    """The formula of the module, over all alignments, one by one."""
    n, m = len(x), len(y)

    def run(side, i, k):
        total = side[i:k].sum(axis=0)
        return total / np.linalg.norm(total)

    def strange(vector, others):
        cosines = sorted(float(vector @ run(others, j, j + 1)) for j in range(len(others)))
        return 1 - sum(cosines[:-1]) / (len(cosines) - 1)

    def distance(i, k, j, end):
        one, other = run(x, i, k), run(y, j, end)
        return (1 - one @ other) / ((strange(one, y) + strange(other, x)) / 2)

    def solve(most, price):
        @cache
        def best(i, j):
            if i == n and j == m:
                return 0.0, ()
            ways = [(i + 1, j, 0.7)] * (i < n) + [(i, j + 1, 0.7)] * (j < m)
            for a in range(1, most):
                for b in range(1, most - a + 1):
                    if i + a <= n and j + b <= m:
                        ways.append((i + a, j + b, price(i, i + a, j, j + b)))
            options = [(cost + best(k, end)[0], k, end) for k, end, cost in ways]
            total, k, end = min(options)
            return total, ((list(range(i, k)), list(range(j, end))), *best(k, end)[1])

        return best(0, 0)[1]

    pairs = [(s[0], t[0]) for s, t in solve(2, distance) if s and t]
    ratio = np.exp(np.median([np.log(lengths[0][i] + 5) - np.log(lengths[1][j] + 5) for i, j in pairs]))
    threshold = (1 + np.median([distance(i, i + 1, j, j + 1) for i, j in pairs])) / 2

    def price(i, k, j, end):
        sizes = np.log(sum(lengths[0][i:k]) + 5) - np.log(ratio * sum(lengths[1][j:end]) + 5)
        cost = distance(i, k, j, end) + 0.3 * min(1.5, abs(sizes))
        return (k - i) * (end - j) * (cost + 4 * max(0, cost - threshold))

    return list(solve(largest, price))


@pytest.mark.parametrize("seed", range(4))
def test_beads_are_the_cheapest_of_all(seed):
    rng = np.random.default_rng(seed)
    ideas = rng.normal(size=(8, 12))
    x = np.stack([ideas[0] + ideas[1], *ideas[2:5], ideas[6], ideas[7]])
    y = np.stack([*ideas[:3], ideas[5], ideas[6] + ideas[7], rng.normal(size=12)])
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) + 0.1 * rng.normal(size=side.shape) for side in (x, y))
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    lengths = rng.integers(20, 60, len(x)).tolist(), rng.integers(20, 60, len(y)).tolist()
    found = [(list(bead.sources), list(bead.targets)) for bead in align(x, y, *lengths, largest=4)]
    assert sorted(found) == sorted(cheapest(x, y, lengths, 4))  # sentences alone have any order at one place


def test_a_long_document_with_lost_chapters():
    """Coarse to fine, without a table of all cells; each side lacks another chapter, and strangers stand at an end."""
    rng = np.random.default_rng(0)
    ideas = rng.normal(size=(2400, 256)).astype(np.float32)
    kept = [np.delete(np.arange(2400), slice(*lost)) for lost in ((700, 900), (895, 1000))]
    x, y = (ideas[side] + 0.5 * rng.normal(size=(len(side), 256)).astype(np.float32) for side in kept)
    y = np.concatenate([y, rng.normal(size=(80, 256)).astype(np.float32)])
    assert len(x) * len(y) > 4 * FULL
    tracemalloc.start()
    beads = align(x, y, [40] * len(x), [50] * len(y))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(x) * len(y)
    assert [i for bead in beads for i in bead.sources] == list(range(len(x)))
    assert [j for bead in beads for j in bead.targets] == list(range(len(y)))
    names = [*kept[1], *[-1] * 80]
    found = [(kept[0][b.sources[0]], names[b.targets[0]]) for b in beads if b.sources and b.targets and b.cost < 0.6]
    assert all(i == j for i, j in found)
    assert len(found) > 0.99 * len(set(kept[0]) & set(kept[1]))


@pytest.fixture
def folders(tmp_path):
    """Two documents; in the first the target joins the first two sentences, has a blank line, and lacks the fifth."""
    for name, seed in (("a.txt", 0), ("b.txt", 1)):
        lines = sentences(8, seed)
        other = [f"{lines[0]} {lines[1]}", "", *lines[2:4], *lines[5:]] if seed == 0 else lines
        for side, texts in (("fr", lines), ("en", other)):
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    (tmp_path / "en" / "c.txt").write_text("alone\n")
    return tmp_path


TRUE = [([0, 1], [0]), ([2], [2]), ([3], [3]), ([4], []), ([5], [4]), ([6], [5]), ([7], [6])]


def test_vecaligns_format_counts_lines(folders):
    report = align_files(folders / "fr", folders / "en", folders / "out", encode, progress=False)
    lines = (folders / "out" / "a.txt.path").read_text().splitlines()
    assert [line.rsplit(":", 1)[0] for line in lines] == [f"{s}:{t}" for s, t in TRUE]
    assert lines[3] == "[4]:[]:0.000000" and all(0 <= float(line.rsplit(":", 1)[1]) < 0.2 for line in lines)
    assert not (folders / "out" / "c.txt.path").exists()
    assert (report.documents, report.sources, report.targets, report.pairs) == (2, 16, 14, 14)
    assert (report.sources_alone, report.targets_alone) == (1, 0)
    align_files(folders / "fr" / "a.txt", folders / "en" / "a.txt", folders / "one.path", encode, progress=False)
    assert (folders / "one.path").read_text().splitlines() == lines


@pytest.mark.parametrize("name", ["out.tsv.gz", "out.parquet", "out.fr-en"])
def test_pairs_come_back(folders, name):
    """In every format the same pairs, of both documents in order."""
    langs = dict(source_lang="fra_Latn", target_lang="eng_Latn")
    align_files(folders / "fr", folders / "en", folders / name, encode, progress=False, **langs)
    rows = load_parallel(folders / name, **(langs if ".tsv" in name else {}))
    lines = sentences(8, 0)
    assert rows["source"][:3] == [f"{lines[0]} {lines[1]}", lines[2], lines[3]]
    assert len(rows) == 14 and rows["source"] == rows["target"]


def test_standard_output_holds_the_pairs_alone(folders, run, monkeypatch):
    monkeypatch.setattr(pairs, "anywhere", lambda model: encode)
    monkeypatch.chdir(folders)
    code, out, _ = run("align", "fr/a.txt", "en/a.txt", "-", "--json", "report.json")
    align_files(folders / "fr" / "a.txt", folders / "en" / "a.txt", folders / "o.tsv", encode, progress=False)
    assert (code, out) == (0, (folders / "o.tsv").read_text())
    assert json.loads((folders / "report.json").read_text())["pairs"] == 6


def test_raw_text_is_cut(folders):
    lines = sentences(12, 3)
    (folders / "raw.txt").write_text(". ".join(lines[:6]) + ".\n\n" + ". ".join(lines[6:]) + ".\n")
    (folders / "cut.txt").write_text("".join(f"{line}.\n" for line in lines))
    options = dict(source_lang="fra_Latn", target_lang="eng_Latn", raw=True, progress=False)
    report = align_files(folders / "raw.txt", folders / "cut.txt", folders / "out.tsv", encode, **options)
    assert (report.sources, report.targets, report.pairs) == (12, 12, 12)


@pytest.mark.parametrize(
    "source, target, out, options, message",
    [
        ("fr", "en/a.txt", "o.tsv", {}, "a file and a folder"),
        ("fr", "none", "o.tsv", {}, "no file or folder"),
        ("fr", "other", "o.tsv", {}, "no file names in common"),
        ("fr", "en", "o.csv", {}, "unknown format"),
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
def test_refusals_leave_nothing_and_encode_nothing(folders, source, target, out, options, message):
    (folders / "other").mkdir()
    (folders / "empty.txt").touch()
    (folders / "cut.gz").write_bytes(gzip.compress(bytes(range(99)))[:50])
    before = sorted(folders.rglob("*"))
    paths = [name if name == "-" else folders / name for name in (source, target)]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        align_files(*map(type(folders), paths), folders / out, lambda *_: pytest.fail("encoded"), **options)
    assert sorted(folders.rglob("*")) == before
