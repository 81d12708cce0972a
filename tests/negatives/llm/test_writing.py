"""Rows from a server that answers, fails, stalls, lies, drops connections or dies in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from hf_echo.data import load_parallel
from hf_echo.negatives.llm import Endpoint, Sampling, back_translate, describe, negatives, write_rows
from hf_echo.negatives.llm.backends import BackendRefused
from hf_echo.negatives.llm.rows import Text

SNIPPETS = [Text(f"print({i} + x)", "python") for i in range(12)]


def last(request):
    return request["messages"][-1]["content"].split("\n\n")[-1]


def describing(request, times=1):
    return f"It writes {last(request)[6:-1].replace('+', 'plus')} to standard output."


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def write(server, tmp_path):
    """write(jobs, ...) -> (summary, rows, failures)."""

    def call(jobs, timeout=5, retries=2, **options):
        backend = Endpoint("m", server.url, timeout=timeout, retries=retries)
        out = tmp_path / "out.jsonl"
        summary = write_rows(jobs, backend, out, progress=False, **options)
        failed = tmp_path / "out.failed.jsonl"
        return summary, lines(out), lines(failed) if failed.exists() else []

    return call


def test_descriptions(server, write, tmp_path):
    server.script = describing
    texts = [*SNIPPETS, Text("$$x + y$$", "latex"), SNIPPETS[0]]
    summary, rows, failed = write(describe(texts), prices=(2.0, 500.0))
    assert [(r["source"], r["source_lang"]) for r in rows] == texts  # in order
    assert rows[3] == {
        "source": "print(3 + x)",
        "source_lang": "python",
        "target": "It writes 3 plus x to standard output.",
        "target_lang": "eng_Latn",
        "provenance": "code",
    }
    assert rows[12]["provenance"] == "math" and rows[13] == rows[0]
    assert len(load_parallel(tmp_path / "out.jsonl")) == 14
    assert (summary.rows, summary.answered, summary.failed, failed) == (14, 14, 0, [])
    assert summary.requests == len(server.seen) == 13  # the same question is asked once
    prompt = sum(len(m["content"]) for r in server.requests() for m in r["messages"])
    words = sum(len(describing(r).split()) for r in server.requests())
    assert (summary.prompt_tokens, summary.completion_tokens) == (prompt, words)
    assert summary.cost == pytest.approx((2 * prompt + 500 * words) / 1e6)
    assert all(
        (r["model"], r["temperature"], r["seed"], r["max_tokens"]) == ("m", 0, 0, 512) for r in server.requests()
    )

    before = (tmp_path / "out.jsonl").read_bytes()
    again, _, _ = write(describe(texts))
    assert (again.requests, again.from_cache, again.cost) == (0, 14, 0) and len(server.seen) == 13
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_back_translations(server, write):
    server.script = lambda request, times: (
        f"({request['messages'][1]['content'].split('into ')[1][:4]}) {last(request)}"
    )
    texts = [Text("A boat.", "eng_Latn"), Text("Two boats.", "eng_Latn")]
    _, rows, _ = write(back_translate(texts, ["fra_Latn", "Thai", "fr"]))
    assert [(r["source"], r["source_lang"], r["target"]) for r in rows] == [
        ("(Fren) A boat.", "fra_Latn", "A boat."),
        ("(Thai) A boat.", "tha_Thai", "A boat."),
        ("(Fren) Two boats.", "fra_Latn", "Two boats."),
        ("(Thai) Two boats.", "tha_Thai", "Two boats."),
    ]
    assert all(r["provenance"] == "back_translation" and r["target_lang"] == "eng_Latn" for r in rows)
    for wrong in ("eng_Latn", "python", "klingon"):
        with pytest.raises(ValueError, match=wrong):
            back_translate(texts, [wrong])


PAIR = {
    "source": "x",
    "source_lang": "fra_Latn",
    "target": "He sold 5 boats.",
    "target_lang": "eng_Latn",
    "provenance": "mined",
}


def test_negatives(server, write, tmp_path):
    kinds = [
        ("entity", "She sold 5 boats."),
        ("number", "He sold 6 boats."),
        ("causality", "He kept 5 boats."),
    ]
    server.script = lambda request, times: (
        str(kinds) if "pairs" in request["messages"][0]["content"] else str([s for _, s in kinds])
    )
    given = [
        {**PAIR, "hard_negatives": ["he sold 6 boats", "Old."]},
        {**PAIR, "target": "Il a vendu 5 bateaux.", "target_lang": "fra_Latn", "source": "y"},
    ]
    summary, rows, _ = write(negatives(given))
    added = [s for _, s in kinds]
    assert rows[0] == {**PAIR, "hard_negatives": ["he sold 6 boats", "Old.", added[0], added[2]]}
    assert rows[1] == {**given[1], "hard_negatives": []}
    assert (summary.answered, summary.not_asked, len(server.seen)) == (1, 1, 1)

    _, rows, _ = write(negatives([PAIR], kinds=True))
    assert rows[0]["hard_negatives"] == added
    assert rows[0]["hard_negative_kinds"] == ["entity", "number", "causality"]
    assert load_parallel(tmp_path / "out.jsonl")[0]["hard_negatives"] == added


# A server that fails


def test_errors_that_pass(server, write):
    """500, 429, a dropped connection and a stalled one: the same question again, until it is answered."""
    trouble = {0: [500, 503], 1: [429], 2: [ConnectionError], 3: ["stall"]}

    def script(request, times):
        steps = trouble.get(int(last(request)[6]), [])
        if times > len(steps):
            return describing(request)
        if steps[times - 1] == "stall":
            time.sleep(2)
            return ConnectionError
        return steps[times - 1]

    server.script = script
    summary, rows, failed = write(describe(SNIPPETS[:5]), timeout=1)
    assert len(rows) == 5 and not failed and summary.failed == 0
    assert summary.transport_retries == 5 and summary.requests == 5 and summary.invalid_replies == 0
    assert len(server.seen) == 10 and len(server.answered) == 5


def test_errors_that_stay_are_recorded_and_asked_again(server, write, completion):
    """Of ten rows four get no reply; they are named, and a later run asks only them."""
    broken = {
        1: 500,
        2: b'{"choices": [{"mess',
        3: completion("x", choices=[]),
        4: b"<html>busy</html>",
        5: completion({"a": 1}),
    }

    def script(request, times):
        return broken.get(int(last(request)[6])) or describing(request)

    server.script = script
    summary, rows, failed = write(describe(SNIPPETS[:10]), retries=0, concurrency=3)
    assert (summary.answered, summary.failed, len(rows)) == (5, 5, 5)
    assert [row["source"] for row in failed] == [f"print({i} + x)" for i in range(1, 6)]
    assert all(row["reason"].startswith("no reply: ") and "\n" not in row["reason"] for row in failed)
    assert "500" in failed[0]["reason"] and "not a chat completion" in failed[2]["reason"]

    server.script, seen = describing, len(server.seen)
    summary, rows, failed = write(describe(SNIPPETS[:10]))
    assert (summary.answered, summary.requests, summary.from_cache) == (10, 5, 5)
    assert len(rows) == 10 and not failed and len(server.seen) == seen + 5


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_stops_at_once(server, write, status):
    server.script = lambda request, times: status
    with pytest.raises(BackendRefused, match=f"refuses model 'm': .*{status}"):
        write(describe(SNIPPETS), concurrency=2)
    assert len(server.seen) <= 4


def test_a_dead_endpoint_stops_the_run(server, write, tmp_path):
    server.script = lambda request, times: describing(request) if len(server.seen) <= 5 else 500
    texts = [Text(f"print({i} + x)", "python") for i in range(200)]
    with pytest.raises(ValueError, match="20 consecutive rows got no reply: .*500.*out.replies.jsonl") as caught:
        write(describe(texts), retries=0, concurrency=1)
    assert "\n" not in str(caught.value) and not (tmp_path / "out.jsonl").exists()
    assert len(lines(tmp_path / "out.replies.jsonl")) == 5 and len(server.seen) < 60
    server.script = describing
    summary, rows, _ = write(describe(texts))
    assert (summary.from_cache, summary.requests, len(rows)) == (5, 195, 200)


def test_stop_at_the_first_failure(server, write, tmp_path):
    server.script = lambda request, times: "" if "(3" in last(request) else describing(request)
    with pytest.raises(ValueError, match=r'no valid reply for "print\(3 \+ x\)": empty; the replies so far'):
        write(describe(SNIPPETS), on_fail="stop", concurrency=1)
    assert not (tmp_path / "out.jsonl").exists()
    assert len(lines(tmp_path / "out.replies.jsonl")) >= 6  # 3 good ones and 3 attempts


# A server that lies


LIES = {
    "no list": "Sure, I will do that.",
    "empty string": '["She sold 5 boats.", ""]',
    "paraphrase equal to the input": '["He sold 5 boats!"]',
    "12 strings": str([f"He sold {i} boats" for i in range(20, 32)]),
    "truncated": '["She sold 5 boats.", "He so',
    "nothing": "",
    "null": None,
    "numbers": "[1, 2, 3]",
    "half a character": '["a \\ud800 boat"]',
    "half a character of its own": '["a \ud800 boat"]',
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_asked_again_hotter_with_another_seed(server, write, completion, lie):
    server.script = lambda request, times: (
        completion(LIES[lie], request) if request["seed"] < 9 else "['She sold 5 boats.']"
    )
    sampling = Sampling(seed=7, attempts=3)
    summary, rows, failed = write(negatives([PAIR]), sampling=sampling)
    assert rows == [{**PAIR, "hard_negatives": ["She sold 5 boats."]}] and not failed
    assert [(r["seed"], r["temperature"]) for r in server.requests()] == [(7, 0), (8, 0.7), (9, 0.7)]
    assert (summary.answered, summary.invalid_replies, summary.requests) == (1, 2, 3)


def test_a_liar_is_recorded_not_lost(server, write):
    server.script = lambda request, times: LIES["12 strings"]
    summary, rows, failed = write(negatives([PAIR, {**PAIR, "source": "y"}]), sampling=Sampling(attempts=2))
    assert rows == [{**PAIR, "hard_negatives": []}, {**PAIR, "source": "y", "hard_negatives": []}]
    reason = "a list of 12 sentences instead of 1-5"
    assert failed == 2 * [{"target": PAIR["target"], "reason": reason, "reply": LIES["12 strings"]}]
    assert summary.reasons == {reason: 2} and len(server.seen) == 2
    assert write(negatives([PAIR]), sampling=Sampling(attempts=3))[0].requests == 1  # one attempt more
    assert len(server.seen) == 3


def test_a_lie_that_cannot_be_written(server, write):
    lie = LIES["half a character of its own"]
    server.script = lambda request, times: lie
    _, rows, failed = write(negatives([PAIR]))
    assert rows == [{**PAIR, "hard_negatives": []}]
    assert failed == [{"target": PAIR["target"], "reason": "not valid Unicode", "reply": lie}]
    assert write(negatives([PAIR]))[0].from_cache == 3


def test_a_reply_cut_off_is_none(server, write, completion):
    server.script = lambda request, times: completion("A sentence that has no", request, finish="length")
    _, rows, failed = write(describe(SNIPPETS[:1]), sampling=Sampling(max_tokens=5, attempts=1))
    assert not rows and failed[0]["reason"] == "cut off at 5 tokens"


def test_a_server_that_counts_nothing(server, write, completion):
    server.script = lambda request, times: completion(describing(request), request, usage=None)
    summary, rows, _ = write(describe(SNIPPETS[:2]))
    assert len(rows) == 2 and (summary.requests_without_usage, summary.completion_tokens) == (2, 0)


# Parallel, killed


def test_concurrency_is_bounded_and_order_kept(server, write):
    now, most, guard = [0], [0], threading.Lock()

    def script(request, times):
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.2 if "(0" in last(request) else 0.02)
        with guard:
            now[0] -= 1
        return describing(request)

    server.script = script
    texts = [Text(f"print({i} + x)", "python") for i in range(60)]
    _, rows, _ = write(describe(texts), concurrency=3)
    assert [r["source"] for r in rows] == [t.text for t in texts]
    assert 2 <= most[0] <= 3


def test_killed_in_the_middle(server, run, tmp_path, caplog):
    """kill -9 after 10 replies of 30: the second run asks for the other 20, and nothing twice."""
    table, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    texts = [{"text": f"print({i} + x)", "lang": "python"} for i in range(30)]
    table.write_text("".join(json.dumps(t) + "\n" for t in texts))
    stopped = threading.Event()

    def script(request, times):
        with server.guard:
            free = script.left > 0
            script.left -= 1
        if not free and not stopped.is_set():
            stopped.wait(180)
            return ConnectionError
        return describing(request)

    script.left = 10
    server.script = script
    command = [sys.executable, "-m", "hf_echo.cli", "data", "describe", table, out, "--model", "m"]
    command += ["--endpoint", server.url, "--concurrency", "4"]
    replies = out.with_suffix(".replies.jsonl")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.time() + 180
        while not replies.exists() or replies.read_bytes().count(b"\n") < 10:
            assert time.time() < until and process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not out.exists()
    stopped.set()
    with replies.open("ab") as file:
        file.write(b'{"key": "00')  # as if the kill had hit a write
    code, printed, shown = run(*command[3:])
    summary = json.loads(printed)
    assert (code, summary["requests"], summary["from_cache"], summary["answered"]) == (0, 20, 10, 30)
    assert "30/30" in shown and "replies.jsonl:11: the last line was cut" in caplog.text
    assert [row["source"] for row in lines(out)] == [t["text"] for t in texts]
    assert len(server.answered) == 30 and set(Counter(server.answered).values()) == {1}
