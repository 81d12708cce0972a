"""Serve embeddings over HTTP on one machine: OpenAI's `/v1/embeddings` and `/v1/models`, TEI's
`/embed` and `/info`.

    POST /v1/embeddings {"model": "any", "input": ["Bonjour"], "encoding_format": "base64",
    "dimensions": 256}
    POST /embed         {"inputs": ["Bonjour"], "normalize": true}
    GET  /v1/models, /info, /health, /metrics (Prometheus)

Both POST routes also read `truncate` or `on_long`, and `prompt_name`: a prompt of the model, such
as "query" or a language. Concurrent requests share batches (`batcher.py`). Bad ones get 400 (no
JSON, or a wrong value), 401 (no token), 404 (an unknown model, where several are served), 413
(a body, a list or a text too long) or 429 (the queue is full). Sources:
https://platform.openai.com/docs/api-reference/embeddings, and docs/openapi.json of
https://github.com/huggingface/text-embeddings-inference
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.exceptions import RequestValidationError, StarletteHTTPException
    from fastapi.middleware.cors import CORSMiddleware
    from fastapi.responses import JSONResponse, Response
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
    )
    from pydantic import (
        BaseModel,
        BeforeValidator,
        Field,
        StrictBool,
        StrictStr,
        TypeAdapter,
        ValidationInfo,
    )
except ImportError as error:
    needed = "FastAPI, uvicorn and prometheus-client"
    raise ImportError(f"hf-echo serve needs {needed}: pip install -e '.[serve]'") from error

from ..languages import meanings
from ..utils.devices import choose_device
from ..utils.did_you_mean import nearest
from ..utils.vectors import unit_length
from .batcher import Batcher, Full, Job, OnLong, PromptedModel, TooLong

TOKEN_VARIABLE = "HF_ECHO_API_KEY"
GRACE = 600  # seconds after SIGTERM for what is in the queue; only a client that never ends its request takes them all
ROUTES = "POST to /v1/embeddings or /embed, or GET to /v1/models, /info, /health or /metrics"
JSON = TypeAdapter(Any)  # ten times as fast as json.dumps: 2,048 vectors in 30 ms
# What a value must be, by the type of pydantic's error.
WANTED = {
    "bool_type": "it must be true or false",
    "string_type": "it must be a text",
    "int_type": "it must be a whole number",
    "greater_than_equal": "it must be a whole number of at least 1",
}
# Types and codes of errors as clients of OpenAI, and of TEI, know them.
OPENAI_TYPES = {429: "requests", 500: "server_error", 503: "server_error"}
OPENAI_CODES = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
TEI_TYPES = {429: "Overloaded", 500: "Backend", 503: "Unhealthy"}


def _texts(value: Any, info: ValidationInfo) -> list[str]:
    """The texts of a request, one or a list; messages name the place in the JSON,
    such as input[2]."""
    name = info.field_name
    if not isinstance(value, (str, list)):
        raise ValueError(f"{name} is {_in_json(value)}: send a text or a list of texts")
    texts = [value] if isinstance(value, str) else value
    if not texts:
        raise ValueError(f"{name} is []: the list of texts is empty, send one or more")
    for number, text in enumerate(texts):
        place = name if isinstance(value, str) else f"{name}[{number}]"
        # OpenAI's clients may send token ids in place of texts.
        if isinstance(text, (int, list)) and not isinstance(text, bool):
            raise ValueError(
                f"{place} is {_in_json(text)}: token ids are those of another tokenizer, send texts"
            )
        if not isinstance(text, str):
            raise ValueError(f"{place} is {_in_json(text)}: send a text")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ValueError(f"{place} holds a lone surrogate, which is not text: replace it")
    return texts


def _in_json(value: Any) -> str:
    """A value as JSON writes it, shortened."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:60] + "..."


class Asked(BaseModel):
    """What both kinds of requests have."""

    model: StrictStr | None = None
    dimensions: Annotated[int, Field(strict=True, ge=1)] | None = None
    truncate: StrictBool | None = None
    on_long: OnLong | None = None
    prompt_name: StrictStr | None = None


class OfOpenAI(Asked):
    """`/v1/embeddings`."""

    input: Annotated[str | list[str], BeforeValidator(_texts)]
    encoding_format: Literal["float", "base64"] | None = None


class OfTEI(Asked):
    """`/embed`."""

    inputs: Annotated[str | list[str], BeforeValidator(_texts)]
    normalize: StrictBool = True


class Guard:
    """ASGI middleware: asks for the bearer token, and refuses a body of more than `max_body`
    bytes."""

    def __init__(self, app: Any, token: str | None, max_body: int):
        self.app = app
        self.token = token
        self.max_body = max_body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 401 without the token; else call the server with a body of bounded size."""
        if self.token and scope["type"] == "http" and scope["path"] != "/health":
            header = Request(scope).headers.get("authorization", "")
            # It takes as long for any token, so that the time tells a stranger nothing.
            if not secrets.compare_digest(header.encode(), f"Bearer {self.token}".encode()):
                refusal = failure(
                    scope["path"],
                    401,
                    "send the header `Authorization: Bearer TOKEN` of this server",
                )
                await refusal(scope, receive, send)
                return
        size = 0

        async def limited() -> Any:
            """The next part of the body; raises 413 where all parts together are too large."""
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.max_body:
                # a client reads no answer while it sends
                while message.get("more_body") and size < 16 * self.max_body:
                    message = await receive()
                    size += len(message.get("body", b""))
                raise HTTPException(
                    413,
                    f"the body has more than {self.max_body:,} bytes: send fewer texts a request",
                )
            return message

        await self.app(scope, limited, send)


class Metrics:
    """What the server has done, for Prometheus; one registry for each application."""

    def __init__(self, batchers: Sequence[Batcher]):
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "hf_echo_requests", "Requests", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "hf_echo_request_seconds", "Seconds of a request", ["route"], registry=self.registry
        )
        self.texts = Counter(
            "hf_echo_texts", "Texts that were embedded", ["model"], registry=self.registry
        )
        self.tokens = Counter(
            "hf_echo_tokens", "Tokens that were read", ["model"], registry=self.registry
        )
        # It is asked for its value when somebody reads the metrics.
        waiting = Gauge(
            "hf_echo_waiting_texts", "Texts that wait", ["model"], registry=self.registry
        )
        for batcher in batchers:
            waiting.labels(batcher.model.name).set_function(batcher.waiting)

    def counts(self, app: FastAPI) -> None:
        """Count every request of a known route."""

        @app.middleware("http")
        async def counted(request: Request, call_next: Any) -> Any:
            """Count a request and its seconds, by route and status."""
            start = time.perf_counter()
            status = 500
            try:
                response = await call_next(request)
                status = response.status_code
                return response
            finally:
                route = request.scope.get("route")
                # never the path of a stranger: each would be a series
                path = getattr(route, "path", "other")
                self.requests.labels(path, str(status)).inc()
                self.seconds.labels(path).observe(time.perf_counter() - start)

        @app.get("/metrics")
        async def metrics() -> Response:
            return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


def failure(
    path: str,
    status: int,
    message: str,
    headers: Any = None,
    *,
    field: str | None = None,
    code: str | None = None,
) -> JSONResponse:
    """An error as clients of OpenAI, or of TEI, read it; `field` is the one that is wrong."""
    if path.startswith("/v1/"):
        kind = OPENAI_TYPES.get(status, "invalid_request_error")
        details = {
            "message": message,
            "type": kind,
            "param": field,
            "code": code or OPENAI_CODES.get(status),
        }
        return JSONResponse({"error": details}, status, headers)
    return JSONResponse(
        {"error": message, "error_type": TEI_TYPES.get(status, "Validation")}, status, headers
    )


def answer_errors(app: FastAPI) -> None:
    """One line for each error; the traceback of an unexpected one goes to the log."""

    @app.exception_handler(RequestValidationError)
    async def wrong_value(request: Request, error: RequestValidationError) -> Response:
        """A request that does not fit the schema: one line that says what to send."""
        first = error.errors()[0]
        field = ".".join(part for part in first["loc"][1:] if isinstance(part, str)) or None
        if "json" not in request.headers.get("content-type", ""):
            message = "send JSON with the header `Content-Type: application/json`"
        elif first["type"] == "value_error":  # of `_texts`, which names the place
            message = str(first["msg"]).removeprefix("Value error, ")
        elif first["type"] == "missing" and field:
            message = f"{field} is missing: send a text or a list of texts"
        elif first["type"] in ("json_invalid", "missing", "model_attributes_type"):
            reason = first.get("ctx", {}).get("error", "")
            message = f"the body is no JSON object{f' ({reason})' if reason else ''}"
        else:
            expected = first.get("ctx", {}).get("expected", "another value")
            fix = WANTED.get(first["type"], f"it must be {expected}")
            message = f"{field or 'the body'} is {_in_json(first.get('input'))}: {fix}"
        return failure(request.url.path, 400, message, field=field)

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> Response:
        details: Any = error.detail  # of `wrong`, which names the field; a text of others
        if not isinstance(details, dict):
            details = {"message": refusal_of(request, error)}
        return failure(request.url.path, error.status_code, headers=error.headers, **details)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return failure(
            request.url.path,
            500,
            "these texts could not be embedded; the log of the server says why",
        )


def refusal_of(request: Request, error: StarletteHTTPException) -> str:
    """What to send instead, where FastAPI's own refusal does not say it."""
    path = request.url.path
    cause = error.__cause__
    if isinstance(cause, UnicodeDecodeError):
        byte = cause.object[cause.start]
        return f"the body is not UTF-8 (byte {byte:#04x} at position {cause.start})"
    if isinstance(cause, RecursionError):
        return "the body cannot be read as JSON: its lists lie too deep in each other"
    allowed = (error.headers or {}).get("Allow")
    if error.status_code == 405 and allowed:
        return f"{path} does not answer {request.method}: send {allowed}"
    if error.status_code == 404 and error.detail == "Not Found":
        return f"no route {path}: send {ROUTES}"
    return str(error.detail)


def unknown_prompt(name: str, prompts: Sequence[str]) -> str:
    """Which prompts a model has, and which one the name may mean: "fr" is fra_Latn."""
    if not prompts:
        return f"prompt_name is {_in_json(name)}; the model has no prompts: leave it out"
    listing = f"prompts: {', '.join(prompts)}"
    if len(prompts) > 5:
        listing = f"{len(prompts)} prompts, such as {', '.join(prompts[:5])}"
    languages = [code for code in meanings(name) if code in prompts]
    near = languages[0] if languages else nearest(name, prompts)
    suggestion = f"; did you mean {near!r}?" if near else ""
    return f"prompt_name is {_in_json(name)}; it must be one of its {listing}{suggestion}"


def wrong(field: str, message: str, status: int = 400, code: str | None = None) -> HTTPException:
    """A refusal that names the field."""
    details: Any = {"message": message, "field": field, "code": code}
    return HTTPException(status, details)


def on_long_of(asked: Asked, default: OnLong) -> OnLong:
    """What happens to texts over the limit: `on_long`, or TEI's `truncate`,
    or what the server does."""
    if asked.truncate is None:
        return asked.on_long or default
    from_truncate: OnLong = "truncate" if asked.truncate else "error"
    if asked.on_long not in (None, from_truncate):
        message = f"truncate is {_in_json(asked.truncate)} and on_long is {asked.on_long!r}: send one of them"
        raise wrong("on_long", message)
    return from_truncate


class Service:
    """Models behind their queues, and what all routes share: the checks of a request, and its
    embeddings.

    Args:
        batchers: one for each model; the first answers requests that name none.
        truncate: what happens to long texts where a request does not say it.
        max_texts: of one request.
    """

    def __init__(self, batchers: Sequence[Batcher], truncate: bool, max_texts: int):
        self.batchers = batchers
        self.by_name = {batcher.model.name: batcher for batcher in batchers}
        self.truncate = truncate
        self.max_texts = max_texts
        self.metrics = Metrics(batchers)
        self.started = int(time.time())

    def batcher_of(self, name: str | None) -> Batcher:
        """The queue of a model; a server of one model answers to any name."""
        if name is None or len(self.batchers) == 1:
            return self.batchers[0]
        return self.named(name)

    def named(self, name: str) -> Batcher:
        """The queue of the model with exactly this name."""
        if name not in self.by_name:
            message = f"model is {_in_json(name)}; this server has {', '.join(self.by_name)}"
            raise wrong("model", message, 404, "model_not_found")
        return self.by_name[name]

    def job_of(self, model: PromptedModel, asked: Asked, texts: list[str], field: str) -> Job:
        """A request as the queue takes it, checked; `field` is the name of the texts in it."""
        if len(texts) > self.max_texts:
            message = (
                f"{field} has {len(texts)} texts, at most {self.max_texts} are read: "
                "send several requests"
            )
            raise wrong(field, message, 413)
        if asked.dimensions and asked.dimensions > model.size:
            message = (
                f"dimensions is {asked.dimensions}; embeddings of this model have {model.size}"
            )
            raise wrong("dimensions", message)
        name = asked.prompt_name or model.default
        if name and name not in model.prompts:
            raise wrong("prompt_name", unknown_prompt(name, list(model.prompts)))
        prompt = model.prompts[name] if name else ""
        return Job(texts, prompt, on_long_of(asked, "truncate" if self.truncate else "error"))

    async def embed(
        self, request: Request, asked: Asked, texts: list[str], field: str
    ) -> tuple[np.ndarray, int, str]:
        """((texts, dimensions) float32, number of tokens, name of the model)."""
        batcher = self.batcher_of(asked.model)
        model = batcher.model
        job = self.job_of(model, asked, texts, field)
        try:
            batcher.add(job)
        except Full as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None

        # The answer, unless the client leaves before it is there.
        answer = asyncio.wrap_future(job.done)
        leaving = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise HTTPException(499, "the client has left")
            vectors, tokens = answer.result()
        except TooLong as error:
            message = f'{field}{error}, or send "on_long": "truncate" or "split"'
            raise wrong(field, message, 413) from None
        finally:
            job.gone = True
            answer.cancel()
            leaving.cancel()
        self.metrics.texts.labels(model.name).inc(len(texts))
        self.metrics.tokens.labels(model.name).inc(tokens)
        return vectors[:, : asked.dimensions], tokens, model.name

    def described(self, batcher: Batcher) -> dict[str, Any]:
        """A model as OpenAI's list has it."""
        return {
            "id": batcher.model.name,
            "object": "model",
            "created": self.started,
            "owned_by": "hf-echo",
        }

    def information(self) -> dict[str, Any]:
        """What `/info` says, as TEI's."""
        model = self.batchers[0].model
        return {
            "model_id": model.name,
            "models": [*self.by_name],
            "model_dtype": model.dtype,
            "embedding_size": model.size,
            "prompt_names": [*model.prompts],
            "max_input_length": model.limit,
            "max_batch_tokens": self.batchers[0].max_tokens,
            "max_client_batch_size": self.max_texts,
            "auto_truncate": self.truncate,
            "version": version("hf-echo"),
        }


def make_app(
    *batchers: Batcher,
    token: str | None = None,
    truncate: bool = False,
    max_texts: int = 2_048,
    max_body: int = 4_000_000,
    origins: Sequence[str] = (),
) -> FastAPI:
    """The routes; arguments as in `serve`. The first model answers requests that name none."""
    service = Service(batchers, truncate, max_texts)
    # The pages of documentation load from a CDN.
    app = FastAPI(title="hf-echo serve", version=version("hf-echo"), docs_url=None, redoc_url=None)
    app.add_middleware(Guard, token=token, max_body=max_body)
    service.metrics.counts(app)
    if origins:  # outermost: a browser asks first, without the token
        methods = ["GET", "POST"]
        headers = ["Authorization", "Content-Type"]
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=headers
        )
    answer_errors(app)
    add_openai_routes(app, service)
    add_tei_routes(app, service)
    return app


def add_openai_routes(app: FastAPI, service: Service) -> None:
    """`/v1/models` and `/v1/embeddings`."""

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        listed = [service.described(batcher) for batcher in service.batchers]
        return {"object": "list", "data": listed}

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> dict[str, Any]:
        return service.described(service.named(name))

    @app.post("/v1/embeddings")
    async def embeddings(request: Request, body: OfOpenAI) -> Response:
        """The route of OpenAI: vectors of length 1, as numbers or in base64."""
        vectors, tokens, name = await service.embed(request, body, body.input, "input")
        # Clients compare by dot product: vectors have length 1, as OpenAI's.
        rows: Any = unit_length(vectors).astype("<f4")
        if body.encoding_format == "base64":
            rows = [base64.b64encode(row.tobytes()).decode() for row in rows]
        else:
            rows = rows.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": name, "usage": usage}
        return Response(JSON.dump_json(answer), media_type="application/json")


def add_tei_routes(app: FastAPI, service: Service) -> None:
    """`/embed`, `/health` and `/info`."""

    @app.post("/embed")
    async def embed(request: Request, body: OfTEI) -> Response:
        vectors, _, _ = await service.embed(request, body, body.inputs, "inputs")
        rows = unit_length(vectors) if body.normalize else vectors
        return Response(JSON.dump_json(rows.tolist()), media_type="application/json")

    @app.get("/health")
    async def health() -> dict[str, str]:
        if not all(batcher.thread.is_alive() for batcher in service.batchers):
            raise HTTPException(503, "the thread that embeds has stopped: start the server again")
        return {"status": "ok"}

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return service.information()


async def disconnected(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def serve(  # noqa: PLR0913 (the options of `hf-echo serve`)
    models: Sequence[str],
    *,
    port: int,
    host: str,
    dtype: str,
    device: str | None = None,
    batch_tokens: int,
    queue: int,
    cors_origin: Sequence[str] = (),
    truncate: bool,
    max_texts: int,
    max_body: int,
) -> None:
    """Serve models until SIGTERM or SIGINT, after which accepted requests are still answered; then
    the exit code is 0.

    Args:
        port: 0 is any free one; a line on stderr has the address.
        device: of all models; None is that of `hf_echo.utils.devices`, CUDA if available, or the
            CPU.
        batch_tokens, queue: as `max_tokens` and `max_waiting` of `Batcher`, for each model.
        cors_origin: origins, such as https://example.org, whose pages may send requests.
        truncate: long texts, where a request does not say whether.
        max_texts, max_body: of a request, the second in bytes.

    Raises:
        OSError: the port is in use. FileNotFoundError, ValueError: as in `any_encoder`.
    """
    for origin in cors_origin:
        if origin != "*" and not origin.startswith(("http://", "https://")):
            raise ValueError(
                f"--cors-origin is {origin!r}; give an origin such as https://example.org"
            )
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        # before the model is read, so that a second server at this port ends at once
        sock.listen(2_048)
    except OSError as error:
        raise OSError(
            f"--host {host} --port {port}: {error.strerror or error}: choose another one"
        ) from None
    if device:
        choose_device(device)
    opened = [PromptedModel(name, dtype) for name in models]
    names = [model.name for model in opened]
    if len(set(names)) < len(names):
        raise ValueError(
            f"two models have one name ({', '.join(names)}): requests choose by name, so rename a folder"
        )
    batchers = [Batcher(model, batch_tokens, queue) for model in opened]
    app = make_app(
        *batchers,
        token=os.environ.get(TOKEN_VARIABLE),
        truncate=truncate,
        max_texts=max_texts,
        max_body=max_body,
        origins=cors_origin,
    )
    # Addresses of IPv6 hold colons, and stand in brackets.
    at = f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
    for model in opened:
        print(f"{model.name}: {model.size} dimensions, at {at}", file=sys.stderr, flush=True)
    logger = logging.getLogger("hf_echo.inference.encode")
    before = logger.level
    logger.setLevel(logging.ERROR)  # a client that wants texts cut knows it
    # When all is answered, uvicorn calls the handlers that were there before it.
    handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE)
        ).run(sockets=[sock])
    finally:
        logger.setLevel(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, frame: Any) -> None:
    """A server that was asked to end has done its work."""
    sys.exit(0)
