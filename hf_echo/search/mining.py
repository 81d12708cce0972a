"""Pairs of two collections of embeddings by margin score (Artetxe and Schwenk 2019; LASER's
mine_bitexts).

The margins are those of `margin`. Candidate pairs by `retrieval`:
    forward       each source with its best target
    backward      each target with its best source
    intersection  pairs that are both
    max           both together, best score first, each row at most once (LASER's default)
"Best" is the highest margin score among the k nearest neighbours by cosine. `best_threshold` and
`bucc_f1` compare pairs with a gold list, as the BUCC shared task does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.results import Result
from .blocks import BLOCK, Rows, check_index, neighbours_in_blocks, search_folder
from .checks import Embeddings
from .margin import best_by_margin, checked_margin

Retrieval = Literal["max", "forward", "backward", "intersection"]


class MinedPairs(NamedTuple):
    """`scores` (p,) float64, best first; `sources`, `targets` (p,) int64 rows of the two
    collections."""

    scores: np.ndarray
    sources: np.ndarray
    targets: np.ndarray

    def above(self, threshold: float) -> MinedPairs:
        """The pairs that score at least `threshold`."""
        return MinedPairs(*(part[self.scores >= threshold] for part in self))

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.sources.tolist(), self.targets.tolist(), strict=True))


def mine(  # noqa: PLR0913 (the options of `hf-echo mine`)
    x: Embeddings | Sequence[Embeddings],
    y: Embeddings | Sequence[Embeddings],
    *,
    k: int = 4,
    margin: str | None = "ratio",
    retrieval: Retrieval = "max",
    threshold: float | None = None,
    index: str | None = None,
    block: int = BLOCK,
    work: str | Path | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
    progress: bool = False,
) -> MinedPairs:
    """Pairs (row of x, row of y) that look like translations, best first.

    Zero rows, which have no direction, are left out; a line of the log counts them.

    Args:
        x, y: (n, d) and (m, d) embeddings of any scale; arrays (also memory-mapped), tensors, or
            lists of arrays that follow one another (shards). Only `block` rows of a side are read
            at a time.
        k: neighbours each way, for the margin and as candidates; fewer if there are fewer rows.
        margin, retrieval: "ratio", "distance" or "cosine"; "max", "forward", "backward" or
            "intersection".
        threshold: pairs below it are dropped; `best_threshold` finds one.
        index: None searches exactly, block by block; a faiss index_factory string ("SQ8",
            "IVF1024,Flat", "IVF4096,PQ64;nprobe=32" ...) searches that index, which is built in
            memory as a whole.
        work: a folder for the index and for the neighbours of finished blocks, where a stopped
            search resumes. Other embeddings, k, block or index are another search; another margin,
            retrieval or threshold is not.
        executor: `LocalExecutor` (default) or `RayExecutor`; both give the same pairs. Ray needs
            `work`, and memory-mapped arrays in files that every node sees.

    Raises:
        ValueError: unknown margin, an index that faiss refuses, different d, no rows, NaN rows
            (with the row).
    """
    check_index(index)
    margin = checked_margin(margin)
    executor = executor or LocalExecutor(progress)
    x_rows = Rows(x, "x").with_direction()
    y_rows = Rows(y, "y").with_direction()
    if x_rows.width != y_rows.width:
        raise ValueError(
            f"x has {x_rows.width} dimensions and y {y_rows.width}: they must come from one model"
        )
    k = min(k, len(x_rows), len(y_rows))
    folder = None
    if work is not None:
        # absolute, because workers run in other folders
        folder = search_folder(Path(work).absolute(), x_rows, y_rows, k=k, block=block, index=index)

    # the neighbours both ways, the best of each row by margin, then the candidates
    search = partial(
        neighbours_in_blocks, k=k, index=index, block=block, folder=folder, executor=executor
    )
    forward = search(x_rows, y_rows)
    backward = search(y_rows, x_rows)
    best_targets = best_by_margin(forward, backward, margin)
    best_sources = best_by_margin(backward, forward, margin)
    pairs = _best_first(_candidates(best_targets, best_sources, retrieval))
    pairs = MinedPairs(pairs.scores, x_rows.numbers(pairs.sources), y_rows.numbers(pairs.targets))
    if retrieval == "max":
        pairs = _each_row_once(pairs)
    return pairs if threshold is None else pairs.above(threshold)


def _candidates(
    best_targets: tuple[np.ndarray, np.ndarray],
    best_sources: tuple[np.ndarray, np.ndarray],
    retrieval: Retrieval,
) -> MinedPairs:
    """Candidate pairs of (score, row of the other side) of each source, and of each target."""
    # Pairs seen from the sources, and from the targets.
    forward_scores, targets = best_targets
    backward_scores, sources = best_sources
    forward = MinedPairs(forward_scores, np.arange(len(targets)), targets)
    backward = MinedPairs(backward_scores, sources, np.arange(len(sources)))
    if retrieval == "forward":
        return forward
    if retrieval == "backward":
        return backward
    if retrieval == "max":
        return MinedPairs(
            *(np.concatenate(columns) for columns in zip(forward, backward, strict=True))
        )
    is_mutual = (targets >= 0) & (sources[targets] == forward.sources)
    return MinedPairs(*(column[is_mutual] for column in forward))


def _best_first(pairs: MinedPairs) -> MinedPairs:
    """By score, then by rows; without those that an approximate index did not find."""
    order = np.lexsort([pairs.targets, pairs.sources, -pairs.scores])
    order = order[np.isfinite(pairs.scores[order])]
    return MinedPairs(*(column[order] for column in pairs))


def _each_row_once(pairs: MinedPairs) -> MinedPairs:
    """The pairs of which neither row is in a pair before."""
    # A bit for each row: sets of millions of numbers would be slow.
    source_is_used = bytearray(int(pairs.sources.max(initial=-1)) + 1)
    target_is_used = bytearray(int(pairs.targets.max(initial=-1)) + 1)
    kept = []
    for number, (source, target) in enumerate(pairs.pairs()):
        if not source_is_used[source] and not target_is_used[target]:
            source_is_used[source] = True
            target_is_used[target] = True
            kept.append(number)
    return MinedPairs(*(column[kept] for column in pairs))


Pair = tuple[Hashable, Hashable]  # names of a source and of a target


@dataclass(frozen=True)
class PairScore(Result):
    """`precision`, `recall` and `f1` in percent; `found` pairs, `right` of them, of `gold`;
    `threshold` if any."""

    f1: float
    precision: float
    recall: float
    found: int
    right: int
    gold: int
    threshold: float | None = None


def bucc_f1(pairs: Iterable[Pair], gold: Iterable[Pair]) -> PairScore:
    """F1 of a set of pairs as in BUCC: a pair is right if it is in gold.
    Raises ValueError if gold is empty."""
    mined_pairs = set(pairs)
    gold_pairs = _gold_set(gold)
    return _pair_score(len(mined_pairs), len(mined_pairs & gold_pairs), len(gold_pairs))


def best_threshold(mined: MinedPairs, gold: Iterable[tuple[int, int]]) -> PairScore:
    """The threshold with the highest F1 on a development set: the mean of two neighbouring scores.

    Of equal F1 the higher threshold is taken. `mined` must be without a threshold of its own;
    `MinedPairs.above` applies the one found. Raises ValueError if no pair was mined.
    """
    gold_pairs = _gold_set(gold)
    scores = mined.scores
    if not len(scores):
        raise ValueError("no mined pairs to choose a threshold from")
    # F1 of the first 1, 2, 3 ... pairs; a cut cannot part equal scores
    right = np.cumsum([pair in gold_pairs for pair in mined.pairs()])
    kept = np.arange(1, len(scores) + 1)
    is_cut = np.append(scores[1:] < scores[:-1], True)
    f1 = np.where(is_cut, 2 * right / (kept + len(gold_pairs)), -1.0)
    last = int(f1.argmax())
    threshold = scores[last]
    if last + 1 < len(scores):
        threshold = (scores[last] + scores[last + 1]) / 2
    return _pair_score(last + 1, int(right[last]), len(gold_pairs), float(threshold))


def _gold_set(gold: Iterable[Pair]) -> set[Pair]:
    pairs = {tuple(pair) for pair in gold}
    if not pairs:
        raise ValueError("gold is empty: without right pairs there is no F1")
    return pairs


def _pair_score(mined: int, right: int, gold: int, threshold: float | None = None) -> PairScore:
    """F1, precision and recall in percent."""
    return PairScore(
        f1=200 * right / (mined + gold),
        precision=100 * right / mined if mined else 0.0,
        recall=100 * right / gold,
        found=mined,
        right=right,
        gold=gold,
        threshold=threshold,
    )
