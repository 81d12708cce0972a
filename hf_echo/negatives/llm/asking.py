"""Get the outcome of a job: from the cache, else from the backend; repeat the request for invalid replies."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from .backends import Backend, Reply, RequestFailed
from .cache import ReplyCache, request_key
from .replies import InvalidReply
from .tasks import Job

RETRY_TEMPERATURE = 0.7


@dataclass
class Summary:
    """Totals of a run. Tokens count new requests only; ``cost`` is in the currency of the prices."""

    rows: int = 0
    answered: int = 0
    failed: int = 0
    not_asked: int = 0
    requests: int = 0
    from_cache: int = 0
    invalid_replies: int = 0
    transport_retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    requests_without_usage: int = 0
    cost: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def to_row(self) -> dict[str, Any]:
        return {**asdict(self), "reasons": dict(self.reasons.most_common(10))}


class Outcome(NamedTuple):
    value: Any = None
    reason: str | None = None
    reply: str | None = None  # of the last attempt
    silent: bool = False  # no reply


@dataclass(frozen=True)
class Sampling:
    """Sampling settings: the first attempt uses ``temperature``, later ones a higher one and another seed."""

    temperature: float = 0.0
    max_tokens: int = 512
    seed: int = 0
    attempts: int = 3

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.max_tokens < 1 or self.temperature < 0:
            raise ValueError(
                f"attempts={self.attempts} and max_tokens={self.max_tokens} must be 1 or more, "
                f"temperature={self.temperature} 0 or more"
            )

    def parameters(self, attempt: int) -> dict[str, Any]:
        hotter = max(self.temperature, RETRY_TEMPERATURE) if attempt else self.temperature
        return {"temperature": hotter, "max_tokens": self.max_tokens, "seed": self.seed + attempt}


class Asker:
    """Answers jobs from the cache or the backend; thread-safe, and equal requests are sent once."""

    def __init__(self, backend: Backend, cache: ReplyCache, sampling: Sampling, summary: Summary) -> None:
        self.backend, self.cache, self.sampling, self.summary = backend, cache, sampling, summary
        self._guard = threading.Lock()
        self._pending: dict[str, Future[Reply]] = {}

    def answer(self, job: Job) -> Outcome:
        """The outcome of a job; raises BackendRefused."""
        if job.messages is None:
            return Outcome()
        reason = text = None
        for attempt in range(self.sampling.attempts):
            parameters = self.sampling.parameters(attempt)
            try:
                reply = self._ask(job.messages, parameters)
            except RequestFailed as error:
                return Outcome(reason=f"no reply: {error}", reply=text, silent=True)
            text = reply.text
            try:
                if reply.finish == "length":
                    raise InvalidReply(f"cut off at {self.sampling.max_tokens} tokens")
                return Outcome(job.parse(text))
            except InvalidReply as error:
                reason = str(error)
                with self._guard:
                    self.summary.invalid_replies += 1
        return Outcome(reason=reason, reply=text)

    def _ask(self, messages: list[dict[str, str]], parameters: dict[str, Any]) -> Reply:
        key = request_key(self.backend.model, messages, parameters)
        with self._guard:
            if (known := self.cache.get(key)) is not None:
                self.summary.from_cache += 1
                return known
            future = self._pending.get(key)
            if first := future is None:
                future = self._pending[key] = Future()
        if not first:
            reply = future.result()
            with self._guard:
                self.summary.from_cache += 1
            return reply
        try:
            reply = self.backend(messages, parameters)
            self.cache.put(key, self.backend.model, reply)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(reply)
        finally:
            with self._guard:
                del self._pending[key]
        self._count(reply)
        return reply

    def _count(self, reply: Reply) -> None:
        with self._guard:
            self.summary.requests += 1
            self.summary.prompt_tokens += reply.prompt_tokens or 0
            self.summary.completion_tokens += reply.completion_tokens or 0
            self.summary.requests_without_usage += reply.completion_tokens is None
