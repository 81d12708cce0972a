"""Pairs of two collections of embeddings by margin score (Artetxe and Schwenk 2019; LASER's mine_bitexts).

The margins are those of `margin`. Candidate pairs by `retrieval`:
    forward       each source with its best target
    backward      each target with its best source
    intersection  pairs that are both
    max           both together, best score first, each row at most once (LASER's default)
"Best" is the highest margin score among the k nearest neighbours by cosine. `best_threshold` and `bucc_f1` compare
pairs with a gold list, as the BUCC shared task does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.results import Result
from .blocks import BLOCK, Rows, check_index, neighbours_in_blocks, search_folder
from .checks import check_counts
from .margin import best_by_margin, checked_margin

RETRIEVALS = ("max", "forward", "backward", "intersection")


class MinedPairs(NamedTuple):
    """`scores` (p,) float64, best first; `sources`, `targets` (p,) int64 rows of the two collections."""

    scores: np.ndarray
    sources: np.ndarray
    targets: np.ndarray

    def above(self, threshold: float) -> MinedPairs:
        """The pairs that score at least `threshold`."""
        return MinedPairs(*(part[self.scores >= threshold] for part in self))

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.sources.tolist(), self.targets.tolist(), strict=True))


def mine(
    x: Any,
    y: Any,
    *,
    k: int = 4,
    margin: str | None = "ratio",
    retrieval: str = "max",
    threshold: float | None = None,
    index: str | None = None,
    block: int = BLOCK,
    work: str | Path | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
    progress: bool = False,
) -> MinedPairs:
    """Pairs (row of x, row of y) that look like translations, best first.

    Args:
        x, y: (n, d) and (m, d) embeddings of any scale; arrays (also memory-mapped), tensors, or lists of arrays that
            follow one another (shards). Only `block` rows of a side are read at a time.
        k: neighbours each way, for the margin and as candidates; fewer if there are fewer rows.
        margin, retrieval: "ratio", "distance" or "cosine"; "max", "forward", "backward" or "intersection".
        threshold: pairs below it are dropped; `best_threshold` finds one.
        index: None searches exactly, block by block; a faiss index_factory string ("SQ8", "IVF1024,Flat",
            "IVF4096,PQ64;nprobe=32" ...) searches that index, which is built in memory as a whole.
        work: a folder for the index and for the neighbours of finished blocks, where a stopped search resumes. Other
            embeddings, k, block or index are another search; another margin, retrieval or threshold is not.
        executor: `LocalExecutor` (default) or `RayExecutor`; both give the same pairs. Ray needs `work`, and
            memory-mapped arrays in files that every node sees.

    Raises:
        ValueError: unknown margin or retrieval, k < 1, different d, empty, NaN or zero rows (with the row).
    """
    check_options(k=k, margin=margin, retrieval=retrieval, block=block, threshold=threshold, index=index)
    margin = checked_margin(margin)
    x, y = Rows(x, "x"), Rows(y, "y")
    if x.width != y.width:
        raise ValueError(f"x has {x.width} dimensions and y {y.width}: they must come from one model")
    k = min(k, len(x), len(y))
    executor = executor or LocalExecutor(progress)
    if work is None and not executor.local:
        raise ValueError("work is None: a search on a cluster needs a folder that every node sees")
    work = work if work is None else Path(work).absolute()  # workers run in other folders
    options = {"index": index, "block": block, "folder": search_folder(work, x, y, k=k, block=block, index=index)}
    forward = neighbours_in_blocks(x, y, k, executor=executor, **options)
    backward = neighbours_in_blocks(y, x, k, executor=executor, **options)
    pairs = _retrieve(best_by_margin(forward, backward, margin), best_by_margin(backward, forward, margin), retrieval)
    return pairs if threshold is None else pairs.above(threshold)


def check_options(
    *,
    k: int = 4,
    margin: str | None = "ratio",
    retrieval: str = "max",
    block: int = BLOCK,
    index: str | None = None,
    threshold: float | None = None,
    **others: Any,
) -> None:
    """Raise ValueError for a wrong option of `mine`, before there are embeddings."""
    checked_margin(margin)
    if retrieval not in RETRIEVALS:
        raise ValueError(f"retrieval is {retrieval!r}; it must be one of {', '.join(RETRIEVALS)}")
    check_counts(k=k, block=block)
    if threshold is not None and not (isinstance(threshold, Real) and not math.isnan(threshold)):
        raise ValueError(f"threshold is {threshold!r}; give a number, or none")
    if index is not None:
        check_index(index)


def _retrieve(there: tuple, back: tuple, retrieval: str) -> MinedPairs:
    (score, target), (score_back, source) = there, back
    own, own_back = np.arange(len(score)), np.arange(len(score_back))
    if retrieval == "forward":
        scores, sources, targets = score, own, target
    elif retrieval == "backward":
        scores, sources, targets = score_back, source, own_back
    elif retrieval == "intersection":
        both = (target >= 0) & (source[target] == own)
        scores, sources, targets = score[both], own[both], target[both]
    else:
        scores = np.concatenate([score, score_back])
        sources, targets = np.concatenate([own, source]), np.concatenate([target, own_back])
    order = np.lexsort([targets, sources, -scores])
    order = order[np.isfinite(scores[order])]
    if retrieval == "max":
        order = _each_once(order, sources, targets, len(own), len(own_back))
    return MinedPairs(scores[order], sources[order], targets[order])


def _each_once(order: np.ndarray, sources: np.ndarray, targets: np.ndarray, n: int, m: int) -> np.ndarray:
    taken, taken_back, kept = bytearray(n), bytearray(m), []
    for at, i, j in zip(order.tolist(), sources[order].tolist(), targets[order].tolist(), strict=True):
        if not taken[i] and not taken_back[j]:
            taken[i] = taken_back[j] = 1
            kept.append(at)
    return np.array(kept, dtype=np.int64)


Pair = tuple[Hashable, Hashable]  # names of a source and of a target


@dataclass(frozen=True)
class PairScore(Result):
    """`precision`, `recall` and `f1` in percent; `found` pairs, `right` of them, of `gold`; `threshold` if any."""

    f1: float
    precision: float
    recall: float
    found: int
    right: int
    gold: int
    threshold: float | None = None


def bucc_f1(found: Iterable[Pair], gold: Iterable[Pair]) -> PairScore:
    """F1 of a set of pairs as in BUCC: a pair is right if it is in gold. Raises ValueError if gold is empty."""
    found, gold = set(found), _gold(gold)
    return _score(len(found), len(found & gold), len(gold))


def best_threshold(mined: MinedPairs, gold: Iterable[tuple[int, int]]) -> PairScore:
    """The threshold with the highest F1 on a development set: the mean of two neighbouring scores.

    Of equal F1 the higher threshold is taken. `mined` must be without a threshold of its own; `MinedPairs.above`
    applies the one found. Raises ValueError if no pair was mined.
    """
    gold = _gold(gold)
    if not len(mined.scores):
        raise ValueError("no mined pairs to choose a threshold from")
    right = np.cumsum([pair in gold for pair in mined.pairs()])
    kept = np.arange(1, len(right) + 1)
    last = np.append(mined.scores[1:] < mined.scores[:-1], True)  # a cut cannot part equal scores
    f1 = np.where(last, 2 * right / (kept + len(gold)), -1.0)
    at = int(f1.argmax())
    after = mined.scores[at + 1] if at + 1 < len(right) else mined.scores[at]
    threshold = float((mined.scores[at] + after) / 2)
    return _score(at + 1, int(right[at]), len(gold), threshold)


def _gold(gold: Iterable[Pair]) -> set[Pair]:
    gold = {tuple(pair) for pair in gold}
    if not gold:
        raise ValueError("gold is empty: without right pairs there is no F1")
    return gold


def _score(found: int, right: int, gold: int, threshold: float | None = None) -> PairScore:
    precision = 100 * right / found if found else 0.0
    return PairScore(200 * right / (found + gold), precision, 100 * right / gold, found, right, gold, threshold)
