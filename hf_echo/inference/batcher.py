"""Embed what many threads ask for, in batches by token budget (`serve.py` puts it on the network).

The texts of all requests wait in one queue. One thread takes them from the requests in turn, so
that a large request does not hold up small ones, until the budget is reached, and embeds them
together.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Literal

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers.utils import cached_file

from ..utils.devices import chosen_device
from ..utils.fingerprint import check_model_files
from ..utils.quiet import opening_quietly
from .any_encoder import is_echo
from .encode import encode, load_encoder, opening, pick_device, pick_dtype, pieces_of
from .encode_speech import is_speech
from .modular import is_modular

SETTINGS = "config_sentence_transformers.json"


class Full(Exception):
    """The queue has no room."""


class TooLong(ValueError):
    """A text has more tokens than the model reads."""


class PromptedModel:
    """An Echo checkpoint or any SentenceTransformer: token counts and embeddings of texts behind
    prompts.

    Attributes:
        name: that of a folder is without its path.
        prompts: {name: text in front of a text}; default: name of the one without a choice, or
            None.
        size: of an embedding; limit: longest text in tokens, prompt included.
    """

    model: Any  # an EchoEncoder where `is_echo`, else a SentenceTransformer
    tokenizer: Any

    def __init__(self, name: str, dtype: str = "auto"):
        """Arguments and errors as in `any_encoder`."""
        self.name = Path(name).name if Path(name).is_dir() else name
        if Path(name).is_dir():
            check_model_files(Path(name))
        # An Echo checkpoint by `encode`; any other by sentence-transformers.
        with opening(name) as folder:
            self.is_echo = is_echo(folder)
            if self.is_echo:
                self.model, self.tokenizer = load_encoder(folder, dtype=dtype)
                file = cached_file(folder, SETTINGS, _raise_exceptions_for_missing_entries=False)
                settings = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
                self.prompts = settings.get("prompts", {})
                self.default = settings.get("default_prompt_name")
                self.size = self.model.config.vector_size
                limit = self.tokenizer.model_max_length
            elif is_modular(folder) or is_speech(folder):
                raise ValueError(
                    f"{name} is a modular or a speech encoder, which is not served: use `hf-echo encode`"
                )
            else:
                with opening_quietly():
                    device = str(pick_device(None)) if chosen_device() else None
                    self.model = SentenceTransformer(folder, device=device)
                if dtype != "auto":
                    self.model = self.model.to(pick_dtype(dtype, "cpu"))
                self.prompts = self.model.prompts or {}
                self.default = self.model.default_prompt_name
                self.tokenizer = self.model.tokenizer
                limit = self.model.max_seq_length
                self.size = self.model.get_embedding_dimension()
        # A model without a limit reads texts of any length.
        self.limit = limit if isinstance(limit, int) and limit < 10**9 else sys.maxsize
        self.dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")

    def lengths(self, texts: list[str], prompt: str) -> list[int]:
        """Tokens of each text behind the prompt, before truncation."""
        texts = [prompt + text for text in texts]
        if self.is_echo:
            pieces = pieces_of(self.tokenizer, texts, None, sys.maxsize, "warn")
            return [len(ids) for _, ids in pieces]
        if hasattr(self.tokenizer, "encode_batch"):  # that of a static model
            return [len(encoding.ids) for encoding in self.tokenizer.encode_batch(texts)]
        encoded = self.tokenizer(texts, truncation=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def embed(self, texts: list[str], prompts: list[str], *, split: bool = False) -> np.ndarray:
        """(texts, size) float32; texts over the limit are truncated,
        or with `split` the means of their pieces."""
        if self.is_echo:
            on_long = "split" if split else "warn"
            prompted = [prompt + text for text, prompt in zip(texts, prompts)]
            return encode(self.model, self.tokenizer, prompted, prompt="", on_long=on_long)
        if split:
            return self._embed_pieces(texts, prompts)
        vectors = np.zeros((len(texts), self.size), np.float32)
        for prompt in set(prompts):  # one a call: a model may leave the prompt out of its mean
            rows = [row for row, of_row in enumerate(prompts) if of_row == prompt]
            vectors[rows] = self.model.encode(
                [texts[row] for row in rows], prompt=prompt, show_progress_bar=False
            )
        return vectors

    def _embed_pieces(self, texts: list[str], prompts: list[str]) -> np.ndarray:
        """As `encode` with on_long="split", of a SentenceTransformer:
        means weighted by the tokens of the pieces."""
        pieces = []
        piece_prompts = []
        owners = []
        # A long text is several pieces, which all have its prompt.
        for row, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
            for piece in self.pieces(text, prompt):
                pieces.append(piece)
                piece_prompts.append(prompt)
                owners.append(row)
        # A text's vector is the mean of its pieces', by their number of tokens.
        weights = np.zeros(len(pieces), np.float32)
        for prompt in set(piece_prompts):
            rows = [row for row, of_row in enumerate(piece_prompts) if of_row == prompt]
            weights[rows] = self.lengths([pieces[row] for row in rows], prompt)
        vectors = self.embed(pieces, piece_prompts)
        sums = np.zeros((len(texts), self.size), np.float32)
        totals = np.zeros(len(texts), np.float32)
        np.add.at(sums, owners, vectors * weights[:, None])
        np.add.at(totals, owners, weights)
        return sums / totals[:, None]

    def pieces(self, text: str, prompt: str) -> list[str]:
        """The text, or where it is over the limit its pieces, cut between tokens."""
        length = self.lengths([text], prompt)[0]
        if length <= self.limit:
            return [text]
        if not getattr(self.tokenizer, "is_fast", False):
            raise TooLong(
                f"a text has {length:,} tokens, and the tokenizer of {self.name} cannot split it: shorten it"
            )
        encoded = self.tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            truncation=False,
            verbose=False,
        )
        # The prompt and the special tokens of each piece need room, too.
        room = max(1, self.limit - self.lengths([""], prompt)[0])
        starts = [start for start, _ in encoded["offset_mapping"][::room]]
        ends = [*starts[1:], len(text)]
        return [text[start:end] for start, end in zip(starts, ends, strict=True)]


OnLong = Literal["error", "truncate", "split"]


@dataclass(eq=False)
class Job:
    """The texts of one request. `done` gets (vectors, number of tokens read), or an error."""

    texts: list[str]
    prompt: str = ""
    # texts over the limit are an error, are truncated, or are the mean of their pieces
    on_long: OnLong = "error"
    gone: bool = False  # nobody waits for it any more
    done: Future = field(default_factory=Future)
    lengths: list[int] = field(default_factory=list)
    taken: int = 0
    vectors: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.done.set_running_or_notify_cancel()  # now only the thread of the batcher ends it

    def fail(self, error: Exception) -> None:
        self.gone = True
        if not self.done.done():
            self.done.set_exception(error)


class Batcher:
    """The queue, and the thread that empties it.

    `max_tokens` are embedded together, a longer text alone; at most `max_waiting` texts are in the
    queue.
    """

    def __init__(self, model: PromptedModel, max_tokens: int = 8_192, max_waiting: int = 8_192):
        self.model = model
        self.max_tokens = max_tokens
        self.max_waiting = max_waiting
        self.jobs: deque[Job] = deque()
        self.changed = Condition()
        # A daemon: the process need not wait for a queue that nobody reads.
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def add(self, job: Job) -> None:
        """Raises `Full`."""
        with self.changed:
            waiting = self.waiting()
            if waiting and waiting + len(job.texts) > self.max_waiting:
                raise Full(
                    f"{waiting} texts are waiting, at most {self.max_waiting} may: try again later"
                )
            self.jobs.append(job)
            self.changed.notify()

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.jobs)
            batch = self._next_batch()
            if batch:
                self._embed(batch)

    def _next_batch(self) -> list[tuple[Job, int]]:
        """(job, row) of the next texts: of each job in turn as many as fit."""
        batch: list[tuple[Job, int]] = []
        room = self.max_tokens
        while self.jobs and room > 0:
            job = self.jobs[0]  # only this thread removes jobs
            if not job.gone and not job.lengths:
                self._measure(job)
            while not job.gone and job.taken < len(job.texts) and room > 0:
                room -= self._tokens_read(job, job.taken)
                if room >= 0 or not batch:
                    batch.append((job, job.taken))
                    job.taken += 1
            with self.changed:
                self.jobs.popleft()
                # there is no more room: the others are first now
                if not job.gone and job.taken < len(job.texts):
                    self.jobs.append(job)
        return batch

    def _tokens_read(self, job: Job, row: int) -> int:
        return (
            job.lengths[row] if job.on_long == "split" else min(job.lengths[row], self.model.limit)
        )

    def waiting(self) -> int:
        """Texts that wait."""
        return sum(len(job.texts) - job.taken for job in list(self.jobs) if not job.gone)

    def _measure(self, job: Job) -> None:
        """Count the tokens of a job; it fails where a text is too long."""
        try:
            job.lengths = self.model.lengths(job.texts, job.prompt)
        except Exception as error:
            job.fail(error)
            return
        row = job.lengths.index(max(job.lengths))
        limit = self.model.limit
        if job.lengths[row] > limit and job.on_long == "error":
            message = (
                f"[{row}] has {job.lengths[row]:,} tokens, at most {limit:,} are read: shorten it"
            )
            job.fail(TooLong(message))

    def _embed(self, batch: list[tuple[Job, int]]) -> None:
        """Embed rows of several jobs, and answer each job whose rows are complete."""
        try:
            vectors = self._vectors(batch)
        except Exception as error:
            jobs = list(dict.fromkeys(job for job, _ in batch))
            if len(jobs) == 1:
                jobs[0].fail(error)
                return
            # A text that cannot be embedded fails its own request only.
            for alone in jobs:
                self._embed([(job, row) for job, row in batch if job is alone])
            return
        for (job, row), vector in zip(batch, vectors, strict=True):
            job.vectors[row] = vector
            if len(job.vectors) == len(job.texts) and not job.done.done():
                ordered = np.stack([job.vectors[i] for i in range(len(job.texts))])
                tokens = sum(self._tokens_read(job, i) for i in range(len(job.texts)))
                job.done.set_result((ordered, tokens))

    def _vectors(self, batch: list[tuple[Job, int]]) -> np.ndarray:
        """(rows of the batch, size); texts to be split are embedded apart from those that are
        truncated."""
        vectors = np.zeros((len(batch), self.model.size), np.float32)
        for split in (False, True):
            places = []
            texts = []
            prompts = []
            for place, (job, row) in enumerate(batch):
                if (job.on_long == "split") is split:
                    places.append(place)
                    texts.append(job.texts[row])
                    prompts.append(job.prompt)
            if places:
                vectors[places] = self.model.embed(texts, prompts, split=split)
        return vectors
