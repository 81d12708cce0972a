"""Prepared data: shards of tokenized pairs on disk, made once by `hf-echo data prepare`, read by
every process.

    OUT/plan.json              data, tokenizer, longest text and rows of a shard; read to continue
    OUT/shards/00000/          files of `TokenizedParallel`, memory-mapped
    OUT/shards/00000/shard.json   rows, longest texts, size of each file, and the hash of all
    OUT/tokenizer/             the tokenizer
    OUT/prepared.json          the shards and their fingerprint, the hash of the shards' hashes; written last

A shard takes blocks of rows from everywhere in the data, so that each is a sample of all. Training
reads one shard at a time: the shards of an epoch come in a seeded order, and batches by token
budget are formed inside of a shard.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from torch.utils.data import Sampler
from tqdm.auto import tqdm

from ..utils.files import read_json, remove_leftovers, unfinished_path, write_json
from ..utils.fingerprint import sha256
from .tokenized import TokenizedParallel, text_ids, tokenize_parallel

logger = logging.getLogger(__name__)

PREPARED = "prepared.json"
PLAN = "plan.json"
SHARD = "shard.json"
SHARDS = "shards"
TOKENIZER = "tokenizer"
BLOCK = 10_000  # neighbouring rows that stay together
OPEN_SHARDS = 2  # each holds about ten files open; training reads one shard, and the next
WHOLE = 2**30  # data of at most so many bytes are hashed again when they are opened


def is_prepared(name: str | Path | None) -> bool:
    return name is not None and (Path(name) / PLAN).is_file()


def tokenizer_hash(tokenizer: Any) -> str:
    """Of what decides the ids of a text: prompts and special tokens are added later."""
    text_ids(tokenizer, [])  # resets padding and truncation, which are a part of its state
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


# Making


def prepare_parallel(
    dataset: Dataset,
    tokenizer: Any,
    out: str | Path,
    *,
    max_length: int = 128,
    shard_rows: int = 1_000_000,
    workers: int = 1,
    row_choice: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Tokenize a dataset of the parallel schema into shards; a second call makes only those that
    are missing.

    Args:
        max_length: tokens of a text; longer ones are cut, with a warning.
        shard_rows: pairs of a shard, about. A worker holds one shard in memory, and so does a
            training process.
        workers: processes.
        row_choice: settings of a recipe by which the rows were chosen; a run with other settings is
            refused.

    Returns:
        Rows, shards, fingerprint.

    Raises:
        ValueError: no rows, or `out` holds shards of other data, another tokenizer or other
            settings.
    """
    out = Path(out)
    if not len(dataset):
        raise ValueError("there are no rows to prepare")
    shards = max(1, round(len(dataset) / shard_rows))
    plan = {
        "data": dataset._fingerprint,
        "rows": len(dataset),
        "tokenizer": tokenizer_hash(tokenizer),
        "max_length": max_length,
        "shards": shards,
        "row_choice": row_choice or {},
    }
    _check_earlier_plan(out, plan)
    (out / SHARDS).mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(out / TOKENIZER)
    write_json(out / PLAN, plan)
    # A shard whose note is there is whole: only the others are made.
    jobs = []
    for number in range(shards):
        if not (shard_folder(out, number) / SHARD).is_file():
            jobs.append(ShardJob(dataset, tokenizer, out, number, shards, max_length))
    bar = tqdm(total=len(jobs), desc="Preparing", unit="shard")
    if len(jobs) < 2:
        for job in jobs:
            _make_shard(job)
            bar.update()
    elif workers == 1:
        # Each shard reads from a copy of the dataset, as in a worker: a copy opens the files again,
        # and when it goes, the pages that it mapped go, too. Otherwise all files would be in memory
        # at the end.
        pickled_dataset = pickle.dumps(dataset)
        for job in jobs:
            _make_shard(job._replace(dataset=pickle.loads(pickled_dataset)))
            bar.update()
    else:
        # Each worker has one thread of the tokenizer: together they fill the processors.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
            for _ in pool.map(_make_shard, jobs):
                bar.update()
    bar.close()
    # What all shards together hold.
    shard_notes = [read_json(shard_folder(out, number) / SHARD) for number in range(shards)]
    hashes = "\n".join(note["sha256"] for note in shard_notes)
    digest = hashlib.sha256(hashes.encode()).hexdigest()
    names: dict[str, list[str]] = {}
    for kind in ("source_lang", "target_lang", "provenance"):
        names_of_kind: set[str] = set()
        for note in shard_notes:
            names_of_kind.update(note["names"][kind])
        names[kind] = sorted(names_of_kind)
    report = {"rows": len(dataset), "shards": shards, "fingerprint": digest}
    rows_of_shards = [note["rows"] for note in shard_notes]
    write_json(out / PREPARED, plan | report | {"names": names, "shards": rows_of_shards})
    return report


def _check_earlier_plan(out: Path, plan: dict[str, Any]) -> None:
    """Raises ValueError if the folder holds shards that were made by another plan."""
    if not (out / PLAN).is_file():
        return
    earlier = read_json(out / PLAN)
    for name, value in plan.items():
        if earlier.get(name) != value:
            raise ValueError(
                f"{out} holds shards of another preparation ({name} differs): name another folder"
            )


def shard_folder(out: str | Path, number: int) -> Path:
    return Path(out) / SHARDS / f"{number:05d}"


def rows_of_shard(dataset: Dataset, number: int, shards: int) -> Dataset:
    """Every `shards`-th block of rows; a block is a slice of the table on disk,
    and nothing is copied."""
    starts = range(number * BLOCK, len(dataset), shards * BLOCK)
    block = BLOCK
    if shards * BLOCK > len(dataset):  # a small table: each shard has one part of it
        block = -(-len(dataset) // shards)
        starts = range(number * block, min((number + 1) * block, len(dataset)), block)
    parts = [dataset.select(range(start, min(start + block, len(dataset)))) for start in starts]
    return concatenate_datasets(parts)


class ShardJob(NamedTuple):
    """What a worker needs to make shard `number` of `shards` in the folder `out`."""

    dataset: Dataset
    tokenizer: Any
    out: Path
    number: int
    shards: int
    max_length: int


def _make_shard(job: ShardJob) -> None:
    """Tokenize one shard and put it in its place, whole or not at all."""
    dataset, tokenizer, out, number, shards, max_length = job
    folder = shard_folder(out, number)
    remove_leftovers(folder.parent, folder.name)
    unfinished = unfinished_path(folder.parent, folder.name)
    rows = rows_of_shard(dataset, number, shards)
    tokenized = tokenize_parallel(rows, tokenizer, max_length=max_length, progress=False)
    tokenized.save(unfinished)
    files = {file.name: file.stat().st_size for file in sorted(unfinished.iterdir())}
    description = {
        "rows": len(tokenized),
        "names": tokenized.names,
        "longest": tokenized.longest(),
        "files": files,
        "sha256": _hash_of(unfinished, files),
    }
    (unfinished / SHARD).write_text(json.dumps(description))
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(unfinished, folder)


def _hash_of(folder: Path, files: dict[str, int]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name} {sha256(folder / name)}\n".encode())
    return digest.hexdigest()


# Reading


class PreparedParallel(torch.utils.data.Dataset):
    """Map-style dataset of prepared pairs, as `TokenizedParallel`; a shard is opened when a row of
    it is read.

    Raises:
        FileNotFoundError, ValueError: the preparation is not finished, or a shard is missing or
            damaged.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not (self.folder / PREPARED).is_file():
            raise ValueError(
                f"{folder}: the preparation was stopped; repeat the same `hf-echo data prepare`, which continues it"
            )
        self.about = read_json(self.folder / PREPARED)
        self.names: dict[str, list[str]] = self.about["names"]
        self.sizes: list[int] = self.about["shards"]
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._open: dict[int, TokenizedParallel] = {}
        self._check_shards()
        self.negatives = self.shard(0).negatives  # None: the data have none

    def _check_shards(self) -> None:
        """Sizes of all files; of small data the content, too."""
        shards = []
        for number in range(len(self.sizes)):
            place = shard_folder(self.folder, number)
            if not (place / SHARD).is_file():
                raise FileNotFoundError(
                    f"{place} is missing: the same `hf-echo data prepare` makes it again"
                )
            shard = read_json(place / SHARD)
            for name, size in shard["files"].items():
                if not (place / name).is_file() or (place / name).stat().st_size != size:
                    raise ValueError(
                        f"{place / name} is damaged: delete {place} and prepare the data again"
                    )
            shards.append(shard)
        if sum(sum(shard["files"].values()) for shard in shards) <= WHOLE:
            for number, shard in enumerate(shards):
                place = shard_folder(self.folder, number)
                if _hash_of(place, shard["files"]) != shard["sha256"]:
                    raise ValueError(f"{place} is damaged: delete it and prepare the data again")
        self._longest = [shard["longest"] for shard in shards]

    def check_tokenizer(self, tokenizer: Any, max_length: int) -> None:
        """Raises ValueError for a run with another tokenizer, or another longest text,
        than the data have."""
        if self.about["tokenizer"] != tokenizer_hash(tokenizer):
            raise ValueError(
                f"{self.folder} was prepared with another tokenizer than that of the run: prepare it again"
            )
        if self.about["max_length"] != max_length:
            raise ValueError(
                f"{self.folder} has max_length {self.about['max_length']}, the recipe {max_length}"
            )

    def check_row_choice(self, row_choice: dict[str, Any]) -> None:
        """Raises ValueError for a run whose recipe would choose other rows than the data have."""
        prepared = self.about.get("row_choice", {})
        for name in sorted({*prepared, *row_choice}):
            if prepared.get(name) != row_choice.get(name):
                raise ValueError(
                    f"{self.folder} was prepared with {name} {prepared.get(name)!r}, the recipe has "
                    f"{row_choice.get(name)!r}: hf-echo data prepare RECIPE OUT prepares the rows of a recipe"
                )

    def shard(self, number: int) -> TokenizedParallel:
        if number not in self._open:
            if len(self._open) == OPEN_SHARDS:
                oldest = next(iter(self._open))
                del self._open[oldest]
            self._open[number] = TokenizedParallel.load(shard_folder(self.folder, number))
        return self._open[number]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, i: int) -> dict:
        number = int(np.searchsorted(self.starts, i, side="right")) - 1
        return self.shard(number)[i - int(self.starts[number])] | {"index": i}

    def longest(self) -> dict[str, int]:
        """Tokens of the longest text of each side."""
        return {side: max(shard[side] for shard in self._longest) for side in self._longest[0]}

    def shard_of(self, rows: np.ndarray) -> tuple[TokenizedParallel, np.ndarray]:
        """The shard of the rows of a batch, all of which are in one, and their numbers there."""
        number = int(np.searchsorted(self.starts, rows[0], side="right")) - 1
        return self.shard(number), rows - self.starts[number]

    @property
    def fingerprint(self) -> str:
        return self.about["fingerprint"]


class ShardBatchSampler(Sampler[list[int]]):
    """Batches of prepared data for this rank: shards in a seeded order, and inside of a shard
    `make_sampler`'s batches.

    Its state is (seed, epoch, shard, place in it): another process, or a run that continues, needs
    one shard's lengths.

    Args:
        data: the shards.
        make_sampler: (lengths of a shard, seed) -> its TokenBudgetBatchSampler.
        lengths_of: (shard) -> (rows, sides) tokens.
    """

    def __init__(
        self,
        data: PreparedParallel,
        make_sampler: Callable[[np.ndarray, int], Any],
        lengths_of: Callable[[TokenizedParallel], np.ndarray],
        seed: int,
    ):
        self.data = data
        self.make_sampler = make_sampler
        self.lengths_of = lengths_of
        self.seed = seed
        self.epoch = 0
        self._batches: list[int] | None = None

    def _sampler(self, number: int) -> Any:
        lengths = self.lengths_of(self.data.shard(number))
        return self.make_sampler(lengths, self.seed + 1_000_003 * number)

    def __len__(self) -> int:
        if self._batches is None:
            self._batches = [len(self._sampler(number)) for number in range(len(self.data.sizes))]
        return sum(self._batches)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng([self.seed, self.epoch, len(self.data.sizes)]).permutation(
            len(self.data.sizes)
        )
        for number in order.tolist():
            sampler = self._sampler(number)
            sampler.set_epoch(self.epoch)
            start = int(self.data.starts[number])
            for rows in sampler:
                yield [start + row for row in rows]
