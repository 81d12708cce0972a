"""Mined hard negatives for code and mathematics (OS A.4, ECHO A.2): the top 5 of a pool of 200k targets.

For each row of a parallel dataset, the targets of the pool nearest to its source, in the language of its own target.
Left out are the row's target, every other target of the same source, texts with the same normal form as one of these
or as the source, and texts whose cosine with the row's target shows that they mean the same.

`sentence_transformers.util.mine_hard_negatives` is no substitute: it adds every target of the data to the pool, knows
equal texts only by their spelling and has one prompt for all texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..search.checks import check_counts
from ..search.neighbours import unit_neighbours
from ..utils.results import Result
from .pool import Columns, Encode, first_of_each, parts_of, row_keys, rows_by, sampled, write_rows

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
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    progress: bool = True,
) -> NegativesReport:
    """Write the rows with a new column `hard_negatives`, best first, as Parquet; an old one is replaced.

    Args:
        dataset: a `datasets.Dataset` in the parallel schema (`load_parallel`).
        encode: (texts, lang) -> (len(texts), d): an Echo checkpoint's `any_encoder`, or anybody's.
        pool: another such dataset, whose targets are the candidates; None: those of the dataset.
        k: negatives per row; a row has fewer if exclusions leave fewer of the best k + 27.
        max_cosine: a candidate whose cosine with the row's target is above it counts as the same text.
        pool_size: candidates of each target language, drawn by `seed`, in memory; None is all.
        work: folder of embeddings (default: OUT.work); a stopped run resumes from it.

    Raises:
        ValueError: k or pool_size below 1, no pool for a language, broken embeddings (with the row).
    """
    check_counts(k=k)
    out = Path(out)
    work = Path(work) if work else out.with_name(out.name + ".work")
    columns, candidates = Columns(encode, work, model), dataset if pool is None else pool
    source_keys, target_keys = (row_keys(dataset, side, progress) for side in ("source", "target"))
    pool_keys = target_keys if pool is None else row_keys(pool, "target", progress)
    swapped = dataset.select_columns(["source", "target_lang"]).rename_columns({"source": "target"})
    copies = row_keys(swapped, "target", progress)  # a copy of the source is not a negative
    by_source = np.argsort(source_keys, kind="stable")
    in_order = source_keys[by_source]
    in_pool = rows_by(candidates, "target_lang")
    found = np.full((len(dataset), k), -1, np.int64)
    sizes, excluded = {}, {"positive": 0, "same_source": 0, "cosine": 0}

    for lang, rows in rows_by(dataset, "target_lang").items():
        if lang not in in_pool:
            raise ValueError(f"the pool has no text in {lang}, the language of {len(rows)} targets")
        chosen = sampled(first_of_each(pool_keys, in_pool[lang]), pool_size, seed)
        keys, vectors = pool_keys[chosen], columns.vectors(candidates, "target", chosen)
        sizes[lang] = len(chosen)
        for part in parts_of(rows, f"Mining {lang}", progress):
            sources, targets = (columns.vectors(dataset, side, part) for side in ("source", "target"))
            near = unit_neighbours(sources, vectors, min(k + SPARE, len(chosen))).indices
            for row, best, target in zip(part, near, targets, strict=True):
                own = (keys[best] == target_keys[row]) | (keys[best] == copies[row])
                start, stop = (np.searchsorted(in_order, source_keys[row], side) for side in ("left", "right"))
                same = ~own & np.isin(keys[best], target_keys[by_source[start:stop]])
                close = ~own & ~same & (vectors[best] @ target > max_cosine)
                for reason, left_out in (("positive", own), ("same_source", same), ("cosine", close)):
                    excluded[reason] += int(left_out.sum())
                kept = chosen[best[~(own | same | close)][:k]]
                found[row, : len(kept)] = kept

    def change(start: int, block: dict) -> dict:
        chosen = found[start : start + len(block["source"])]
        texts = iter(candidates[chosen[chosen >= 0]]["target"] if (chosen >= 0).any() else [])
        return block | {"hard_negatives": [[next(texts) for _ in range(n)] for n in (chosen >= 0).sum(axis=1)]}

    write_rows(dataset, out, change, ["hard_negatives", *({"quality"} & set(dataset.column_names))], progress)
    counts = (found >= 0).sum(axis=1)
    return NegativesReport(
        len(dataset), int(counts.sum()), int((counts < k).sum()), str(out), str(work), sizes, excluded
    )
