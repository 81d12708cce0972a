"""Steps that compare rows: key filters (deduplication), caps, samples. Input: files of entries; output: a byte per row.

**Key filters.** A row stays if no earlier kept row has one of its keys. With one key per row, the first row of each key
stays. With several keys, the result is the greedy solution: row 9 may depend on row 5, which depends on row 2. It is
computed in rounds over partitions, in any order and on any number of machines (Blelloch et al. 2012, "Greedy sequential
maximal independent set and matching are parallel on average"): in each round, a row that is the first undecided one of
all its keys is kept, and rows that share a key with a kept row are dropped. The result equals that of one sequential
pass. Few rounds are needed. When `SEQUENTIAL` entries remain, a sequential pass finishes the work (a chain of rows,
each depending on the one before, would need one round per link).

**Caps and samples.** A partition contains whole groups, so its best rows are known at once.

The driver holds one byte per row that reaches the step (and one more while it decides); a worker holds a partition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...utils.files import write_array
from ...utils.resume import make_once
from .. import sampling as proportions
from .entries import PARTITION, RANKED, best, group_key, group_sizes, read_partition, runs, write_entries
from .recipe import Sampling, Step
from .shards import read_table

OPEN, KEPT, DROPPED = np.uint8(0), np.uint8(1), np.uint8(2)
SEQUENTIAL = 1_000_000  # entries that the driver decides in one sequential pass


class Blocks(NamedTuple):
    """The rows that reach a step: the folder, and the name and first row number of each block."""

    folder: Path
    names: list[str]
    firsts: list[int]
    rows: int


def decide(step: Step | Sampling, blocks: Blocks, folder: Path, executor, desc: str) -> dict[str, int]:
    """Write ``folder/flags.npy``: (rows,) uint8, 1 for a row that stays (in a sample: one more copy of it).

    Returns:
        In a sample, the number of copies of every row of a group before the flag; otherwise empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keyed = isinstance(step, Step) and step.kind == "keys"
    per_row = _keys_of_a_row(step, blocks) if keyed else 1
    partitions = max(1, math.ceil(blocks.rows * per_row / PARTITION))
    write = partial(write_entries, step=step, source=blocks.folder, folder=folder, partitions=partitions)
    for _ in executor.map(write, list(zip(blocks.names, blocks.firsts)), f"{desc}: keys"):
        pass
    copies: dict[str, int] = {}
    if keyed:
        flags = _first_of_keys(blocks, folder, partitions, per_row, executor, desc)
    else:
        limit = step.work.limit if isinstance(step, Step) else None
        if isinstance(step, Sampling):
            copies, extra = quotas(step, group_sizes(folder, blocks.names))
            limit = {group_key(group): rows for group, rows in extra.items()}
        flags = _best_of_groups(blocks, folder, partitions, limit, executor, desc)
    write_array(folder / "flags.npy", flags)
    return copies


def _keys_of_a_row(step: Step, blocks: Blocks) -> int:
    for name in blocks.names:
        if len(table := read_table(blocks.folder / f"{name}.arrow").slice(0, 10)):
            return max(1, np.shape(step.work.keys(table))[1])
    return 1


def _first_of_keys(blocks: Blocks, folder: Path, partitions: int, per_row: int, executor, desc: str) -> np.ndarray:
    state, turn = np.zeros(blocks.rows, np.uint8), 0
    todo = list(range(partitions))
    while todo:
        before = folder / f"state-{turn}.npy"
        write_array(before, state)
        settle = partial(settle_partition, folder=folder, names=blocks.names, turn=turn, alone=per_row == 1)
        blocked, left, todo_next = np.zeros(blocks.rows, bool), 0, []
        for number, _ in executor.map(settle, todo, f"{desc}: round {turn + 1}"):
            with np.load(_of_round(folder, number, turn)) as result:
                state[result["dropped"]] = DROPPED
                blocked[result["blocked"]] = True
                left += len(result["entries"])
                if len(result["entries"]):
                    todo_next.append(number)
        state[(state == OPEN) & ~blocked] = KEPT
        before.unlink()
        todo, turn = sorted(todo_next), turn + 1
        if 0 < left <= SEQUENTIAL:
            _settle_in_order([np.load(_of_round(folder, n, turn - 1))["entries"] for n in todo], state)
            break
    return (state == KEPT).astype(np.uint8)


def _of_round(folder: Path, number: int, turn: int) -> Path:
    return folder / f"round-{turn}-{number:05d}.npz"


def settle_partition(number: int, folder: Path, names: Sequence[str], turn: int, alone: bool) -> None:
    """Run one round on one partition; write dropped rows, blocked rows and undecided entries to a file."""
    make_once(
        _of_round(folder, number, turn), lambda part: np.savez(part, **_round(number, folder, names, turn, alone))
    )


def _round(number: int, folder: Path, names: Sequence[str], turn: int, alone: bool) -> dict[str, np.ndarray]:
    if turn:
        entries = np.load(_of_round(folder, number, turn - 1))["entries"]
    else:
        pieces = list(read_partition(folder, names, number))
        entries = np.concatenate(pieces) if pieces else np.zeros(0, RANKED)
    state = np.load(folder / f"state-{turn}.npy", mmap_mode="r")
    dropped, blocked, entries = settle(entries, state[entries["row"]])
    if alone:  # one key per row: drop every row that is not the first
        dropped, blocked, entries = blocked, blocked[:0], entries[:0]
    return {"dropped": dropped, "blocked": blocked, "entries": entries}


def settle(entries: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run one round on whole groups of keys, given the state of each entry's row.

    Returns:
        Rows that share a key with a kept row; rows that must wait for an earlier one; the entries of groups with at
        least two undecided rows.
    """
    order = np.lexsort((entries["row"], entries["key"]))
    entries, state = entries[order], state[order]
    starts, group = runs(entries["key"])
    if not len(entries):
        return entries["row"], entries["row"], entries
    has_kept = np.logical_or.reduceat(state == KEPT, starts)[group]
    dropped = (state == OPEN) & has_kept
    alive = (state == OPEN) & ~has_kept
    place = np.where(alive, np.arange(len(entries)), len(entries) - 1)
    first = entries["row"][np.minimum.reduceat(place, starts)][group]
    blocked = alive & (entries["row"] != first)
    contested = np.logical_or.reduceat(blocked, starts)[group] & alive
    return np.unique(entries["row"][dropped]), np.unique(entries["row"][blocked]), entries[contested]


def _settle_in_order(pieces: list[np.ndarray], state: np.ndarray) -> None:
    """Decide the remaining entries in order, as the definition says; changes ``state``."""
    entries = np.concatenate(pieces)
    entries = entries[np.argsort(entries["row"], kind="stable")]
    keys, numbers = np.unique(entries["key"], return_inverse=True)
    taken, starts = bytearray(len(keys)), runs(entries["row"])[0]
    numbers = numbers.tolist()
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(entries)]):
        row = int(entries["row"][start])
        if state[row] == OPEN:
            state[row] = DROPPED if any(taken[n] for n in numbers[start:end]) else KEPT
        if state[row] == KEPT:
            for n in numbers[start:end]:
                taken[n] = 1


def _best_of_groups(
    blocks: Blocks, folder: Path, partitions: int, limit: int | Mapping[int, int], executor, desc: str
) -> np.ndarray:
    flags = np.zeros(blocks.rows, np.uint8)
    for name in blocks.names:
        flags[np.load(folder / f"{name}.free.npy")] = 1
    choose = partial(choose_partition, folder=folder, names=blocks.names, limit=limit)
    for number, _ in executor.map(choose, list(range(partitions)), f"{desc}: ranks"):
        flags[np.load(folder / f"best-{number:05d}.npy")] = 1
    return flags


def choose_partition(number: int, folder: Path, names: Sequence[str], limit: int | Mapping[int, int]) -> None:
    """Write the rows of the best entries of one partition to a file; holds the kept entries and one block in memory."""
    make_once(folder / f"best-{number:05d}.npy", lambda part: np.save(part, _best_rows(number, folder, names, limit)))


def _best_rows(number: int, folder: Path, names: Sequence[str], limit: int | Mapping[int, int]) -> np.ndarray:
    held, more = np.zeros(0, RANKED), []
    for piece in read_partition(folder, names, number):
        more.append(piece)
        if sum(map(len, more)) > max(len(held), PARTITION):
            held, more = best(np.concatenate([held, *more]), limit), []
    return np.sort(best(np.concatenate([held, *more]), limit)["row"])


def quotas(sampling: Sampling, sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """(copies of every row of a group, rows of the group that get one more), exactly ``rows`` rows in total."""
    shares, rows = shares_of(sampling, sizes), sampling.rows or sum(sizes.values())
    exact = {group: rows * share for group, share in shares.items()}
    quota = {group: math.floor(value + 1e-9) for group, value in exact.items()}
    for group in sorted(exact, key=lambda g: (quota[g] - exact[g], g))[: rows - sum(quota.values())]:
        quota[group] += 1  # the largest remainders
    copies = {group: quota[group] // size for group, size in sizes.items()}
    return copies, {group: quota[group] % size for group, size in sizes.items()}


def shares_of(sampling: Sampling, sizes: Mapping[str, int]) -> dict[str, float]:
    """The proportion of each group (OS 3.5); they sum to 1."""
    if sampling.method == "natural":
        return proportions.natural(sizes)
    if sampling.method == "temperature":
        return proportions.temperature(sizes, sampling.exponent)
    if sampling.method == "unimax":
        return proportions.unimax(sizes, max_upsampling=sampling.max_upsampling, top_n=sampling.top_n)
    nested: dict[str, dict[str, int]] = {}
    for group, size in sizes.items():
        source, _, rest = group.partition("\t")
        nested.setdefault(source, {})[rest] = size
    exponent = 0.5 if sampling.exponent is None else sampling.exponent
    two = proportions.two_step(nested, exponent)
    return {f"{source}\t{rest}": share for source, inner in two.items() for rest, share in inner.items()}
