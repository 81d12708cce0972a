"""Rows from a server that answers, fails, stalls, lies, hangs up or dies in the middle."""

import json
import re
import threading
import time

import pytest

from hf_echo.negatives.language_model import (
    Endpoint,
    InvalidReply,
    Job,
    Reply,
    ReplyCache,
    write_rows,
)

from ..refusals import refusals, refuses
from .conftest import completion

SENTENCES = [f"He sold {i} boats." for i in range(12)]


def shouted(reply):
    if not reply.isupper():
        raise InvalidReply("not in capitals")
    return reply


def jobs(texts):
    for text in texts:
        messages = [{"role": "user", "content": text}]
        yield Job(
            {"text": text},
            messages,
            shouted,
            lambda value, text=text: {text: value} if value else None,
        )


def last(request):
    return request["messages"][-1]["content"]


def answer(request, times=1):
    return last(request).upper()


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def write(server, tmp_path):
    """write(texts, ...) -> (counts, rows, failures)."""

    def call(texts, timeout=5, retries=2, **options):
        out = tmp_path / "out.jsonl"
        model = Endpoint("m", server.url, timeout=timeout, retries=retries)
        counts = write_rows(jobs(texts), model, out, progress=False, **options)
        failed = tmp_path / "out.failed.jsonl"
        return counts, lines(out), lines(failed) if failed.exists() else []

    return call


def test_rows_are_in_order(server, write):
    server.script = answer

    counts, rows, failed = write(SENTENCES)

    assert rows == [{text: text.upper()} for text in SENTENCES]
    assert not failed
    assert counts["rows"] == 12
    assert counts["answered"] == 12
    assert counts["requests"] == len(server.seen) == 12


def test_tokens_are_counted(server, write):
    server.script = answer
    counts, _, _ = write(SENTENCES)
    assert counts["prompt_tokens"] == sum(len(text) for text in SENTENCES)
    assert counts["completion_tokens"] == 12 * 4


def test_what_is_asked_for(server, write):
    server.script = answer

    write(SENTENCES[:1])

    (request,) = server.requests()
    assert request["model"] == "m"
    assert request["temperature"] == 0
    assert request["seed"] == 0
    assert request["max_tokens"] == 512


def test_nothing_is_asked_twice(server, write, tmp_path):
    server.script = answer
    write(SENTENCES)
    before = (tmp_path / "out.jsonl").read_bytes()

    counts, _, _ = write(SENTENCES)

    assert counts["requests"] == 0
    assert len(server.seen) == 12
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_concurrency_is_bounded(server, write):
    guard = threading.Lock()
    running = set()
    most = []

    # The first request takes longer, so that the others overtake it.
    def script(request, times):
        with guard:
            running.add(last(request))
            most.append(len(running))
        time.sleep(0.2 if " 0 " in last(request) else 0.02)
        with guard:
            running.remove(last(request))
        return answer(request)

    server.script = script
    texts = [f"He sold {i} boats." for i in range(60)]
    _, rows, _ = write(texts, concurrency=3)
    # Order and number are kept, and never more than three run at once.
    assert rows == [{text: text.upper()} for text in texts]
    assert 2 <= max(most) <= 3


def test_errors_that_pass(server, write):
    """500, 429, a dropped connection and a stalled one:
    the same request again, until it is answered."""
    # What goes wrong with each sentence, in turn.
    trouble = {"0": [500, 503], "1": [429], "2": [ConnectionError], "3": ["stall"]}

    def script(request, times):
        steps = trouble.get(last(request).split()[2], [])
        if times > len(steps):
            return answer(request)
        if steps[times - 1] == "stall":
            time.sleep(2)
            return ConnectionError
        return steps[times - 1]

    server.script = script
    counts, rows, failed = write(SENTENCES[:5], timeout=1)
    assert len(rows) == 5
    assert not failed
    # Five sentences, five troubles more, five answers.
    assert counts["requests"] == 5
    assert len(server.seen) == 10
    assert len(server.answered) == 5


@pytest.fixture
def broken_answers(server):
    """Five of ten sentences get no answer."""
    answers = {
        "1": 500,
        "2": b'{"choices": [{"mess',
        "3": completion("x", choices=[]),
        "4": b"<html>busy</html>",
        "5": completion({"a": 1}),
    }
    server.script = lambda request, times: answers.get(last(request).split()[2]) or answer(request)


def test_errors_that_stay_are_recorded(broken_answers, write):
    counts, rows, failed = write(SENTENCES[:10], retries=0, concurrency=3)

    assert counts["answered"] == len(rows) == 5
    assert counts["failed"] == 5
    assert [row["text"] for row in failed] == SENTENCES[1:6]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (0, "no reply: .*500.*"),
        (1, "no reply: .*"),
        (2, "no reply: .*not a chat completion.*"),
        (3, "no reply: .*"),
        (4, "no reply: .*"),
    ],
)
def test_the_reason_of_an_error_is_one_line(broken_answers, write, number, reason):
    _, _, failed = write(SENTENCES[:10], retries=0, concurrency=3)

    assert re.fullmatch(reason, failed[number]["reason"])


def test_failed_rows_are_asked_again(broken_answers, server, write):
    write(SENTENCES[:10], retries=0, concurrency=3)
    server.script = answer

    counts, _, failed = write(SENTENCES[:10])

    assert counts["answered"] == 10
    assert counts["requests"] == 5
    assert counts["from_cache"] == 5
    assert not failed


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_stops_at_once(server, write, status):
    server.script = lambda request, times: status
    refuses(
        f"refuses model 'm': .*{status}",
        lambda: write([f"He sold {i} boats." for i in range(300)], concurrency=2),
    )
    assert len(server.seen) < 50  # 32 are on their way before the first answer is read


def test_a_dead_endpoint_stops_the_run(server, write, tmp_path):
    server.script = lambda request, times: answer(request) if len(server.seen) <= 5 else 500
    texts = [f"He sold {i} boats." for i in range(200)]
    refuses(
        "20 consecutive rows got no reply: .*500.*out.replies.sqlite",
        write,
        texts,
        retries=0,
        concurrency=1,
    )
    assert not (tmp_path / "out.jsonl").exists()
    assert len(server.seen) < 60


def test_replies_until_the_endpoint_died_are_kept(server, write):
    server.script = lambda request, times: answer(request) if len(server.seen) <= 5 else 500
    texts = [f"He sold {i} boats." for i in range(200)]
    with pytest.raises(ValueError):
        write(texts, retries=0, concurrency=1)
    server.script = answer

    counts, rows, _ = write(texts)

    assert counts["from_cache"] == 5
    assert counts["requests"] == 195
    assert len(rows) == 200


def test_an_invalid_reply_is_asked_again_hotter_with_another_seed(server, write):
    server.script = lambda request, times: answer(request) if request["seed"] == 9 else "no"

    counts, rows, failed = write(SENTENCES[:1], seed=7)

    first, second, third = server.requests()
    assert [first["seed"], second["seed"], third["seed"]] == [7, 8, 9]
    assert first["temperature"] == 0
    assert second["temperature"] == third["temperature"] == 0.7
    assert counts["answered"] == len(rows) == 1
    assert counts["invalid_replies"] == 2
    assert not failed


@pytest.mark.parametrize("lie", ["no", "half a character: \ud800"])
def test_a_lie_is_recorded(server, write, lie):
    server.script = lambda request, times: lie

    counts, rows, failed = write(SENTENCES[:1], attempts=2)

    assert not rows
    assert failed == [{"text": SENTENCES[0], "reason": "not in capitals", "reply": lie}]
    assert counts["reasons"] == {"not in capitals": 1}
    assert len(server.seen) == 2


def test_attempts_of_an_earlier_run_count(server, write):
    server.script = lambda request, times: "no"
    write(SENTENCES[:1], attempts=2)

    counts, _, _ = write(SENTENCES[:1], attempts=3)

    assert counts["requests"] == 1


def test_a_reply_cut_off_is_none(server, write):
    server.script = lambda request, times: completion(
        "A SENTENCE THAT HAS NO", request, finish="length", usage=None
    )
    counts, rows, failed = write(SENTENCES[:1], max_tokens=5, attempts=1)
    assert not rows
    assert failed[0]["reason"] == "cut off at 5 tokens"
    assert counts["completion_tokens"] == 0


test_wrong_arguments = refusals(
    (
        lambda: Endpoint("m", "localhost:8000"),
        "endpoint is 'localhost:8000'; give an address such as",
    ),
    (lambda tmp_path: write_rows([], None, tmp_path / "o.tsv"), "must end in .jsonl"),
    (lambda: ReplyCache(__file__), "test_language_model.py holds no replies of a language model"),
)


@pytest.mark.parametrize(
    "reply",
    [Reply("één\n\ud800", False, 3, 4), Reply(""), Reply("x" * 90, True)],
    ids=["half a character", "empty", "cut off"],
)
def test_replies_are_kept(tmp_path, reply):
    cache = ReplyCache(tmp_path / "deep" / "r.sqlite")
    cache.put("key", reply)
    cache.close()

    opened_again = ReplyCache(tmp_path / "deep" / "r.sqlite")

    assert opened_again.get("key") == reply
    assert opened_again.get("another key") is None
    opened_again.close()
