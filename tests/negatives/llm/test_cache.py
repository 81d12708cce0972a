"""The cache: what was written is there after a crash, whatever became of the last line."""

from __future__ import annotations

import json
import threading

import pytest

from hf_echo.negatives.llm import Reply, ReplyCache
from hf_echo.negatives.llm.cache import request_key

MESSAGES = [{"role": "user", "content": "naïve?"}]
REPLIES = [Reply("één\n\ud800", "stop", 3, 4), Reply("", None), Reply("x" * 9000, "length", 1, None)]


def keys(n):
    return [request_key("m", MESSAGES, {"seed": i}) for i in range(n)]


def fill(path, replies=REPLIES):
    with ReplyCache(path) as cache:
        for key, reply in zip(keys(len(replies)), replies):
            cache.put(key, "m", reply)


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "r.jsonl"
    fill(path)
    with ReplyCache(path) as cache:
        assert [cache.get(key) for key in keys(3)] == REPLIES and len(cache) == 3
        assert cache.get(keys(4)[3]) is None and cache.keys() == set(keys(3))
        cache.put(keys(4)[3], "m", Reply("new"))
        assert cache.get(keys(4)[3]) == Reply("new") and cache.get(keys(1)[0]) == REPLIES[0]
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 4


@pytest.mark.parametrize("content", ["a note without line end", "{}\n", '{"source": "a"}\n'])
def test_a_file_of_something_else_stays(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    for _ in range(2):  # the second would wait for the lock of the first
        with pytest.raises(ValueError, match="notes.txt holds no replies of a language model"):
            ReplyCache(path)
    assert path.read_text() == content


def test_key_is_all_that_decides_a_reply():
    base = ("m", MESSAGES, {"temperature": 0.0, "seed": 1})
    others = [
        ("n", *base[1:]),
        ("m", [{"role": "system", "content": "naïve?"}], base[2]),
        ("m", MESSAGES, {"temperature": 0.0, "seed": 2}),
        ("m", MESSAGES, {"temperature": 0.5, "seed": 1}),
    ]
    assert len({request_key(*r) for r in (base, *others)}) == 5
    assert request_key("m", MESSAGES, {"seed": 1, "temperature": 0.0}) == request_key(*base)


@pytest.mark.parametrize("cut", [1, 5, 9000])
def test_a_cut_last_line_is_dropped_and_named(tmp_path, caplog, cut):
    path = tmp_path / "r.jsonl"
    fill(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with ReplyCache(path) as cache:
        assert [cache.get(key) for key in keys(3)] == [*REPLIES[:2], None]
        cache.put(keys(3)[2], "m", Reply("again"))
    assert f"{path}:3: the last line was cut" in caplog.text
    caplog.clear()
    with ReplyCache(path) as cache:
        assert cache.get(keys(3)[2]) == Reply("again") and cache.get(keys(2)[1]) == REPLIES[1]
    assert not caplog.text


def test_a_damaged_line_costs_only_itself(tmp_path, caplog):
    path = tmp_path / "r.jsonl"
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for damage in (b"\xff\xfe\n", b"{}\n", b"3\n", b'{"key": "zz", "text": "a"}\n', b"\n"):
        path.write_bytes(lines[0] + damage + lines[2])
        caplog.clear()
        with ReplyCache(path) as cache:
            assert [cache.get(key) for key in keys(3)] == [REPLIES[0], None, REPLIES[2]]
        assert f"{path}:2: not a reply" in caplog.text


def test_one_process_at_a_time(tmp_path):
    with ReplyCache(tmp_path / "r.jsonl"):
        with pytest.raises(ValueError, match="r.jsonl is in use by another process"):
            ReplyCache(tmp_path / "r.jsonl")
    ReplyCache(tmp_path / "r.jsonl").close()


def test_threads_share_it(tmp_path):
    with ReplyCache(tmp_path / "r.jsonl") as cache:
        every = keys(80)

        def work(part):
            for i in range(part, 80, 8):
                cache.put(every[i], "m", Reply(f"reply {i}" * i))
                assert cache.get(every[i]) == Reply(f"reply {i}" * i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    with ReplyCache(tmp_path / "r.jsonl") as cache:
        assert [cache.get(key).text for key in every] == [f"reply {i}" * i for i in range(80)]
