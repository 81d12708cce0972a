"""Ask a language model about many rows at an OpenAI-compatible endpoint (`transformers serve MODEL`
starts one).

`write_rows` sends the requests of jobs in parallel and writes their rows in order. A reply that the
check refuses is asked for again, hotter and with another seed. All replies are kept in a SQLite
file, so that a second run asks nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..utils.bars import hidden
from ..utils.extras import extra
from ..utils.files import one_line, write_whole

RETRY_TEMPERATURE = 0.7
COUNTS = [
    "rows",
    "answered",
    "failed",
    "not_asked",
    "requests",
    "from_cache",
    "invalid_replies",
    "prompt_tokens",
    "completion_tokens",
]
SILENCE = 20  # consecutive rows without a reply, after which the endpoint counts as down

Messages = list[dict[str, str]]


class InvalidReply(Exception):
    """A reply that is not an answer, with the reason."""


class RequestFailed(Exception):
    """One request failed after all retries; other requests may succeed."""


class Reply(NamedTuple):
    text: str
    cut: bool = False  # max_tokens stopped the model
    prompt_tokens: int | None = None  # None if unknown
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Job:
    """One request and the row that its reply becomes."""

    failure_fields: Mapping[str, Any]  # columns of this row in the file of failures
    messages: Messages | None  # the chat; None if no request is needed
    parse: Callable[[str], Any]  # reply -> value; raises InvalidReply
    # value, or None without a valid reply -> row to write, or None
    row: Callable[[Any], dict[str, Any] | None]


class Endpoint:
    """Chat completions over HTTP with the ``openai`` client (vLLM, `transformers serve`, llama.cpp,
    hosted models).

    Args:
        model: name on the server.
        base_url: address with the version: ``http://localhost:8000/v1``.
        timeout: seconds to wait for an answer.

    Raises:
        ImportError: openai is not installed. ValueError: base_url is not an address.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout: float = 120,
        retries: int = 5,
    ) -> None:
        with extra("llm"):
            import openai
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"endpoint is {base_url!r}; give an address such as http://localhost:8000/v1"
            )
        self.model = model
        self.base_url = base_url
        self._openai = openai
        self._client = openai.OpenAI(
            base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=retries
        )

    def __call__(self, messages: Messages, parameters: dict[str, Any]) -> Reply:
        """Send one request (parameters: temperature, max_tokens, seed); thread-safe.

        Raises:
            RequestFailed: no answer. ValueError: the endpoint refuses all requests (key, address,
                model).
        """
        openai = self._openai
        try:
            answer = self._client.chat.completions.create(
                model=self.model, messages=messages, **parameters
            )
            text = answer.choices[0].message.content or ""
            is_cut = answer.choices[0].finish_reason == "length"
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise ValueError(
                f"{self.base_url} refuses model {self.model!r}: {one_line(error)[:300]}"
            ) from None
        except (openai.OpenAIError, ValueError) as error:
            raise RequestFailed(one_line(error)[:300]) from None
        except (AttributeError, IndexError, TypeError):
            raise RequestFailed("the answer is not a chat completion") from None
        if not isinstance(text, str):
            raise RequestFailed("the answer is not a chat completion: its content is not text")
        prompt_tokens = getattr(answer.usage, "prompt_tokens", None)
        completion_tokens = getattr(answer.usage, "completion_tokens", None)
        return Reply(text, is_cut, prompt_tokens, completion_tokens)


class ReplyCache:
    """Replies in a SQLite file; each is on disk before it is used. Threads share it."""

    def __init__(self, path: str | Path) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._guard = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT)"
            )
        except sqlite3.DatabaseError:
            raise ValueError(
                f"{path} holds no replies of a language model: give another file"
            ) from None

    def get(self, key: str) -> Reply | None:
        with self._guard:
            row = self._db.execute("SELECT reply FROM replies WHERE key = ?", [key]).fetchone()
        return Reply(*json.loads(row[0])) if row else None

    def put(self, key: str, reply: Reply) -> None:
        with self._guard:
            self._db.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?)", [key, json.dumps(reply)]
            )

    def close(self) -> None:
        self._db.close()


def write_rows(  # noqa: PLR0913 (the options of the commands that ask a model)
    jobs: Iterable[Job],
    model: Endpoint,
    out: str | Path,
    *,
    total: int | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
    attempts: int = 3,
    concurrency: int = 8,
    progress: bool = True,
) -> dict[str, Any]:
    """Run all jobs and write their rows as JSONL, in order. Start a stopped run again to resume it.

    Args:
        out: ``name.jsonl``. Failed rows go to ``name.failed.jsonl`` with reason and last reply; the
            replies are kept in ``name.replies.sqlite``.
        total: number of jobs, for the progress bar.
        temperature: of the first attempt; later ones use at least 0.7, and each adds 1 to the seed.

    Returns:
        Counts of rows, requests and tokens (of new requests), and the reasons of failures.

    Raises:
        ValueError: the endpoint refuses, or has stopped answering; `out` is no .jsonl. The replies
            until then are kept.
    """
    from tqdm.auto import tqdm

    out = Path(out)
    if out.suffix != ".jsonl":
        raise ValueError(f"out is {str(out)!r}; the file name must end in .jsonl")
    # What is sent at each attempt.
    sampling = []
    for attempt in range(attempts):
        heat = temperature if attempt == 0 else max(temperature, RETRY_TEMPERATURE)
        sampling.append({"temperature": heat, "max_tokens": max_tokens, "seed": seed + attempt})
    counts: Counter[str] = Counter()
    failure_reasons: Counter[str] = Counter()
    silent_rows = 0
    failures = out.with_suffix(".failed.jsonl")
    replies_file = out.with_suffix(".replies.sqlite")

    # Rows and failures are written in order, while the next requests are on their way.
    with (
        closing(ReplyCache(replies_file)) as replies,
        write_whole(out) as unfinished,
        open(unfinished, "w", encoding="utf-8") as rows,
        open(failures, "w", encoding="utf-8") as failed,
        tqdm(total=total, unit="row", disable=hidden(progress)) as bar,
    ):
        answer = partial(_answer, model, replies, sampling)
        for job, outcome in _in_order(jobs, answer, concurrency):
            counts += outcome.counts
            counts["rows"] += 1
            if job.messages is None:
                counts["not_asked"] += 1
            elif outcome.reason is None:
                counts["answered"] += 1
            else:
                counts["failed"] += 1
                failure_reasons[outcome.reason] += 1
                failure = {"reason": outcome.reason, "reply": outcome.reply}
                _write(failed, {**job.failure_fields, **failure})
            # An endpoint that is down would fail every row that is left.
            silent_rows = silent_rows + 1 if outcome.silent else 0
            if silent_rows >= SILENCE:
                raise ValueError(
                    f"{silent_rows} consecutive rows got {outcome.reason}; the replies so far are in "
                    f"{replies_file}: run the same command to resume"
                )
            row = job.row(outcome.value)
            if row is not None:
                _write(rows, row)
            bar.update()
    if not counts["failed"]:
        failures.unlink()
    return {
        **{name: counts[name] for name in COUNTS},
        "reasons": dict(failure_reasons.most_common(10)),
    }


class _Outcome(NamedTuple):
    counts: Counter[str]
    value: Any = None
    reason: str | None = None
    reply: str | None = None  # of the last attempt
    silent: bool = False  # no reply


def _answer(
    model: Endpoint, replies: ReplyCache, attempts: list[dict[str, Any]], job: Job
) -> _Outcome:
    """The outcome of a job, from the replies that are there or by the model; several threads call
    it."""
    counts: Counter[str] = Counter()
    if job.messages is None:
        return _Outcome(counts)
    # Attempts, until a reply is an answer; each reply is kept before it is judged.
    reason = None
    text = None
    for parameters in attempts:
        # the reply of an earlier run, or of the model
        content = json.dumps([model.model, job.messages, parameters], sort_keys=True)
        key = hashlib.sha256(content.encode()).hexdigest()[:32]
        reply = replies.get(key)
        if reply is not None:
            counts["from_cache"] += 1
        else:
            counts["requests"] += 1
            try:
                reply = model(job.messages, parameters)
            except RequestFailed as error:
                return _Outcome(counts, None, f"no reply: {error}", text, silent=True)
            replies.put(key, reply)
            counts["prompt_tokens"] += reply.prompt_tokens or 0
            counts["completion_tokens"] += reply.completion_tokens or 0
        text = reply.text
        try:
            if reply.cut:
                raise InvalidReply(f"cut off at {parameters['max_tokens']} tokens")
            return _Outcome(counts, job.parse(text))
        except InvalidReply as error:
            reason = str(error)
            counts["invalid_replies"] += 1
    return _Outcome(counts, None, reason, text)


def _in_order(
    jobs: Iterable[Job], answer: Callable[[Job], _Outcome], concurrency: int
) -> Iterator[tuple[Job, _Outcome]]:
    """Yield (job, outcome) in the order of the jobs; some are asked ahead."""
    # Blocks of jobs: the threads work ahead, but not through all of the rows.
    pool = ThreadPoolExecutor(concurrency)
    remaining = iter(jobs)
    try:
        while True:
            block = list(islice(remaining, 16 * concurrency))
            if not block:
                break
            yield from zip(block, pool.map(answer, block), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _write(file: Any, row: dict[str, Any]) -> None:
    try:
        line = json.dumps(row, ensure_ascii=False)
        line.encode()
    except UnicodeEncodeError:  # the reply has lone surrogates
        line = json.dumps(row)
    file.write(line + "\n")
