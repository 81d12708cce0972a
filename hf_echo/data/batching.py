"""Batches by token budget (OS 5): rows of like length together, so that padding costs little.

Which lengths share a bucket, and how many batches a bucket gives, follows from the lengths alone; an epoch
only deals the rows anew. So every epoch has the same number of batches, and the Trainer's arithmetic for
resuming holds; an epoch's batches follow from (seed, epoch), so any rank, and any restart, finds the same
ones. This module knows neither texts nor tensors: lengths in, row numbers out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

logger = logging.getLogger(__name__)

FEW = 4  # a bucket of fewer batches is joined with the next where that costs little


class TokenBudgetBatchSampler(Sampler[list[int]]):
    """Lists of row numbers for this rank, every row once an epoch over all ranks.

    A global batch is dealt near-evenly over the ranks, at least one row each; on each rank the padded tokens,
    which are rows times (summed over the sides) the longest length rounded up, stay within ``max_tokens``.
    Two exceptions: a row longer than the budget is a batch of its own (one warning with the count), and where
    rows longer than half the budget do not go evenly into the ranks, some ranks take one row more than fits,
    as none may go empty.

    Args:
        lengths: tokens of each row, (rows,) or (rows, sides): each side is padded on its own, a row pays for
            all sides.
        max_tokens: padded tokens of a batch on one rank.
        max_rows: rows of a batch on one rank; None for no limit.
        seed, shuffle: without shuffle the batches go from short to long, the same in every epoch.
        bucket_multiple: lengths are rounded up to a multiple of this (as the collator pads).
        rank, world_size: which part of each global batch to give.
        groups: an integer a row, or (rows, levels) integers, the coarsest level first; rows of a group are put side
            by side (near neighbours as negatives): a bucket's rows are dealt in a random order of groups, and
            within a group in one of its parts.

    Raises:
        ValueError: no rows, fewer rows than ranks, or an impossible argument.
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
        lengths = np.asarray(lengths, dtype=np.int64)
        lengths = lengths[:, None] if lengths.ndim == 1 else lengths
        if lengths.ndim != 2 or lengths.shape[1] == 0 or (lengths < 0).any():
            raise ValueError(f"lengths must be numbers >= 0 of shape (rows,) or (rows, sides), not {lengths.shape}")
        for name, value in (
            ("max_tokens", max_tokens),
            ("bucket_multiple", bucket_multiple),
            ("max_rows", max_rows),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank={rank} is not in 0..{world_size - 1} (world_size={world_size})")
        if len(lengths) < world_size:
            raise ValueError(f"{len(lengths)} rows cannot give each of {world_size} ranks one; use fewer ranks")
        if groups is not None and len(groups) != len(lengths):
            raise ValueError(f"groups has {len(groups)} values for {len(lengths)} rows")
        self.seed, self.shuffle, self.rank, self.world_size, self.epoch = seed, shuffle, rank, world_size, 0
        levels = [] if groups is None else np.asarray(groups).reshape(len(lengths), -1).T
        self.groups = [np.unique(level, return_inverse=True)[1] for level in levels]

        padded = -(-np.maximum(lengths, 1) // bucket_multiple) * bucket_multiple
        self._buckets = _plan(padded, max_tokens, max_rows or len(padded), world_size)
        if long := int((padded.sum(axis=1) > max_tokens).sum()):
            logger.warning(f"{long} rows are longer than max_tokens={max_tokens}: each is a batch of its own")

    def __len__(self) -> int:
        return sum(batches for _, batches in self._buckets)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        places = [self._places(level, rng) for level in self.groups]
        batches = [batch for rows, n in self._buckets for batch in np.array_split(self._deal(rows, places, rng), n)]
        for i in rng.permutation(len(batches)) if self.shuffle else range(len(batches)):
            yield np.array_split(batches[i], self.world_size)[self.rank].tolist()

    def _places(self, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Of each row, the place of its group in this epoch's order of groups."""
        return rng.permutation(groups.max() + 1)[groups] if self.shuffle else groups

    def _deal(self, rows: np.ndarray, places: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        rows = rng.permutation(rows) if self.shuffle else rows
        for place in places[::-1]:  # stable sorts, the finest level first
            rows = rows[np.argsort(place[rows], kind="stable")]
        return rows


def _plan(padded: np.ndarray, max_tokens: int, max_rows: int, ranks: int) -> list[tuple[np.ndarray, int]]:
    """Buckets (row numbers, number of global batches) from short to long; ``padded``: (rows, sides).

    Rows of one shape make a bucket. Neighbours are then joined where the batches that this saves are worth
    the padding, and a bucket of few batches counts as one to save: it would meet the same company in every
    epoch.
    """

    def fit(longest: np.ndarray) -> int:  # rows in the batch of one rank
        return max(1, min(max_tokens // int(longest.sum()), max_rows))

    def need(rows: int, longest: np.ndarray) -> int:  # global batches
        return -(-rows // (fit(longest) * ranks))

    shapes, shape_of, counts = np.unique(padded, axis=0, return_inverse=True, return_counts=True)
    rows_of = np.split(np.argsort(shape_of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    buckets: list[tuple[list[np.ndarray], int, np.ndarray]] = []  # row numbers, their count, longest of each side
    for i in _neighbours(shapes):
        parts, n, longest = [rows_of[i]], int(counts[i]), shapes[i]
        if buckets:
            before, m, shorter = buckets[-1]
            both = np.maximum(longest, shorter)
            saved = need(m, shorter) + need(n, longest) - need(m + n, both) + (need(m, shorter) < FEW)
            padding = (m + n) * both.sum() - m * shorter.sum() - n * longest.sum()
            if m < ranks or (saved > 0 and padding <= saved * max_tokens * ranks / 2):
                buckets[-1] = (before + parts, m + n, both)
                continue
        buckets.append((parts, n, longest))

    # No rank may go empty: from long to short, a bucket that lacks rows for its last batch borrows the
    # longest of the next shorter one (all of them, if too few would stay).
    left = [(np.concatenate(parts), longest) for parts, _, longest in buckets]
    planned = []
    while left:
        rows, longest = left.pop()
        while left and (lacking := need(len(rows), longest) * ranks - len(rows)) > 0:
            others, shorter = left.pop()
            stay = len(others) - lacking if len(others) - lacking >= ranks else 0
            rows, longest = np.concatenate([others[stay:], rows]), np.maximum(longest, shorter)
            if stay:
                left.append((others[:stay], shorter))
        planned.append((rows, max(1, min(need(len(rows), longest), len(rows) // ranks))))
    return planned[::-1]


def _neighbours(shapes: np.ndarray) -> np.ndarray:
    """An order of the shapes in which neighbours are alike: by the longest side, then to and fro between the
    sides. Of five orders tried on lengths like those of translations this one padded least."""
    _, nth = np.unique(shapes.max(axis=1), return_inverse=True)
    lean = shapes[:, 0] - shapes[:, -1]
    return np.lexsort((np.where(nth % 2, -lean, lean), nth))
