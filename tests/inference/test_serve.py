"""`hf-echo serve`: answers are those of `encode`, whoever asks at the same time;
bad requests get their status."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

import numpy as np
import openai
import pytest
import uvicorn
from huggingface_hub import InferenceClient
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import hf_echo
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
    listener = socket.create_server(("127.0.0.1", 0))
    _, port = listener.getsockname()
    config = uvicorn.Config(make_app(*batchers, **options), log_level="critical")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield port, server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


def request(port: int, method: str, path: str, body: bytes | None = None, headers=HEADERS):
    """(status, body, headers) of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers


def post(port: int, path: str, body: bytes, headers=HEADERS):
    """(status, JSON) of the answer."""
    status, content, _ = request(port, "POST", path, body, headers)
    return status, json.loads(content)


def get(port: int, path: str, authorization: str = HEADERS["Authorization"]):
    """(status, JSON) of the answer."""
    headers = HEADERS | {"Authorization": authorization}
    status, content, _ = request(port, "GET", path, headers=headers)
    return status, json.loads(content)


def embed(port: int, texts, **options):
    """(status, JSON) of `/embed`."""
    return post(port, "/embed", json.dumps({"inputs": texts, **options}).encode())


def openai_client(port: int, key: str = TOKEN) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def texts(toy):
    """16 of one sentence and 16 of three; all together are several batches."""
    french = toy.dataset("dev")["source"][::2]
    longer = []
    for start in range(16):
        longer.append(" ".join(french[start : start + 3]))
    return french[:16] + longer


@pytest.fixture(scope="module")
def model(toy, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "toy"
    toy.save(folder, toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    return PromptedModel(str(folder), "fp32")


@pytest.fixture(scope="module")
def port(model):
    with serving(Batcher(model, max_tokens=100, max_waiting=10_000), **LIMITS) as (port, _):
        yield port


def vectors_of(model, texts, lang=None, **options):
    return encode(model.model, model.tokenizer, texts, lang, **options)


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}])
def test_embeddings_by_the_client_of_openai(port, model, texts, options):
    """It asks for base64 if it is not told otherwise."""
    answer = openai_client(port).embeddings.create(model="any", input=texts, **options)

    vectors = [row.embedding for row in answer.data]
    np.testing.assert_allclose(vectors, unit_length(vectors_of(model, texts)), atol=1e-5)
    assert [row.index for row in answer.data] == list(range(32))
    assert answer.model == "toy"
    ids = model.tokenizer(texts)["input_ids"]
    assert answer.usage.prompt_tokens == sum(map(len, ids))


def test_first_dimensions_have_length_1(port, model, texts):
    client = openai_client(port)

    answer = client.embeddings.create(model="any", input=texts[0], dimensions=8)

    # The first numbers of the library's vector, scaled anew.
    expected = unit_length(vectors_of(model, texts[:1])[:, :8])
    np.testing.assert_allclose(answer.data[0].embedding, expected[0], atol=1e-5)


def test_the_prompt_name_is_the_language(port, model, texts):
    body = json.dumps({"input": texts[0], "prompt_name": "fra_Latn"}).encode()

    _, answer = post(port, "/v1/embeddings", body)

    # The library, with this language.
    expected = unit_length(vectors_of(model, texts[:1], "fra_Latn"))
    np.testing.assert_allclose(answer["data"][0]["embedding"], expected[0], atol=1e-5)


def test_a_wrong_key_is_the_clients_error(port):
    with pytest.raises(openai.AuthenticationError) as error:
        openai_client(port, key="no").embeddings.create(model="a", input="a")
    assert error.value.code == "invalid_api_key"


def test_the_client_of_hugging_face(port, model, texts):
    client = InferenceClient(f"http://127.0.0.1:{port}/embed", token=TOKEN)

    vectors = client.feature_extraction(texts[0])

    # The library, without a language.
    expected = unit_length(vectors_of(model, texts[:1]))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_vectors_without_normalisation(port, model, texts):
    _, vectors = embed(port, texts, normalize=False)

    np.testing.assert_allclose(vectors, vectors_of(model, texts), atol=1e-5)


def test_the_server_says_what_it_is(port):
    status, info = get(port, "/info")

    assert status == 200
    assert (info["model_id"], info["max_client_batch_size"]) == ("toy", 40)


def test_the_schema_has_the_version_of_the_package(port):
    status, schema = get(port, "/openapi.json")

    assert status == 200
    assert schema["info"]["version"] == hf_echo.__version__


def test_health_needs_no_key(port):
    assert get(port, "/health", authorization="") == (200, {"status": "ok"})


def test_requests_at_the_same_time_get_their_own_answers(port, model, texts):
    """48 requests of 1, 2 or 40 texts from sixteen threads."""
    vectors = vectors_of(model, texts)
    rng = np.random.default_rng(0)

    def ask(size: int):
        rows = rng.integers(32, size=size)
        return rows, embed(port, [texts[row] for row in rows], normalize=False)

    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(ask, [1, 1, 2, 40] * 12)

    for rows, (status, content) in answers:
        assert status == 200
        np.testing.assert_allclose(content, vectors[rows], atol=1e-5)


def test_a_model_of_sentence_transformers(toy_tokenizer, tmp_path):
    static = StaticEmbedding(toy_tokenizer.backend_tokenizer, embedding_dim=8)
    stock = SentenceTransformer(modules=[static], prompts={"query": "un chat "}, device="cpu")
    stock.save(str(tmp_path / "static"))

    with serving(Batcher(PromptedModel(str(tmp_path / "static"), "fp32"))) as (port, _):
        _, plain = embed(port, ["chien", ""], normalize=False)
        _, prompted = embed(port, ["chien"], prompt_name="query", normalize=False)

    # sentence-transformers, with the model in memory.
    np.testing.assert_allclose(plain, stock.encode(["chien", ""]), atol=1e-6)
    expected = stock.encode(["chien"], prompt_name="query")
    np.testing.assert_allclose(prompted, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is no JSON object (Expecting property name"),
        (b"[" * 10_000, "the body cannot be read as JSON"),
        (b'{"input": "caf\xe9"}', "the body is not UTF-8 (byte 0xe9 at position 14)"),
        (b'{"input": "\\ud800"}', "input holds a lone surrogate"),
        (b"null", "the body is no JSON object"),
        (b"{}", "input is missing: send a text or a list of texts"),
        (b'{"input": null}', "input is null: send a text or a list of texts"),
        (b'{"input": []}', "the list of texts is empty"),
        (b'{"input": [1, 2]}', "input[0] is 1: token ids"),
        (b'{"input": ["a", null]}', "input[1] is null: send a text"),
        (b'{"input": {"a": "b"}}', 'input is {"a": "b"}: send a text'),
        (b'{"input": "a", "dimensions": 0}', "dimensions is 0: it must be a whole number of at"),
        (b'{"input": "a", "dimensions": "64"}', 'dimensions is "64": it must be a whole number'),
        (b'{"input": "a", "truncate": "yes"}', 'truncate is "yes": it must be true or false'),
        (b'{"input": "a", "model": 5}', "model is 5: it must be a text"),
        (b'{"input": "a", "dimensions": 33}', "dimensions is 33; embeddings of this model have 32"),
        (b'{"input": "a", "encoding_format": "int8"}', "'float' or 'base64'"),
        (b'{"input": "a", "on_long": "cut"}', "'error', 'truncate' or 'split'"),
        (b'{"input": "a", "on_long": "split", "truncate": true}', "send one of them"),
        (b'{"input": "a", "prompt_name": "zzz"}', 'prompt_name is "zzz"; it must be one of its'),
    ],
)
def test_bad_requests(port, body, message):
    status, content = post(port, "/v1/embeddings", body)

    assert status == 400
    assert content["error"]["type"] == "invalid_request_error"
    assert message in content["error"]["message"]
    assert "\n" not in content["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (json.dumps({"input": ["a"] * 41}).encode(), "input has 41 texts, at most 40"),
        (json.dumps({"input": "chat " * 1_000}).encode(), "input[0] has 2,023 tokens, at most 64"),
        (b"x" * 20_001, "more than 20,000 bytes"),
        (b"x" * 10_000_000, "more than 20,000 bytes"),
    ],
)
def test_requests_that_are_too_large(port, body, message):
    status, content = post(port, "/v1/embeddings", body)

    assert status == 413
    assert message in content["error"]["message"]


def test_a_get_of_embed_is_not_allowed(port):
    status, content = get(port, "/embed")

    assert status == 405
    assert content["error"] == "/embed does not answer GET: send POST"


def test_an_unknown_path_is_not_found(port):
    status, content = get(port, "/v1/nothing")

    assert status == 404
    assert "no route /v1/nothing: send POST to /v1/embeddings or" in content["error"]["message"]


@pytest.mark.parametrize("name", ["fr", "French", "fra", "fra_Lat"])
def test_an_unknown_prompt_gets_the_nearest_one(port, name):
    status, content = embed(port, "a", prompt_name=name)

    assert status == 400
    assert f'prompt_name is "{name}"' in content["error"]
    assert content["error"].endswith("did you mean 'fra_Latn'?")


def test_a_body_of_another_type_is_refused(port):
    headers = HEADERS | {"Content-Type": "text/plain"}

    status, content = post(port, "/embed", b'{"inputs": "a"}', headers)

    assert (status, content["error_type"]) == (400, "Validation")
    assert "Content-Type" in content["error"]


def test_errors_of_embed_have_the_form_of_tei(port):
    status, content = embed(port, "a", normalize="no")

    assert status == 400
    message = 'normalize is "no": it must be true or false'
    assert content == {"error": message, "error_type": "Validation"}


@pytest.mark.parametrize("authorization", ["", "secret", "Bearer ", "Bearer no", "Bearer \xe9"])
def test_a_request_without_the_key_is_refused(port, authorization):
    status, _ = get(port, "/info", authorization)

    assert status == 401


def test_a_long_text_is_truncated_on_request(port):
    status, _ = embed(port, "chat " * 1_000, truncate=True)

    assert status == 200


def test_a_wrong_value_names_its_field(port):
    _, content = post(port, "/v1/embeddings", b'{"input": "a", "dimensions": 33}')

    assert content["error"]["param"] == "dimensions"


def test_a_long_text_is_split_on_request(port, model, texts):
    long_text = " ".join(texts * 4)

    _, vectors = embed(port, [long_text, texts[0]], on_long="split", normalize=False)

    expected = vectors_of(model, [long_text, texts[0]], on_long="split")
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    truncated = vectors_of(model, [long_text])
    assert np.abs(expected[0] - truncated[0]).max() > 1e-3  # so the comparison can fail


def test_pieces_of_a_sentence_transformer_are_averaged(bert):
    """By their tokens: pieces of six, six and five words, each between [CLS] and [SEP]."""
    model = PromptedModel(str(bert), "fp32")
    words = [f"w{number}" for number in range(17)]

    vectors = model.embed([" ".join(words)], [""], split=True)

    pieces = [" ".join(words[:6]), " ".join(words[6:12]), " ".join(words[12:])]
    expected = np.average(model.embed(pieces, [""] * 3), axis=0, weights=[8, 8, 7])
    np.testing.assert_allclose(vectors[0], expected, atol=1e-6)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A SentenceTransformer of a BERT that reads 8 tokens, one for each word."""
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{number}" for number in range(20))]
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=8, **names)
    tokenizer.save_pretrained(folder / "model")
    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    config = BertConfig(vocab_size=24, max_position_embeddings=8, **sizes)
    BertModel(config).save_pretrained(folder / "model")
    SentenceTransformer(str(folder / "model"), device="cpu").save(str(folder / "bert"))
    return folder / "bert"


def test_the_list_of_models(port):
    client = openai_client(port)

    assert [model.id for model in client.models.list()] == ["toy"]
    assert client.models.retrieve("toy").id == "toy"


def test_a_model_that_is_not_served_is_not_found(port):
    with pytest.raises(openai.NotFoundError):
        openai_client(port).models.retrieve("other")


@pytest.fixture(scope="module")
def two(model, bert):
    """The port of a server of two models, to which pages of one origin may send requests."""
    batchers = [Batcher(model), Batcher(PromptedModel(str(bert), "fp32"))]
    with serving(*batchers, token=TOKEN, origins=["https://page.example"]) as (port, _):
        yield port


def test_a_request_chooses_its_model(two, bert):
    _, content = post(two, "/v1/embeddings", b'{"model": "bert", "input": "w1 w2"}')

    # sentence-transformers opens the same folder.
    stock = SentenceTransformer(str(bert), device="cpu")
    expected = stock.encode("w1 w2", normalize_embeddings=True)
    assert content["model"] == "bert"
    np.testing.assert_allclose(content["data"][0]["embedding"], expected, atol=1e-5)


def test_an_unknown_model_is_not_found(two):
    status, content = post(two, "/v1/embeddings", b'{"model": "gpt", "input": "a"}')

    assert status == 404
    assert content["error"]["code"] == "model_not_found"
    assert 'model is "gpt"; this server has toy, bert' in content["error"]["message"]


def allowed_origin(port: int, origin: str) -> str | None:
    """The answer to what a browser asks before a page of this origin may send a request."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    _, _, answer_headers = request(port, "OPTIONS", "/v1/embeddings", headers=headers)
    return answer_headers["Access-Control-Allow-Origin"]


def test_pages_of_a_named_origin_may_ask(two):
    assert allowed_origin(two, "https://page.example") == "https://page.example"


def test_pages_of_other_origins_may_not(two):
    assert allowed_origin(two, "https://other.example") is None


def test_without_named_origins_no_page_may_ask(port):
    assert allowed_origin(port, "https://page.example") is None


def test_metrics_count_texts(model):
    with serving(Batcher(model), token=TOKEN) as (port, _):
        embed(port, ["chat", "chien"])
        embed(port, [])
        _, metrics, _ = request(port, "GET", "/metrics")

    lines = metrics.decode().splitlines()
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
    """With vectors, or with an error that the sender can read."""
    status, content = post(port, path, body)

    if status != 200:
        assert status in (400, 413)
        assert "error" in content
        assert "Traceback" not in str(content)


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


class SlowServer(NamedTuple):
    """A server whose first text is being embedded; `later` sends a request in the background."""

    port: int
    server: uvicorn.Server
    batcher: Batcher
    later: Callable[[list[str]], Future]


@pytest.fixture
def slow():
    batcher = Batcher(Slow(), max_waiting=3)
    with serving(batcher) as (port, server), ThreadPoolExecutor(8) as pool:
        later = partial(pool.submit, embed, port)
        later(["first"])
        assert batcher.model.started.wait(30)
        yield SlowServer(port, server, batcher, later)
        batcher.model.go.set()


def statuses(requests: list[Future]) -> list[int]:
    return [request.result()[0] for request in requests]


def wait_until(condition):
    for _ in range(1_000):
        if condition():
            return
        Event().wait(0.01)
    raise AssertionError("it has not happened in 10 s")


def test_a_full_queue_refuses_texts(slow):
    waiting = [slow.later(["a", "b"]), slow.later(["d"])]
    wait_until(lambda: len(slow.batcher.jobs) == 2)

    status, content, headers = request(slow.port, "POST", "/v1/embeddings", b'{"input": "c"}')

    assert status == 429
    error = json.loads(content)["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert "3 texts are waiting" in error["message"]
    assert headers["Retry-After"]
    slow.batcher.model.go.set()
    assert statuses(waiting) == [200, 200]


def test_a_text_that_fails_leaves_the_others(slow):
    """Its sender does not read in which file of the server it failed."""
    waiting = [slow.later(["a", "b"]), slow.later(["poison"])]
    wait_until(lambda: len(slow.batcher.jobs) == 2)

    slow.batcher.model.go.set()

    assert statuses(waiting) == [200, 500]
    _, content = waiting[1].result()
    assert "middle" not in str(content)


def leave(port: int, body: bytes, length: int) -> socket.socket:
    """A connection that has sent the body of a request of this length; closing it is leaving."""
    client = socket.create_connection(("127.0.0.1", port))
    head = f"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}"
    client.sendall(f"{head}\r\n\r\n".encode() + body)
    return client


def test_what_a_client_that_left_asked_for_is_not_computed(slow):
    """One left within its body, one behind it; what is dropped needs no room."""
    body = b'{"inputs": ["left"]}'
    leave(slow.port, body, length=100).close()
    client = leave(slow.port, body, length=len(body))
    wait_until(lambda: slow.batcher.jobs)
    client.close()
    wait_until(lambda: slow.batcher.jobs[0].gone)
    waiting = slow.later(["a", "b", "c"])
    wait_until(lambda: len(slow.batcher.jobs) == 2)

    slow.batcher.model.go.set()

    assert statuses([waiting]) == [200]
    assert slow.batcher.model.seen == ["first", "a", "b", "c"]


def test_a_server_that_stops_answers_what_it_has(slow):
    waiting = [slow.later(["a"]), slow.later(["b"])]
    wait_until(lambda: len(slow.batcher.jobs) == 2)

    def refuses_connections():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", slow.port)) != 0

    slow.server.should_exit = True  # what SIGTERM does
    wait_until(refuses_connections)
    slow.batcher.model.go.set()

    assert statuses(waiting) == [200, 200]


class Quick(Slow):
    """A model for a server that gets no request."""

    name = "quick"

    def __init__(self, name, dtype):
        super().__init__()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_healthy(port: int) -> bool:
    try:
        status, _ = get(port, "/health")
    except OSError:
        return False
    return status == 200


def test_sigterm_ends_the_command_with_0(run, monkeypatch):
    monkeypatch.setattr(hf_echo.inference.serve, "PromptedModel", Quick)
    port = free_port()

    def terminate_when_healthy():
        wait_until(lambda: is_healthy(port))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = Thread(target=terminate_when_healthy)
    thread.start()
    code, _, err = run("serve", "quick", "--port", port)
    thread.join()

    assert (code, err) == (0, f"quick: 1 dimensions, at http://127.0.0.1:{port}\n")


def test_an_origin_is_an_address(refused):
    message = "--cors-origin is 'example.org'; give an origin such as"
    refused(message, "serve", "quick", "--cors-origin", "example.org")


def test_a_port_in_use_is_named(refused):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, port = listener.getsockname()
        message = f"--host 127.0.0.1 --port {port}: Address already in use: choose another one"
        refused(message, "serve", "echo-nano", "--port", port)


def test_an_empty_folder_is_not_served(refused, tmp_path):
    message = f"{tmp_path} holds no weights, tokenizer or configuration: give a model's folder"
    refused(message, "serve", tmp_path)


def test_a_modular_encoder_is_not_served(refused, tmp_path):
    (tmp_path / "modular.json").write_text("{}")
    message = f"{tmp_path} is a modular or a speech encoder, which is not served"
    refused(message, "serve", tmp_path)
