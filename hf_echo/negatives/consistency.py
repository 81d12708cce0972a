"""Consistency filter (OS A.3, ECHO A.1.5): a description stays if it finds its own snippet first among N.

The pool is N random snippets of the same programming language and the row's own snippet. Snippets that differ only in
white space count as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..inference.embedding_files import take_rows
from ..search.checks import unit_rows
from ..search.shards import SHARD, Encode, work_folder
from ..utils.results import Result
from .columns import PART, best_of, encode_column, first_of_each, places, row_keys, rows_by, sampled, write_rows

SIDES = ("source", "target")
ROUNDING = 1e-5  # of a cosine of float32 rows: another snippet must be better by more than that


@dataclass(frozen=True)
class ConsistencyCounts(Result):
    """By language of the snippets: rows kept and dropped, and the size of the pool."""

    kept: dict[str, int]
    dropped: dict[str, int]
    pool: dict[str, int]
    out: str
    work: str
    share: float = field(default=0.0)  # kept, of all rows


def filter_consistent(
    dataset: Any,
    encode: Encode,
    out: str | Path,
    *,
    snippets: str = "source",
    pool_size: int | None = 100_000,
    index: str = "Flat",
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    shard: int = SHARD,
    progress: bool = True,
) -> ConsistencyCounts:
    """Write the rows whose description retrieves its own snippet, as Parquet.

    Args:
        dataset: a `datasets.Dataset` in the parallel schema.
        encode: (texts, lang) -> (len(texts), d); the papers use CodeRankEmbed; any SentenceTransformer works.
        snippets: "source" or "target", the side that holds code or mathematics; the other one describes it.
        pool_size: N, the number of snippets per language in the pool; None: all.
        index: a faiss index_factory string; "Flat" is exact.
        work: folder of embeddings and finished blocks (default: OUT.work); a stopped run resumes from it.

    Raises:
        ImportError: without faiss.
        ValueError: a wrong `snippets`, pool_size below 1, `work` of other data or another model, broken embeddings
            (with the row).
    """
    check_side(snippets)
    if pool_size is not None and pool_size < 1:
        raise ValueError(f"pool_size is {pool_size}, must be at least 1")
    out, described = Path(out), SIDES[1 - SIDES.index(snippets)]
    work = work_folder(out, work)
    options = {"model": model, "shard": shard, "progress": progress}
    keys = row_keys(dataset, snippets, progress)
    keep = np.zeros(len(dataset), bool)
    kept, dropped, sizes = {}, {}, {}
    for lang, rows in rows_by(dataset, f"{snippets}_lang").items():
        own = first_of_each(keys, rows)
        vectors = encode_column(dataset, snippets, own, encode, lang, work / lang / "snippets", **options)
        chosen = np.searchsorted(own, sampled(own, pool_size, seed))
        pool = vectors if len(chosen) == len(own) else [take_rows(vectors, chosen)]
        for other, mine in rows_by(dataset.select(rows), f"{described}_lang").items():
            mine = rows[mine]
            queries = encode_column(dataset, described, mine, encode, other, work / lang / other, **options)
            near = best_of(queries, pool, min(2, len(chosen)), index, work / lang / "search", progress)
            place = places(keys[own], keys[mine])
            no_rival = (near.indices < 0) | (chosen[near.indices] == place[:, None])
            rival = np.where(no_rival, -np.inf, near.scores).max(axis=1)
            for start in range(0, len(mine), PART):
                part = slice(start, start + PART)
                answer = unit_rows(take_rows(vectors, place[part])).numpy()
                ask = unit_rows(take_rows(queries, np.arange(len(mine))[part])).numpy()
                keep[mine[part]] = np.einsum("rd,rd->r", ask, answer) >= rival[part] - ROUNDING
        kept[lang], sizes[lang] = int(keep[rows].sum()), len(chosen)
        dropped[lang] = len(rows) - kept[lang]

    optional = [name for name in ("hard_negatives", "quality") if name in dataset.column_names]

    def change(start: int, columns: dict) -> dict:
        good = np.flatnonzero(keep[start : start + len(columns["source"])])
        return {name: [values[i] for i in good] for name, values in columns.items()}

    write_rows(dataset, out, change, optional, progress)
    share = float(keep.mean()) if len(keep) else 0.0
    return ConsistencyCounts(kept, dropped, sizes, str(out), str(work), share)


def check_side(snippets: str) -> None:
    if snippets not in SIDES:
        raise ValueError(f"snippets is {snippets!r}, must be source or target")
