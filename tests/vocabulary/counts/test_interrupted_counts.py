"""Counts that were stopped give the same file when they are resumed; a changed input is refused."""

from __future__ import annotations

import os

import pytest

from hf_echo.vocabulary.counts import count as counting
from hf_echo.vocabulary.counts.count import Source

from .toy_counts import count, failing


def test_an_interrupted_count_resumes(corpus, tmp_path, monkeypatch):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    with monkeypatch.context() as patch:
        failing(patch, -1, shards := [])
        count(corpus, tmp_path / "again.parquet")
    assert len(shards) == 5 + 4 + 3  # 29, 24 and 15 rows (5 lines are empty), six to a shard
    for stop in (0, 3, 6):
        with monkeypatch.context() as patch:
            failing(patch, stop, first := [])
            with pytest.raises(KeyboardInterrupt):
                count(corpus, out, max_words=2)
            assert not out.exists()
        with monkeypatch.context() as patch:
            failing(patch, -1, second := [])
            resumed = count(corpus, out, max_words=2)
        assert sorted(first + second) == sorted(shards) and len(first) == stop
        assert resumed.path.read_bytes() == whole.path.read_bytes()
        out.unlink()


def test_half_a_shard_is_counted_again(corpus, tmp_path, monkeypatch):
    """Killed between two pieces of a shard: the pieces without a last one do not count."""
    whole = count(corpus, tmp_path / "whole.parquet")
    real, written = counting.count_shard.__globals__["_PartWriter"].finish, []

    def finish(self, figures):
        written.append(self.pieces)
        if len(written) == 2:
            raise KeyboardInterrupt
        real(self, figures)

    with monkeypatch.context() as patch:
        patch.setattr(counting.count_shard.__globals__["_PartWriter"], "finish", finish)
        with pytest.raises(KeyboardInterrupt):
            count(corpus, tmp_path / "c.parquet", max_words=1)
    assert written[-1] > 0  # pieces lie about
    assert count(corpus, tmp_path / "c.parquet").path.read_bytes() == whole.path.read_bytes()


def die_at_the_second(shard, settings):
    if shard.number == 1:
        os._exit(1)
    return REAL(shard, settings)


REAL = counting.count_shard


def test_a_killed_process_is_told_and_resumes(corpus, tmp_path, monkeypatch):
    whole = count(corpus, tmp_path / "whole.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(counting, "count_shard", die_at_the_second)
        with pytest.raises(ChildProcessError, match="repeat the call to resume"):
            count(corpus, tmp_path / "c.parquet", processes=2)
    assert count(corpus, tmp_path / "c.parquet").path.read_bytes() == whole.path.read_bytes()


def interrupted(monkeypatch, corpus, out) -> None:
    with monkeypatch.context() as patch:
        failing(patch, 2, [])
        with pytest.raises(KeyboardInterrupt):
            count(corpus, out)


def test_a_changed_input_is_an_error(corpus, tmp_path, monkeypatch):
    out = tmp_path / "c.parquet"
    interrupted(monkeypatch, corpus, out)
    with pytest.raises(ValueError, match=r"parts has an interrupted count with another pattern: .* delete"):
        count(corpus, out, pattern="llama3")
    with pytest.raises(ValueError, match=r"pairs.parquet has changed \(kind\) since its count was interrupted"):
        count([Source(corpus[0], kind="monolingual"), *corpus[1:]], out)
    with open(corpus[1], "a") as file:
        file.write("9\teng_Latn\tone more\ttrain\n")
    with pytest.raises(ValueError, match=r"nway.tsv has changed \(size\)") as caught:
        count(corpus, out)
    assert "\n" not in str(caught.value)


def test_sources_may_be_added_to_an_interrupted_count(corpus, tmp_path, monkeypatch):
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    interrupted(monkeypatch, corpus[:2], out)
    assert count(corpus, out).path.read_bytes() == whole.path.read_bytes()
