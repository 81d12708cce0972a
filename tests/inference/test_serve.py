"""`hf-echo serve`: answers are those of `encode`, whoever asks at the same time; bad requests get their status."""

import http.client
import json
import os
import random
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np
import openai
import pytest
import uvicorn
from huggingface_hub import InferenceClient
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import hf_echo.inference.serve
from hf_echo.inference import encode
from hf_echo.inference.batcher import Batcher, PromptedModel
from hf_echo.inference.serve import make_app
from hf_echo.utils.vectors import unit_length

TOKEN = "secret"
LIMITS = dict(token=TOKEN, max_texts=40, max_body=20_000)


@contextmanager
def serving(*batchers, **options):
    """Yield (port, uvicorn's server); it has stopped behind the block."""
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(*batchers, **options), log_level="critical"))
    thread = Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield sock.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def send(port: int, path: str, body: bytes | None, **headers):
    """(status, JSON, headers) of a POST, or of a GET without a body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    given = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET" if body is None else "POST", path, body, given)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content), answer.headers


def embed(port: int, texts, **options):
    """Status and content of `/embed`."""
    return send(port, "/embed", json.dumps({"inputs": texts, **options}).encode())[:2]


@pytest.fixture(scope="module")
def texts(toy):
    """16 of one sentence and 16 of a few; all together are several batches."""
    french = [toy.say(meaning, "fra_Latn") for meaning in toy.split("dev")]
    return french[:16] + [" ".join(french[i : i + 3]) for i in range(16)]


@pytest.fixture(scope="module")
def model(toy, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "toy"
    return PromptedModel(
        str(toy.save(folder, toy.make_model(toy_tokenizer), toy_tokenizer, release=True)), "fp32"
    )


@pytest.fixture(scope="module")
def port(model):
    with serving(Batcher(model, max_tokens=100, max_waiting=10_000), **LIMITS) as (port, _):
        yield port


def truth(model, texts, lang=None):
    return encode(model.model, model.tokenizer, texts, lang)


def test_the_client_of_openai(port, model, texts):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=TOKEN, max_retries=0)
    want = unit_length(truth(model, texts))
    for options in ({}, {"encoding_format": "float"}):  # the client asks for base64
        answer = client.embeddings.create(model="any", input=texts, **options)
        np.testing.assert_allclose([row.embedding for row in answer.data], want, atol=1e-5)
    assert [row.index for row in answer.data] == list(range(32))
    assert answer.model == "toy"
    assert answer.usage.prompt_tokens == sum(map(len, model.tokenizer(texts)["input_ids"]))
    short = client.embeddings.create(model="any", input=texts[0], dimensions=8).data[0].embedding
    np.testing.assert_allclose(short, unit_length(truth(model, texts[:1])[0, :8]), atol=1e-5)
    french = client.embeddings.create(
        model="any", input=texts, extra_body={"prompt_name": "fra_Latn"}
    )
    want = unit_length(truth(model, texts, "fra_Latn"))
    np.testing.assert_allclose([row.embedding for row in french.data], want, atol=1e-5)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="no").embeddings.create(
            model="a", input="a"
        )


def test_clients_of_tei(port, model, texts):
    answer = InferenceClient(f"http://127.0.0.1:{port}/embed", token=TOKEN).feature_extraction(
        texts[0]
    )
    np.testing.assert_allclose(answer, unit_length(truth(model, texts[:1])), atol=1e-5)
    status, content = embed(port, texts, normalize=False)
    np.testing.assert_allclose(content, truth(model, texts), atol=1e-5)
    status, info, _ = send(port, "/info", None)
    assert status == 200
    assert (info["model_id"], info["max_client_batch_size"]) == ("toy", 40)
    assert send(port, "/health", None, Authorization="")[:2] == (200, {"status": "ok"})


def test_requests_at_the_same_time_get_their_own_answers(port, model, texts):
    want = truth(model, texts)
    rng = random.Random(0)
    picks = [rng.choices(range(32), k=rng.choice((1, 1, 2, 40))) for _ in range(48)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda rows: embed(port, [texts[row] for row in rows], normalize=False), picks)
        )
    for rows, (status, content) in zip(picks, answers, strict=True):
        assert status == 200
        np.testing.assert_allclose(content, want[rows], atol=1e-5)


def test_a_model_of_sentence_transformers(toy_tokenizer, tmp_path):
    static = StaticEmbedding(toy_tokenizer.backend_tokenizer, embedding_dim=8)
    stock = SentenceTransformer(modules=[static], prompts={"query": "un chat "}, device="cpu")
    stock.save(str(tmp_path / "static"))
    with serving(Batcher(PromptedModel(str(tmp_path / "static"), "fp32"))) as (port, _):
        plain = embed(port, ["chien", ""], normalize=False)
        asked = embed(port, ["chien"], prompt_name="query")
    np.testing.assert_allclose(plain[1], stock.encode(["chien", ""]), atol=1e-6)
    np.testing.assert_allclose(
        asked[1], unit_length(stock.encode(["chien"], prompt_name="query")), atol=1e-6
    )


LONG = json.dumps({"input": "chat " * 1_000}).encode()
REFUSED = [
    (400, b"", "the body is no JSON object"),
    (400, b"{", "the body is no JSON object (Expecting property name"),
    (400, b"[" * 10_000, "parsing the body"),
    (400, b'{"input": "\xff"}', "parsing the body"),
    (400, b'{"input": "\\ud800"}', "input holds a lone surrogate"),
    (400, b"null", "the body is no JSON object"),
    (400, b"{}", "input is missing: send a text or a list of texts"),
    (400, b'{"input": null}', "input is null: send a text or a list of texts"),
    (400, b'{"input": []}', "the list of texts is empty"),
    (400, b'{"input": [1, 2]}', "input[0] is 1: token ids"),
    (400, b'{"input": ["a", null]}', "input[1] is null: send a text"),
    (400, b'{"input": {"a": "b"}}', 'input is {"a": "b"}: send a text'),
    (
        400,
        b'{"input": "a", "dimensions": 0}',
        "dimensions is 0: it must be a whole number of at least 1",
    ),
    (400, b'{"input": "a", "dimensions": "64"}', 'dimensions is "64": it must be a whole number'),
    (400, b'{"input": "a", "truncate": "yes"}', 'truncate is "yes": it must be true or false'),
    (400, b'{"input": "a", "model": 5}', "model is 5: it must be a text"),
    (
        400,
        b'{"input": "a", "dimensions": 33}',
        "dimensions is 33; embeddings of this model have 32",
    ),
    (400, b'{"input": "a", "encoding_format": "int8"}', "'float' or 'base64'"),
    (400, b'{"input": "a", "on_long": "cut"}', "'error', 'truncate' or 'split'"),
    (400, b'{"input": "a", "on_long": "split", "truncate": true}', "send one of them"),
    (
        400,
        b'{"input": "a", "prompt_name": "zzz"}',
        'prompt_name is "zzz"; it must be one of its prompts: ',
    ),
    (413, json.dumps({"input": ["a"] * 41}).encode(), "input has 41 texts, at most 40"),
    (413, LONG, "input[0] has 2,023 tokens, at most 64"),
    (413, b"x" * 20_001, "more than 20,000 bytes"),
    (413, b"x" * 10_000_000, "more than 20,000 bytes"),
]


@pytest.mark.parametrize(("status", "body", "message"), REFUSED)
def test_bad_requests(port, status, body, message):
    got, content, _ = send(port, "/v1/embeddings", body)
    assert got == status
    assert content["error"]["type"] == "invalid_request_error"
    assert message in content["error"]["message"]
    assert "\n" not in content["error"]["message"]


def test_other_refusals(port):
    assert send(port, "/embed", None)[0] == 405
    assert send(port, "/nothing", None)[0] == 404
    status, content, _ = send(port, "/embed", b'{"inputs": "a"}', Content_Type="text/plain")
    assert (status, content["error_type"]) == (400, "Validation")
    assert "Content-Type" in content["error"]
    assert embed(port, "a", normalize="no") == (
        400,
        {"error": 'normalize is "no": it must be true or false', "error_type": "Validation"},
    )
    for token in ("", "secret", "Bearer ", "Bearer no", "Bearer \xe9"):
        assert send(port, "/info", None, Authorization=token)[0] == 401, token
    assert embed(port, "chat " * 1_000, truncate=True)[0] == 200


def test_a_wrong_key_is_named_as_by_openai(port):
    status, content, _ = send(port, "/v1/embeddings", b'{"input": "a"}', Authorization="Bearer no")
    assert status == 401
    assert content["error"]["code"] == "invalid_api_key"


def test_a_wrong_value_names_its_field(port):
    _, content, _ = send(port, "/v1/embeddings", b'{"input": "a", "dimensions": 33}')
    assert content["error"]["param"] == "dimensions"


def test_a_long_text_is_split_on_request(port, model, texts):
    long_text = " ".join(texts * 4)
    status, content = embed(port, [long_text, texts[0]], on_long="split", normalize=False)
    assert status == 200
    want = encode(model.model, model.tokenizer, [long_text, texts[0]], on_long="split")
    np.testing.assert_allclose(content, want, atol=1e-5)
    truncated = encode(model.model, model.tokenizer, [long_text])
    assert np.abs(want[0] - truncated[0]).max() > 1e-3  # so the comparison can fail


def test_pieces_of_a_sentence_transformer_are_averaged(bert):
    model = PromptedModel(str(bert), "fp32")
    words = [f"w{number}" for number in range(17)]
    long_text = " ".join(words)
    got = model.embed([long_text], [""], split=True)[0]
    room = model.limit - 2  # beside [CLS] and [SEP]
    pieces = [words[start : start + room] for start in range(0, len(words), room)]
    vectors = model.embed([" ".join(piece) for piece in pieces], [""] * len(pieces))
    lengths = np.array([len(piece) + 2 for piece in pieces])
    want = (vectors * lengths[:, None]).sum(0) / lengths.sum()
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A SentenceTransformer of a BERT that reads 8 tokens, one for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    words = {f"w{number}": number + 4 for number in range(20)}
    tokenizer = Tokenizer(
        models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} | words, "[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=8, **names
    ).save_pretrained(folder / "model")
    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    BertModel(BertConfig(vocab_size=24, max_position_embeddings=8, **sizes)).save_pretrained(
        folder / "model"
    )
    SentenceTransformer(str(folder / "model"), device="cpu").save(str(folder / "bert"))
    return folder / "bert"


def test_the_list_of_models(port):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=TOKEN, max_retries=0)
    assert [model.id for model in client.models.list()] == ["toy"]
    assert client.models.retrieve("toy").id == "toy"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.fixture(scope="module")
def two(model, bert):
    """The port of a server of two models, to which pages of one origin may send requests."""
    batchers = [Batcher(model), Batcher(PromptedModel(str(bert), "fp32"))]
    with serving(*batchers, token=TOKEN, origins=["https://page.example"]) as (port, _):
        yield port


def test_a_request_chooses_its_model(two, bert):
    body = json.dumps({"model": "bert", "input": "w1 w2"}).encode()
    _, content, _ = send(two, "/v1/embeddings", body)
    assert content["model"] == "bert"
    want = SentenceTransformer(str(bert), device="cpu").encode("w1 w2", normalize_embeddings=True)
    np.testing.assert_allclose(content["data"][0]["embedding"], want, atol=1e-5)


def test_an_unknown_model_is_not_found(two):
    status, content, _ = send(two, "/v1/embeddings", b'{"model": "gpt", "input": "a"}')
    assert status == 404
    assert content["error"]["code"] == "model_not_found"
    assert 'model is "gpt"; this server has toy, bert' in content["error"]["message"]


def preflight(port: int, origin: str):
    """What a browser asks before a page of this origin may send a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    connection.request("OPTIONS", "/v1/embeddings", headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers


def test_pages_of_a_named_origin_may_ask(two):
    assert (
        preflight(two, "https://page.example")["Access-Control-Allow-Origin"]
        == "https://page.example"
    )


def test_pages_of_other_origins_may_not(two, port):
    assert preflight(two, "https://other.example")["Access-Control-Allow-Origin"] is None
    assert preflight(port, "https://page.example")["Access-Control-Allow-Origin"] is None


def test_metrics_count_texts(model):
    with serving(Batcher(model), token=TOKEN) as (port, _):
        embed(port, ["chat", "chien"])
        embed(port, [])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
    assert 'hf_echo_texts_total{model="toy"} 2.0' in lines
    assert 'hf_echo_requests_total{route="/embed",status="200"} 1.0' in lines
    assert 'hf_echo_requests_total{route="/embed",status="400"} 1.0' in lines
    assert 'hf_echo_waiting_texts{model="toy"} 0.0' in lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = [
    "input",
    "inputs",
    "dimensions",
    "encoding_format",
    "normalize",
    "truncate",
    "on_long",
    "prompt_name",
    "model",
]
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON)
BODIES = st.binary(max_size=40) | OBJECTS.map(lambda body: json.dumps(body).encode())


@settings(max_examples=80, deadline=None)
@given(path=st.sampled_from(["/v1/embeddings", "/embed"]), body=BODIES)
def test_any_body_is_answered(port, path, body):
    status, content, _ = send(port, path, body)
    assert status in (200, 400, 413)
    assert status == 200 or ("error" in content and "Traceback" not in str(content))


class Slow:
    """A model that waits until it is told to go on; it cannot embed "poison"."""

    name = "slow"
    size = 1
    limit = 10
    dtype = "float32"
    prompts = {}
    default = None

    def __init__(self):
        self.started = Event()
        self.go = Event()
        self.seen = []

    def lengths(self, texts, prompt):
        return [1] * len(texts)

    def embed(self, texts, prompts, *, split=False):
        self.started.set()
        assert self.go.wait(30)
        self.seen += texts
        if "poison" in texts:
            raise RuntimeError("in the middle of some file")
        return np.ones((len(texts), 1), np.float32)


@pytest.fixture
def slow():
    """(port, server, batcher, later): `later(texts)` is a request in the background; the first one has begun."""
    batcher = Batcher(Slow(), max_waiting=3)
    with serving(batcher) as (port, server), ThreadPoolExecutor(8) as pool:
        pool.submit(embed, port, ["first"])
        assert batcher.model.started.wait(30)
        yield port, server, batcher, lambda texts: pool.submit(embed, port, texts)
        batcher.model.go.set()


def wait_until(condition):
    for _ in range(1_000):
        if condition():
            return
        Event().wait(0.01)
    raise AssertionError("it has not happened in 10 s")


def test_a_full_queue_refuses_texts(slow):
    port, _, batcher, later = slow
    waiting = [later(["a", "b"]), later(["d"])]
    wait_until(lambda: len(batcher.jobs) == 2)

    status, content, headers = send(port, "/v1/embeddings", b'{"input": "c"}')

    assert status == 429
    assert content["error"]["code"] == "rate_limit_exceeded"
    assert "3 texts are waiting" in content["error"]["message"]
    assert headers["Retry-After"]
    batcher.model.go.set()
    assert [one.result()[0] for one in waiting] == [200, 200]


def test_a_text_that_fails_leaves_the_others(slow):
    _, _, batcher, later = slow
    waiting = [later(["a", "b"]), later(["poison"])]
    wait_until(lambda: len(batcher.jobs) == 2)
    batcher.model.go.set()
    (good, _), (bad, content) = (one.result()[:2] for one in waiting)
    assert (good, bad) == (200, 500)
    assert "middle" not in str(content)


def test_what_a_client_that_left_asked_for_is_not_computed(slow):
    port, _, batcher, later = slow
    body = b'{"inputs": ["left"]}'
    head = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head % 100 + body)  # a part of a body
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head % len(body) + body)
        wait_until(lambda: batcher.jobs)
    wait_until(lambda: batcher.jobs[0].gone)
    waiting = later(["a", "b", "c"])  # what is dropped needs no room
    wait_until(lambda: len(batcher.jobs) == 2)
    batcher.model.go.set()
    assert waiting.result()[0] == 200
    assert batcher.model.seen == ["first", "a", "b", "c"]


def test_a_server_that_stops_answers_what_it_has(slow):
    port, server, batcher, later = slow
    waiting = [later(["a"]), later(["b"])]
    wait_until(lambda: len(batcher.jobs) == 2)
    server.should_exit = True  # what SIGTERM does

    def refuses():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) != 0

    wait_until(refuses)
    batcher.model.go.set()
    assert [one.result()[0] for one in waiting] == [200, 200]


class Quick(Slow):
    """A model for a server that gets no request."""

    name = "quick"

    def __init__(self, name, dtype):
        super().__init__()


def test_sigterm_ends_the_command_with_0(run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(hf_echo.inference.serve, "PromptedModel", Quick)

    def ask_to_end():
        for _ in range(1_000):
            try:
                if send(port, "/health", None)[0] == 200:
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
            except OSError:
                Event().wait(0.01)

    asker = Thread(target=ask_to_end)
    asker.start()
    code, _, err = run("serve", "quick", "--port", port)
    asker.join()
    assert (code, err) == (0, f"quick: 1 dimensions, at http://127.0.0.1:{port}\n")


def test_an_origin_is_an_address(refused):
    refused(
        "--cors-origin is 'example.org'; give an origin such as",
        "serve",
        "quick",
        "--cors-origin",
        "example.org",
    )


def test_what_cannot_be_served(refused, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"--host 127.0.0.1 --port {port}: Address already in use: choose another one"
        refused(message, "serve", "echo-nano", "--port", port)
    (tmp_path / "empty").mkdir()
    message = (
        f"{tmp_path}/empty holds no weights, tokenizer or configuration: give a model's folder"
    )
    refused(message, "serve", tmp_path / "empty", "--port", 0)
    (tmp_path / "in.txt").write_text("un chat\n")
    refused(
        message, "encode", tmp_path / "in.txt", tmp_path / "o.npy", "--model", tmp_path / "empty"
    )
    (tmp_path / "modular.json").write_text("{}")
    refused(
        f"{tmp_path} is a modular or a speech encoder, which is not served",
        "serve",
        tmp_path,
        "--port",
        0,
    )
