"""Run jobs and write their rows: parallel requests, checked replies, retries, ordered output, failures with reasons.

Replies are stored in the cache as they arrive; OUT is complete only at the end. Start a stopped run again with the same
arguments to resume it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from ...utils.files import write_whole
from .asking import Asker, Outcome, Sampling, Summary
from .backends import Backend
from .cache import ReplyCache, request_key
from .tasks import Job

CHARACTERS_PER_TOKEN = 4  # in English, for the estimate
DEFAULT_SAMPLING = Sampling()
SILENCE = 20  # consecutive rows without a reply, after which the endpoint counts as down


def write_rows(
    jobs: Iterable[Job],
    backend: Backend,
    out: str | Path,
    *,
    total: int | None = None,
    cache: str | Path | None = None,
    sampling: Sampling = DEFAULT_SAMPLING,
    concurrency: int = 8,
    on_fail: str = "skip",
    prices: tuple[float, float] = (0.0, 0.0),
    progress: bool = True,
) -> Summary:
    """Run all jobs and write their rows as JSONL, in order.

    Args:
        jobs: from a task (`describe`, `back_translate`, `negatives`).
        out: ``name.jsonl``. Failed rows go to ``name.failed.jsonl`` with reason and last reply.
        total: number of jobs, for the progress bar.
        cache: file of the replies; None is ``name.replies.jsonl``.
        concurrency: number of requests at a time.
        on_fail: "skip" rows without a valid reply, or "stop" at the first.
        prices: per million prompt tokens and per million completion tokens.

    Raises:
        ValueError: the endpoint refuses (key, model, address) or has stopped answering, a row failed and
            on_fail is "stop", or a wrong argument. The cache keeps the replies until then.
    """
    from tqdm.auto import tqdm

    out = Path(out)
    _check_arguments(out, concurrency, on_fail)
    summary, failures = Summary(), out.with_suffix(".failed.jsonl")
    with (
        write_whole(out) as unfinished,
        ReplyCache(cache or default_cache(out)) as replies,
        open(unfinished, "w", encoding="utf-8") as rows,
        open(failures, "w", encoding="utf-8") as failed,
        tqdm(total=total, unit="row", disable=not progress) as bar,
        # closed before the cache, because threads may still write to the cache
        closing(_in_order(Asker(backend, replies, sampling, summary).answer, jobs, concurrency)) as outcomes,
    ):
        silent = 0
        for job, outcome in outcomes:
            silent = silent + 1 if outcome.silent else 0
            _count_outcome(summary, job, outcome)
            if outcome.reason:
                _write(failed, {**job.about, "reason": outcome.reason, "reply": outcome.reply})
                _stop_if(on_fail, silent, job, outcome, replies.path)
            if (row := job.row(outcome.value)) is not None:
                _write(rows, row)
            bar.update()
            bar.set_postfix(failed=summary.failed, requests=summary.requests, refresh=False)
    if not summary.failed:
        failures.unlink()
    summary.transport_retries = backend.retries_taken
    summary.cost = (prices[0] * summary.prompt_tokens + prices[1] * summary.completion_tokens) / 1e6
    return summary


def default_cache(out: Path) -> Path:
    """Default file of the replies: ``name.replies.jsonl`` beside ``name.jsonl``."""
    return out.with_suffix(".replies.jsonl")


def _check_arguments(out: Path, concurrency: int, on_fail: str) -> None:
    if out.suffix != ".jsonl":
        raise ValueError(f"{out}: the file name must end in .jsonl")
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency} must be 1 or more")
    if on_fail not in ("skip", "stop"):
        raise ValueError(f"on_fail={on_fail!r} must be 'skip' or 'stop'")


def _in_order(answer: Callable[[Job], Outcome], jobs: Iterable[Job], concurrency: int) -> Any:
    """Yield (job, outcome) in the order of the jobs; some jobs start ahead, so that a slow reply does not block."""
    pending: deque[tuple[Job, Future[Outcome]]] = deque()
    pool = ThreadPoolExecutor(concurrency)
    try:
        for job in jobs:
            pending.append((job, pool.submit(answer, job)))
            if len(pending) >= 16 * concurrency:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _count_outcome(summary: Summary, job: Job, outcome: Outcome) -> None:
    summary.rows += 1
    if job.messages is None:
        summary.not_asked += 1
    elif outcome.reason:
        summary.failed += 1
        summary.reasons[outcome.reason] += 1
    else:
        summary.answered += 1


def _stop_if(on_fail: str, silent: int, job: Job, outcome: Outcome, cache: Path) -> None:
    kept = f"the replies so far are in {cache}: run the same command to resume"
    if on_fail == "stop":
        about = json.dumps(next(iter(job.about.values())), ensure_ascii=False)[:80]
        raise ValueError(f"no valid reply for {about}: {outcome.reason}; {kept}")
    if silent >= SILENCE:
        raise ValueError(f"{silent} consecutive rows got {outcome.reason}; {kept}")


def _write(file: Any, row: dict[str, Any]) -> None:
    try:
        line = json.dumps(row, ensure_ascii=False)
        line.encode()
    except UnicodeEncodeError:  # the reply has lone surrogates
        line = json.dumps(row)
    file.write(line + "\n")


def estimate(
    jobs: Iterable[Job],
    model: str,
    sampling: Sampling,
    *,
    cache: str | Path | None = None,
    prices: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Any]:
    """Estimate a run without requests: one prompt, number of requests, tokens and cost if each first reply is valid.

    Prompt tokens are a guess (4 characters per token); completion tokens and cost are upper limits.
    """
    first, keys, in_cache, characters = None, set(), 0, 0
    known = _known_keys(cache)
    rows = 0
    for job in jobs:
        rows += 1
        if job.messages is None:
            continue
        first = first or job.messages
        key = request_key(model, job.messages, sampling.parameters(0))
        if key in keys:
            continue
        keys.add(key)
        if key in known:
            in_cache += 1
        else:
            characters += sum(len(m["content"]) for m in job.messages)
    asked = len(keys) - in_cache
    prompt, completion = characters // CHARACTERS_PER_TOKEN, asked * sampling.max_tokens
    return {
        "prompt": first,
        "rows": rows,
        "requests": asked,
        "in_cache": in_cache,
        "prompt_tokens_about": prompt,
        "completion_tokens_at_most": completion,
        "cost_at_most": (prices[0] * prompt + prices[1] * completion) / 1e6,
    }


def _known_keys(cache: str | Path | None) -> Any:
    if cache is None or not Path(cache).is_file():
        return ()
    with ReplyCache(cache) as replies:
        return replies.keys()
