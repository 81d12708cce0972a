"""Serve embeddings over HTTP on one machine: OpenAI's `/v1/embeddings`, TEI's `/embed` and `/info`, and `/health`.

    POST /v1/embeddings {"model": "any", "input": ["Bonjour"], "encoding_format": "base64", "dimensions": 256}
    POST /embed         {"inputs": ["Bonjour"], "normalize": true}

Both also read `truncate`, and `prompt_name`: a prompt of the model, such as "query" or a language. Concurrent requests
share batches (`batcher.py`). Bad ones get 400 (no JSON, or a wrong value), 401 (no token), 413 (a body, a list or a
text too long) or 429 (the queue is full). Sources: https://platform.openai.com/docs/api-reference/embeddings, and
docs/openapi.json of https://github.com/huggingface/text-embeddings-inference
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import secrets
import socket
import sys
from importlib.metadata import version
from typing import Annotated, Any, Literal

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.exceptions import RequestValidationError, StarletteHTTPException
    from fastapi.responses import JSONResponse, Response
    from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter
except ImportError as error:
    raise ImportError("hf-echo serve needs FastAPI and uvicorn: pip install 'hf-echo[serve]'") from error

from ..modeling.prompting_echo import texts_of
from ..utils.vectors import unit_length
from .batcher import Batcher, Full, Job, PromptedModel, TooLong

TOKEN_VARIABLE = "HF_ECHO_API_KEY"
GRACE = 600  # seconds after SIGTERM for what is in the queue; only a client that never ends its request takes them all
JSON = TypeAdapter(Any)  # ten times as fast as json.dumps: 2,048 vectors in 30 ms


def _texts(value: Any) -> list[str]:
    """The texts of a request, one or a list."""
    if isinstance(value, list) and value and isinstance(value[0], (int, list)):
        raise ValueError("token ids are those of another tokenizer: send texts")
    if not (texts := texts_of([value] if isinstance(value, str) else value)):
        raise ValueError("the list of texts is empty: send one or more")
    return texts


class Asked(BaseModel):
    """What both kinds of requests have."""

    dimensions: Annotated[int, Field(strict=True, ge=1)] | None = None
    truncate: bool | None = None
    prompt_name: str | None = None


class OfOpenAI(Asked):
    """`/v1/embeddings`; a `model` is ignored, since only one is served."""

    input: Annotated[str | list[str], BeforeValidator(_texts)]
    encoding_format: Literal["float", "base64"] | None = None


class OfTEI(Asked):
    """`/embed`."""

    inputs: Annotated[str | list[str], BeforeValidator(_texts)]
    normalize: bool = True


class Guard:
    """ASGI middleware: asks for the bearer token, and refuses a body of more than `max_body` bytes."""

    def __init__(self, app: Any, token: str | None, max_body: int):
        self.app, self.token, self.max_body = app, token, max_body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.token and scope["type"] == "http" and scope["path"] != "/health":
            given = Request(scope).headers.get("authorization", "")
            if not secrets.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                refusal = failure(scope["path"], 401, "send the header `Authorization: Bearer TOKEN` of this server")
                await refusal(scope, receive, send)
                return
        size = 0

        async def limited() -> Any:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.max_body:
                while message.get("more_body") and size < 16 * self.max_body:  # a client reads no answer while it sends
                    message = await receive()
                    size += len(message.get("body", b""))
                raise HTTPException(413, f"the body has more than {self.max_body:,} bytes: send fewer texts a request")
            return message

        await self.app(scope, limited, send)


def failure(path: str, status: int, message: str, headers: Any = None) -> JSONResponse:
    """An error as clients of OpenAI, or of TEI, read it."""
    of_openai, of_tei = ("invalid_request_error", "Validation") if status < 500 else ("server_error", "Backend")
    content: Any = {"error": message, "error_type": of_tei}
    if path.startswith("/v1/"):
        content = {"error": {"message": message, "type": of_openai, "param": None, "code": None}}
    return JSONResponse(content, status, headers)


def answer_errors(app: FastAPI) -> None:
    """One line for each error; the traceback of an unexpected one goes to the log."""

    @app.exception_handler(RequestValidationError)
    async def wrong_value(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = [part for part in first["loc"][1:] if isinstance(part, str)] or ["body"]
        message = f"{'.'.join(where)}: {str(first['msg']).removeprefix('Value error, ')}"
        if "json" not in request.headers.get("content-type", ""):
            message = "send JSON with the header `Content-Type: application/json`"
        return failure(request.url.path, 400, message)

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> Response:
        return failure(request.url.path, error.status_code, str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return failure(request.url.path, 500, "these texts could not be embedded; the log of the server says why")


def make_app(
    batcher: Batcher,
    *,
    token: str | None = None,
    truncate: bool = False,
    max_texts: int = 2_048,
    max_body: int = 4_000_000,
) -> FastAPI:
    """The routes; arguments as in `serve`."""
    model, app = batcher.model, FastAPI(title="hf-echo serve", docs_url=None, redoc_url=None)  # they load from a CDN
    app.add_middleware(Guard, token=token, max_body=max_body)
    answer_errors(app)

    async def embed(request: Request, asked: Asked, texts: Any) -> tuple[Any, int]:
        """((texts, dimensions) float32, number of tokens)."""
        if len(texts) > max_texts:
            raise HTTPException(413, f"{len(texts)} texts, at most {max_texts} are read: send several requests")
        if asked.dimensions and asked.dimensions > model.size:
            raise HTTPException(400, f"dimensions is {asked.dimensions}; embeddings of this model have {model.size}")
        name = asked.prompt_name or model.default
        if name and name not in model.prompts:
            known = ", ".join([*model.prompts][:5]) or "the model has none"
            raise HTTPException(400, f"prompt_name is {name!r:.60}; it must be one of its prompts: {known}")
        cut = truncate if asked.truncate is None else asked.truncate
        job = Job(texts, model.prompts[name] if name else "", cut)
        try:
            batcher.add(job)
        except Full as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from None
        answer, leaving = asyncio.wrap_future(job.done), asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise HTTPException(499, "the client has left")
            vectors, tokens = answer.result()
        except TooLong as error:
            raise HTTPException(413, f"{error}, or send truncate=true") from None
        finally:
            job.gone = True
            answer.cancel()
            leaving.cancel()
        return vectors[:, : asked.dimensions], tokens

    @app.post("/v1/embeddings")
    async def openai(request: Request, body: OfOpenAI) -> Response:
        vectors, tokens = await embed(request, body, body.input)
        rows: Any = unit_length(vectors).astype("<f4")
        in_base64 = body.encoding_format == "base64"
        rows = [base64.b64encode(row.tobytes()).decode() for row in rows] if in_base64 else rows.tolist()
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = {"object": "list", "data": data, "model": model.name, "usage": usage}
        return Response(JSON.dump_json(answer), media_type="application/json")

    @app.post("/embed")
    async def tei(request: Request, body: OfTEI) -> Response:
        vectors, _ = await embed(request, body, body.inputs)
        rows = unit_length(vectors) if body.normalize else vectors
        return Response(JSON.dump_json(rows.tolist()), media_type="application/json")

    @app.get("/health")
    async def health() -> dict[str, str]:
        if not batcher.thread.is_alive():
            raise HTTPException(503, "the thread that embeds has stopped: start the server again")
        return {"status": "ok"}

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return {
            "model_id": model.name,
            "model_dtype": model.dtype,
            "embedding_size": model.size,
            "prompt_names": [*model.prompts],
            "max_input_length": model.limit,
            "max_batch_tokens": batcher.max_tokens,
            "max_client_batch_size": max_texts,
            "auto_truncate": truncate,
            "version": version("hf-echo"),
        }

    return app


async def disconnected(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def serve(model: str, *, port: int, host: str, dtype: str, batch_tokens: int, queue: int, **limits: Any) -> None:
    """Serve a model until SIGTERM or SIGINT, after which accepted requests are still answered.

    Args:
        port: 0 is any free one; a line on stderr has the address.
        batch_tokens, queue: as `max_tokens` and `max_waiting` of `Batcher`.
        limits: `truncate` (long texts, where a request does not say whether), `max_texts` of a request, `max_body` in
            bytes.

    Raises:
        OSError: the port is in use. FileNotFoundError, ValueError: as in `any_encoder`.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2_048)  # before the model is read, so that a second server at this port ends at once
    except OSError as error:
        raise OSError(f"--host {host} --port {port}: {error.strerror or error}: choose another one") from None
    batcher = Batcher(PromptedModel(model, dtype), batch_tokens, queue)
    app = make_app(batcher, token=os.environ.get(TOKEN_VARIABLE), **limits)
    at = f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
    print(f"{batcher.model.name}: {batcher.model.size} dimensions, at {at}", file=sys.stderr, flush=True)
    logger = logging.getLogger("hf_echo.inference.encode")
    before = logger.level
    logger.setLevel(logging.ERROR)  # a client that wants texts cut knows it
    try:
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE)).run(sockets=[sock])
    finally:
        logger.setLevel(before)
