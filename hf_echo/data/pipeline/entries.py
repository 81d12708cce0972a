"""Shuffle for steps that compare rows: entries (key, row number, rank) sorted into partitions by key.

An entry is a key (uint64) and a row number; for caps also a rank. Every block writes its entries to one file, ordered
by partition, with the start of each partition. A reader of a partition reads its part of every file. Therefore a
partition must fit into memory, not the corpus: about `PARTITION` entries, or all entries of one key if these are more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...utils.files import read_json, write_array, write_json
from .recipe import Sampling, Step
from .shards import read_table

PARTITION = 1_000_000  # entries; 16 MB of keys or 24 MB of ranks, about ten times that while they are sorted
KEY = np.dtype([("key", np.uint64), ("row", np.uint64)])
RANKED = np.dtype([("key", np.uint64), ("row", np.uint64), ("rank", np.float64)])
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(values: np.ndarray) -> np.ndarray:
    """splitmix64 hash: every bit of the result depends on every bit of the value."""
    values = np.atleast_1d(np.asarray(values, np.uint64)) + GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def key_entries(step: Step, table: pa.Table, first: int) -> np.ndarray:
    """(entries,) KEY: one per key of each row that the step concerns; ``first`` is the number of row 0."""
    keys = np.array(step.work.keys(table), np.uint64)
    if keys.ndim != 2 or len(keys) != len(table):
        raise ValueError(f"step {step.name}: keys must be ({len(table)}, k), got {keys.shape}")
    mask = step.concerns(table)
    present = keys != 0
    if mask is not None:
        present &= mask[:, None]
    if not getattr(step.work, "shared_keys", False):  # columns are not compared with each other
        keys ^= mix(np.arange(keys.shape[1])) * (np.arange(keys.shape[1]) > 0).astype(np.uint64)
    rows, columns = np.nonzero(present)
    entries = np.empty(len(rows), KEY)
    entries["key"], entries["row"] = keys[rows, columns], rows + first
    return entries


def cap_entries(step: Step, table: pa.Table, first: int) -> tuple[np.ndarray, np.ndarray]:
    """((entries,) RANKED, row numbers without a group)."""
    groups = step.work.groups(table)
    groups = groups.combine_chunks() if isinstance(groups, pa.ChunkedArray) else pa.array(groups, pa.string())
    rank = np.asarray(step.work.rank(table), np.float64)
    mask = step.concerns(table)
    entries, grouped = _ranked(groups, np.where(np.isnan(rank), -np.inf, rank), first, mask)
    return best(entries, step.work.limit), np.flatnonzero(~grouped) + first


def sample_entries(sampling: Sampling, table: pa.Table, first: int) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """((entries,) RANKED in random order, no rows without group, rows of each group)."""
    groups = sample_groups(sampling, table)
    rank = mix(mix(np.arange(first, first + len(table))) ^ mix(sampling.seed)) >> np.uint64(11)
    entries, _ = _ranked(groups, rank.astype(np.float64), first, None)
    counted = groups.value_counts()
    sizes = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist()))
    return entries, np.zeros(0, np.int64), sizes


def sample_groups(sampling: Sampling, table: pa.Table) -> pa.Array:
    """The group of each row: its language or direction; for two_step preceded by its source."""
    columns = {"direction": ["source_lang", "target_lang"]}.get(sampling.by, [sampling.by])
    if sampling.method == "two_step":
        columns = ["origin", *columns]
    arrays = [table[name].combine_chunks() for name in columns]
    return pc.binary_join_element_wise(*arrays, "\t") if len(arrays) > 1 else arrays[0]


def group_key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") or 1


def _ranked(groups: pa.Array, rank: np.ndarray, first: int, mask) -> tuple[np.ndarray, np.ndarray]:
    encoded = groups.dictionary_encode()
    keys = np.array([group_key(name) for name in encoded.dictionary.to_pylist()], np.uint64)
    grouped = groups.is_valid().to_numpy(zero_copy_only=False)
    if mask is not None:
        grouped = grouped & mask
    rows = np.flatnonzero(grouped)
    entries = np.empty(len(rows), RANKED)
    codes = encoded.indices.fill_null(0).to_numpy()
    entries["key"] = keys[codes[rows]] if len(rows) else 0
    entries["row"], entries["rank"] = rows + first, rank[rows]
    return entries, grouped


def best(entries: np.ndarray, limit: int | Mapping[int, int]) -> np.ndarray:
    """The ``limit`` highest ranks of each key (earliest first if equal); ``limit`` may depend on the key."""
    entries = entries[np.lexsort((entries["row"], -entries["rank"], entries["key"]))]
    starts, group = runs(entries["key"])
    place = np.arange(len(entries)) - starts[group] if len(entries) else np.zeros(0, int)
    if isinstance(limit, Mapping):
        limit = np.array([limit.get(int(key), 0) for key in entries["key"][starts]], np.int64)[group]
    return entries[place < limit]


def runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start of each run of equal keys, run number of each entry) of sorted keys."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    return np.flatnonzero(new), np.cumsum(new) - 1


def write_entries(item: tuple[str, int], step: Step | Sampling, source: Path, folder: Path, partitions: int) -> None:
    """Write the entries of one block (name, number of its first row) unless they exist."""
    name, first = item
    if (folder / f"{name}.json").exists():
        return
    table, free, sizes = read_table(source / f"{name}.arrow"), np.zeros(0, np.int64), {}
    if isinstance(step, Sampling):
        entries, free, sizes = sample_entries(step, table, first)
    elif step.kind == "keys":
        entries = key_entries(step, table, first)
    else:
        entries, free = cap_entries(step, table, first)
    part = (mix(entries["key"]) % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(part, kind="stable")
    write_array(folder / f"{name}.npy", entries[order])
    write_array(
        folder / f"{name}.starts.npy",
        np.searchsorted(part[order], np.arange(partitions + 1)).astype(np.int64),
    )
    write_array(folder / f"{name}.free.npy", free)
    write_json(folder / f"{name}.json", sizes)


def read_partition(folder: Path, names: Sequence[str], number: int) -> Iterator[np.ndarray]:
    """Yield the entries of one partition, block by block."""
    for name in names:
        start, end = np.load(folder / f"{name}.starts.npy", mmap_mode="r")[number : number + 2]
        if end > start:
            yield np.array(np.load(folder / f"{name}.npy", mmap_mode="r")[start:end])


def group_sizes(folder: Path, names: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name in names:
        for group, count in read_json(folder / f"{name}.json").items():
            sizes[group] = sizes.get(group, 0) + count
    return dict(sorted(sizes.items()))
