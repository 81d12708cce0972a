"""Batch sampler with a token budget (OS 5): rows of similar length share a batch, so that padding
costs little.

The lengths alone decide which rows share a bucket and how many batches a bucket gives; an epoch
only redistributes the rows. Every epoch therefore has the same number of batches, which the Trainer
needs for resuming. An epoch's batches are a function of (seed, epoch), so every rank and every
restart gets the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch.utils.data import Sampler

logger = logging.getLogger(__name__)

FEW = 4  # a bucket of fewer batches is merged with the next if that costs little


class TokenBudgetBatchSampler(Sampler[list[int]]):
    """Batches of row numbers for this rank; over all ranks, every row occurs once per epoch.

    A global batch is split almost evenly over the ranks, at least one row each. On each rank the
    padded tokens stay within ``max_tokens``: rows times the longest length rounded up, summed over
    the sides. Two exceptions: a row longer than the budget is a batch by itself (one warning gives
    their number), and if the number of rows longer than half the budget is not a multiple of the
    ranks, some ranks exceed the budget by one row, because no rank may be empty.

    Args:
        lengths: tokens of each row, (rows,) or (rows, sides); each side is padded separately, and a
            row counts with all sides.
        max_tokens: padded tokens of a batch on one rank.
        max_rows: rows of a batch on one rank; None for no limit.
        seed, shuffle: without shuffle, batches are ordered from short to long, the same in every
            epoch.
        bucket_multiple: lengths are rounded up to a multiple of this (as the collator pads).
        rank, world_size: the part of each global batch to return.
        groups: (rows,) integers; rows of a group, such as a language, are placed next to each
            other. Within a bucket the groups come in random order.

    Raises:
        ValueError: fewer rows than ranks.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        max_tokens: int,
        *,
        max_rows: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        bucket_multiple: int = 8,
        rank: int = 0,
        world_size: int = 1,
        groups: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        # (rows, sides): one side where a row has one length
        lengths = np.asarray(lengths, dtype=np.int64)
        if lengths.ndim == 1:
            lengths = lengths[:, None]
        if len(lengths) < world_size:
            raise ValueError(
                f"{len(lengths)} rows cannot give each of {world_size} ranks one; use fewer ranks"
            )
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.groups = None if groups is None else np.unique(groups, return_inverse=True)[1]

        # lengths as the collator pads them, rounded up
        padded = -(-np.maximum(lengths, 1) // bucket_multiple) * bucket_multiple
        self._buckets = _plan(padded, _Budget(max_tokens, max_rows or len(padded), world_size))
        long = int((padded.sum(axis=1) > max_tokens).sum())
        if long:
            message = "%s rows are longer than max_tokens=%s: each is a batch by itself"
            logger.warning(message, long, max_tokens)

    def __len__(self) -> int:
        return sum(batches for _, batches in self._buckets)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        places = self.groups
        if places is not None and self.shuffle:  # this epoch's order of groups
            places = rng.permutation(places.max() + 1)[places]
        # Each epoch distributes the rows of a bucket over its batches again; their number stays the
        # same.
        batches: list[np.ndarray] = []
        for rows, count in self._buckets:
            batches += np.array_split(self._deal(rows, places, rng), count)
        # Every rank draws the same order, and takes its own part of each batch.
        order = rng.permutation(len(batches)) if self.shuffle else range(len(batches))
        for number in order:
            yield self._of_this_rank(batches[number]).tolist()

    def _of_this_rank(self, batch: np.ndarray) -> np.ndarray:
        """Almost equal parts; the first ranks have one row more
        (`np.array_split` is too slow for each batch)."""
        share, larger_parts = divmod(len(batch), self.world_size)
        start = self.rank * share + min(self.rank, larger_parts)
        stop = start + share + (self.rank < larger_parts)
        return batch[start:stop]

    def _deal(
        self, rows: np.ndarray, places: np.ndarray | None, rng: np.random.Generator
    ) -> np.ndarray:
        """The rows of a bucket in this epoch's order, those of a group side by side."""
        if self.shuffle:
            rows = rng.permutation(rows)
        if places is None:
            return rows
        return rows[np.argsort(places[rows], kind="stable")]


class _Budget(NamedTuple):
    """What a batch may hold."""

    max_tokens: int
    max_rows: int
    ranks: int

    def batches(self, rows: int, longest: np.ndarray) -> int:
        """Global batches that `rows` rows need, padded to the `longest` of each side."""
        fit = max(1, min(self.max_tokens // int(longest.sum()), self.max_rows))
        return -(-rows // (fit * self.ranks))


def _plan(padded: np.ndarray, budget: _Budget) -> list[tuple[np.ndarray, int]]:
    """Buckets (row numbers, number of global batches) from short to long; ``padded``:
    (rows, sides).

    No rank may be empty. From long to short, a bucket that lacks rows for its last batch takes the
    longest rows of the next shorter bucket (all of them if too few would remain).
    """
    ranks = budget.ranks
    left = _merged(padded, budget)
    planned = []
    while left:
        bucket, longest = left.pop()
        lacking = budget.batches(len(bucket), longest) * ranks - len(bucket)
        while left and lacking > 0:
            others, shorter = left.pop()
            stay = len(others) - lacking
            if stay < ranks:
                stay = 0
            bucket = np.concatenate([others[stay:], bucket])
            longest = np.maximum(longest, shorter)
            if stay:
                left.append((others[:stay], shorter))
            lacking = budget.batches(len(bucket), longest) * ranks - len(bucket)
        batches = min(budget.batches(len(bucket), longest), len(bucket) // ranks)
        planned.append((bucket, max(1, batches)))
    return planned[::-1]


def _merged(padded: np.ndarray, budget: _Budget) -> list[tuple[np.ndarray, np.ndarray]]:
    """Buckets (row numbers, longest of each side) from short to long.

    Rows of equal padded lengths form a bucket. Neighbouring buckets are merged if the saved batches
    are worth the extra padding. A bucket of few batches counts as one batch saved, because its rows
    would meet the same rows in every epoch.
    """
    # Rows of one shape (padded lengths of all sides) stand together. Numbers of one or two bytes
    # are sorted fastest.
    columns = padded.astype(np.min_scalar_type(int(padded.max()))).T
    sorted_rows = np.lexsort(columns[::-1])
    sorted_shapes = padded[sorted_rows]
    is_another = (sorted_shapes[1:] != sorted_shapes[:-1]).any(axis=1)
    starts = np.concatenate([[0], np.flatnonzero(is_another) + 1])
    shapes = sorted_shapes[starts]
    rows_of = np.split(sorted_rows, starts[1:])

    # From short to long, a shape joins the bucket before it or begins a new one:
    # (parts, rows, longest of each side).
    buckets: list[tuple[list[np.ndarray], int, np.ndarray]] = []
    for shape in _neighbours(shapes):
        parts = [rows_of[shape]]
        rows = len(rows_of[shape])
        longest = shapes[shape]
        if buckets:
            parts_before, rows_before, shorter = buckets[-1]
            rows_of_both = rows_before + rows
            both = np.maximum(longest, shorter)
            batches_before = budget.batches(rows_before, shorter)
            saved = batches_before + budget.batches(rows, longest)
            saved -= budget.batches(rows_of_both, both)
            if batches_before < FEW:
                saved += 1
            padding = rows_of_both * both.sum() - rows_before * shorter.sum() - rows * longest.sum()
            is_worth_it = saved > 0 and padding <= saved * budget.max_tokens * budget.ranks / 2
            if rows_before < budget.ranks or is_worth_it:
                buckets[-1] = (parts_before + parts, rows_of_both, both)
                continue
        buckets.append((parts, rows, longest))
    return [(np.concatenate(parts), longest) for parts, _, longest in buckets]


def _neighbours(shapes: np.ndarray) -> np.ndarray:
    """Order the shapes so that neighbours are similar: by the longest side, then alternately by the
    other sides.

    Of five orders tried on lengths like those of translations, this one had the least padding.
    """
    # Every second length turns round, so that the end of one meets the start of the next.
    _, nth = np.unique(shapes.max(axis=1), return_inverse=True)
    lean = shapes[:, 0] - shapes[:, -1]
    return np.lexsort((np.where(nth % 2, -lean, lean), nth))
