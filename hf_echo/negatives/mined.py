"""Mined hard negatives for code and mathematics (OS A.4, ECHO A.2): the top 5 of a pool of 200k targets.

For each row of a parallel dataset, the targets of the pool nearest to its source, in the language of its own target.
Left out are the row's target, every other target of the same source, texts with the same normal form as one of these
or as the source, and texts whose cosine with the row's target shows that they mean the same.
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

SPARE = 27  # candidates beyond k that exclusions may use up


@dataclass(frozen=True)
class NegativesReport(Result):
    """`short`: rows with fewer negatives than asked for; `excluded`: candidates left out, by reason."""

    rows: int
    negatives: int
    short: int
    out: str
    work: str
    pool: dict[str, int] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)


def mine_negatives(
    dataset: Any,
    encode: Encode,
    out: str | Path,
    *,
    pool: Any = None,
    k: int = 5,
    max_cosine: float = 0.95,
    pool_size: int | None = 200_000,
    index: str = "Flat",
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    shard: int = SHARD,
    progress: bool = True,
) -> NegativesReport:
    """Write the rows with a new column `hard_negatives`, best first, as Parquet; an old one is replaced.

    Args:
        dataset: a `datasets.Dataset` in the parallel schema (`load_parallel`).
        encode: (texts, lang) -> (len(texts), d): an Echo checkpoint's `any_encoder`, or anybody's.
        pool: another such dataset, whose targets are the candidates; None: those of the dataset.
        k: negatives per row; a row has fewer if exclusions leave fewer of the best k + 27.
        max_cosine: a candidate whose cosine with the row's target is above it counts as the same text.
        pool_size: candidates of each target language, drawn by `seed`; None is all.
        index: a faiss index_factory string; "Flat" is exact.
        work: folder of embeddings and finished blocks (default: OUT.work); a stopped run resumes from it.

    Raises:
        ImportError: without faiss. ValueError: k or pool_size below 1, no pool for a language, `work` of another data
            set or model, broken embeddings (with the row).
    """
    if k < 1 or (pool_size is not None and pool_size < 1):
        raise ValueError(f"k is {k} and pool_size {pool_size}, must be at least 1")
    out = Path(out)
    work = work_folder(out, work)
    options = {"model": model, "shard": shard, "progress": progress}
    candidates = dataset if pool is None else pool
    source_keys, target_keys = (row_keys(dataset, side, progress) for side in ("source", "target"))
    pool_keys = target_keys if pool is None else row_keys(pool, "target", progress)
    positives = Positives(source_keys, target_keys)
    same_side = _same_language_keys(dataset, progress)
    in_pool = rows_by(candidates, "target_lang")
    found = np.full((len(dataset), k), -1, np.int64)
    sizes, excluded = {}, {"positive": 0, "same_source": 0, "cosine": 0}

    for lang, rows in rows_by(dataset, "target_lang").items():
        if lang not in in_pool:
            raise ValueError(f"the pool has no text in {lang}, the language of {len(rows)} targets")
        own = first_of_each(target_keys, rows)
        targets = encode_column(dataset, "target", own, encode, lang, work / lang / "targets", **options)
        chosen = sampled(first_of_each(pool_keys, in_pool[lang]), pool_size, seed)
        if pool is None:
            pool_vectors = targets if len(chosen) == len(own) else [take_rows(targets, np.searchsorted(own, chosen))]
        else:
            pool_vectors = encode_column(pool, "target", chosen, encode, lang, work / lang / "pool", **options)
        queries, order = _encode_sources(dataset, rows, encode, work / lang / "sources", options)
        fetch = min(k + SPARE, len(chosen))
        near = best_of(queries, pool_vectors, fetch, index, work / lang / "search", progress).indices
        place = places(target_keys[own], target_keys[order])
        for start in range(0, len(order), PART):
            part = slice(start, start + PART)
            keep = _other_texts(near[part], pool_keys[chosen], order[part], positives, same_side, excluded)
            positive = take_rows(targets, place[part])
            excluded["cosine"] += _drop_close(keep, near[part], pool_vectors, positive, k, max_cosine)
            for row, indices, good in zip(order[part], near[part], keep, strict=True):
                best = chosen[indices[good][:k]]
                found[row, : len(best)] = best
        sizes[lang] = len(chosen)

    _write(dataset, candidates, found, out, progress)
    counts = (found >= 0).sum(axis=1)
    return NegativesReport(
        len(dataset), int(counts.sum()), int((counts < k).sum()), str(out), str(work), sizes, excluded
    )


class Positives:
    """Which targets translate a source anywhere in the data: keys of both sides, sorted by source."""

    def __init__(self, sources: np.ndarray, targets: np.ndarray):
        order = np.lexsort((targets, sources))
        self.own, self.sources = targets, sources
        self.sorted_sources, self.targets = sources[order], targets[order]

    def of(self, row: int) -> np.ndarray:
        source = self.sources[row]
        start, stop = (np.searchsorted(self.sorted_sources, source, side) for side in ("left", "right"))
        return self.targets[start:stop]


def _same_language_keys(dataset: Any, progress: bool) -> np.ndarray:
    """Key of each source as if it were a target: a copy of the source is not a negative."""
    swapped = dataset.select_columns(["source", "target_lang"]).rename_columns({"source": "target"})
    return row_keys(swapped, "target", progress)


def _encode_sources(dataset, rows, encode, folder: Path, options) -> tuple[list[np.ndarray], np.ndarray]:
    """(embeddings, their rows): the sources of these rows, one source language after the other."""
    parts, order = [], []
    for lang, chosen in rows_by(dataset.select(rows), "source_lang").items():
        parts += encode_column(dataset, "source", rows[chosen], encode, lang, folder / lang, **options)
        order.append(rows[chosen])
    return parts, np.concatenate(order)


def _other_texts(near, pool_keys, rows, positives: Positives, sources, excluded) -> np.ndarray:
    """(rows, candidates): by its text no translation of the source. Counts what is, and why."""
    keys = pool_keys[np.maximum(near, 0)]
    there = near >= 0
    own = there & ((keys == positives.own[rows][:, None]) | (keys == sources[rows][:, None]))
    of_source = np.zeros_like(there)
    for i, row in enumerate(rows):
        others = positives.of(row)
        if len(others) > 1:
            of_source[i] = np.isin(keys[i], others)
    of_source &= there & ~own
    excluded["positive"] += int(own.sum())
    excluded["same_source"] += int(of_source.sum())
    return there & ~own & ~of_source


def _drop_close(keep, near, pool, targets: np.ndarray, k: int, max_cosine: float) -> int:
    """Take candidates out of `keep` that are closer to the row's target than `max_cosine`, until k are left."""
    targets, dropped = unit_rows(targets).numpy(), 0
    have = np.zeros(len(keep), int)
    for column in range(near.shape[1]):
        rows = np.flatnonzero(keep[:, column] & (have < k))
        if not len(rows):
            continue
        vectors = unit_rows(take_rows(pool, near[rows, column])).numpy()
        close = np.einsum("rd,rd->r", vectors, targets[rows]) > max_cosine
        keep[rows[close], column] = False
        have[rows[~close]] += 1
        dropped += int(close.sum())
    return dropped


def _write(dataset: Any, candidates: Any, found: np.ndarray, out: Path, progress: bool) -> None:
    def change(start: int, columns: dict) -> dict:
        chosen = found[start : start + len(columns["source"])]
        texts = iter(candidates[chosen[chosen >= 0]]["target"] if (chosen >= 0).any() else [])
        return columns | {"hard_negatives": [[next(texts) for _ in range(n)] for n in (chosen >= 0).sum(axis=1)]}

    quality = ["quality"] if "quality" in dataset.column_names else []
    write_rows(dataset, out, change, ["hard_negatives", *quality], progress)
