"""A search that is killed at any write resumes there, and gives the same result as one that was never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import hf_echo.search.blocks as blocks
from hf_echo.search import mine, mine_files


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (23, 6)) + 0.0  # whole numbers: equal cosines, whose order must not change
    y = np.concatenate([x[5:], rng.integers(-2, 3, (20, 6)) + 0.0])[rng.permutation(38)]
    x[~x.any(1)], y[~y.any(1)] = 1.0, 1.0
    return x, y


@pytest.fixture
def searches(monkeypatch):
    """Counts the blocks that are searched."""
    calls, real = [], blocks.mutual_neighbours

    def counted(rows, columns, *k):
        calls.append((len(rows), len(columns)))
        return real(rows, columns, *k)

    monkeypatch.setattr(blocks, "mutual_neighbours", counted)
    return calls


def die_at(monkeypatch, writes: int) -> None:
    """The process ends just before its next file after so many is in its place."""
    left, real = [writes], os.replace

    def replace(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr("os.replace", replace)


@pytest.mark.parametrize("writes", [0, 1, 2, 7, 14, 23])  # 3 x 4 blocks, two files each
def test_killed_at_any_write_and_run_again(sides, searches, tmp_path, monkeypatch, writes):
    options = dict(block=10, k=3)
    want = mine(*sides, **options)
    assert len(searches) == 3 * 4
    searches.clear()
    with monkeypatch.context() as patch:
        die_at(patch, writes)
        with pytest.raises(KeyboardInterrupt):
            mine(*sides, work=tmp_path, **options)
    assert len(searches) == writes // 2 + 1
    searches.clear()
    found = mine(*sides, work=tmp_path, **options)
    assert len(searches) == 12 - writes // 2  # the block in whose middle it died once more
    assert found.pairs() == want.pairs()
    np.testing.assert_array_equal(found.scores, want.scores)


@pytest.mark.parametrize("margin", ["ratio", "distance", "cosine"])
@pytest.mark.parametrize("block", [22, 20, 19, 13, 1])  # 23 and 38 rows: last blocks of fewer rows than k
def test_blocks_do_not_change_the_result(sides, margin, block):
    want, found = (mine(*sides, k=4, block=size, margin=margin) for size in (1000, block))
    assert found.pairs() == want.pairs()
    np.testing.assert_allclose(found.scores, want.scores, rtol=1e-6)


def test_files_of_others_in_the_work_folder_stay(tmp_path):
    """A folder of texts could be adopted as that of the embeddings, and --fresh would delete it."""
    (tmp_path / "work" / "source").mkdir(parents=True)
    texts = tmp_path / "work" / "source" / "a.txt"
    texts.write_text("u v w\nx y z\n")
    for fresh in (False, True):
        with pytest.raises(ValueError, match="source holds (other files than|no) embeddings of hf-echo"):
            mine_files(
                texts, texts, tmp_path / "o.tsv", lambda *_: np.ones((1, 2)), work=tmp_path / "work", fresh=fresh
            )
    assert list(texts.parent.iterdir()) == [texts]


def test_what_is_another_search_and_what_is_not(sides, searches, tmp_path):
    x, y = sides
    first = mine(x, y, block=10, work=tmp_path)
    searches.clear()
    assert mine(x, y, block=10, work=tmp_path).pairs() == first.pairs()
    for options in ({"margin": "distance"}, {"retrieval": "forward"}, {"threshold": 1.1}):
        mine(x, y, block=10, work=tmp_path, **options)
    assert mine([x[:9], x[9:]], y, block=10, work=tmp_path).pairs() == first.pairs()
    assert searches == []
    changed = x.copy()
    changed[22, 5] += 1e-9
    for arguments, options in (((changed, y), {}), ((y, x), {}), ((x, y), {"k": 2}), ((x, y[:-1]), {})):
        want = mine(*arguments, block=10, **options)
        searches.clear()
        assert mine(*arguments, block=10, work=tmp_path, **options).pairs() == want.pairs()
        assert len(searches) == 12


def test_stripes_of_a_search_change_nothing_and_resume(sides, searches, tmp_path, monkeypatch):
    x, y = (np.hstack([side, np.zeros((len(side), 24))]) for side in sides)
    want = mine(x, y, block=5, k=3)
    assert len(searches) == 5 * 8
    searches.clear()
    with monkeypatch.context() as patch:
        die_at(patch, 2 * 8 * 4 + 3)  # two files for each pair of blocks; stripes of two, two and one block of x
        with pytest.raises(KeyboardInterrupt):
            mine(x, y, block=5, k=3, work=tmp_path)
    assert len(list(tmp_path.glob("*/stripe-*"))) == 3
    assert len(searches) == 8 * 4 + 2
    searches.clear()
    found = mine(x, y, block=5, k=3, work=tmp_path)
    assert len(searches) == 8 - 1
    assert found.pairs() == want.pairs()
    np.testing.assert_array_equal(found.scores, want.scores)


def test_an_index_resumes_too(sides, tmp_path, monkeypatch):
    faiss = pytest.importorskip("faiss")
    want = mine(*sides, index="Flat", block=10)
    die_at(monkeypatch, 7)  # the index of y (trained, one shard), three blocks of x, the index of x
    with pytest.raises(KeyboardInterrupt):
        mine(*sides, index="Flat", block=10, work=tmp_path)
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    files = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    blocks_of_x = [f"x-00000{number}.npz" for number in range(3)]
    assert sorted(files) == [*blocks_of_x, "x.index/000000.faiss", "x.index/trained.faiss"]
    monkeypatch.setattr(faiss, "index_factory", None)  # both indexes were built already
    found = mine(*sides, index="Flat", block=10, work=tmp_path)
    assert found.pairs() == want.pairs()
    assert not list(folder.rglob("*.faiss"))
    mine(*sides, index="Flat", block=10, work=tmp_path)


CHILD = """
import sys, numpy as np
import hf_echo.search.blocks as blocks
from hf_echo.search import mine_files
from pathlib import Path
from tests_encode import encode
real = blocks.mutual_neighbours
def slow(*a):
    import time; time.sleep(0.3)
    return real(*a)
blocks.mutual_neighbours = slow
folder = Path(sys.argv[1])
mine_files(folder / "a.txt", folder / "b.txt", folder / "o.tsv", encode, block=8, progress=False)
"""

ENCODE = """
import zlib, numpy as np
def encode(texts, lang):
    words = lambda t: [np.random.default_rng(zlib.crc32(w.encode())).normal(size=8) for w in t.split()]
    return np.stack([sum(words(t)) for t in texts])
"""


def test_files_after_a_real_kill(tmp_path, searches, monkeypatch):
    rng = np.random.default_rng(0)
    for name in "ab":
        lines = [" ".join(rng.choice(list("uvwxyz"), 3)) for _ in range(40)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    (tmp_path / "tests_encode.py").write_text(ENCODE)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        finished = lambda: list(tmp_path.glob("o.tsv.work/search/*/*/y-*.npz"))  # noqa: E731
        deadline = time.monotonic() + 120
        while len(finished()) < 3 and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert 3 <= len(finished()) and not (tmp_path / "o.tsv").exists()
    monkeypatch.syspath_prepend(str(tmp_path))
    from tests_encode import encode

    arguments = (tmp_path / "a.txt", tmp_path / "b.txt")
    mine_files(*arguments, tmp_path / "o.tsv", encode, block=8, progress=False)
    assert len(searches) <= 25 - 3
    mine_files(*arguments, tmp_path / "fresh.tsv", encode, block=8, progress=False)
    assert (tmp_path / "o.tsv").read_bytes() == (tmp_path / "fresh.tsv").read_bytes()
