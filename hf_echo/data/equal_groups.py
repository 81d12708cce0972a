"""Batch sampler with one group per batch, every group equally often.

If a language has thousands of manuals and few news texts, proportional batches mostly teach manuals. Batches are a
function of (seed, epoch), so every rank and every restart gets the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

LEAST = 64  # rows; smaller groups are merged


class EqualGroupsSampler(Sampler[list[int]]):
    """Batches of row numbers for this rank. An epoch draws as many rows as exist, some never, some repeatedly.

    Args:
        groups: (rows,) or (rows, levels) integers; rows with equal integers in all levels form a group. Groups of fewer
            than `LEAST` rows, or of fewer rows than ranks, are merged, because they have too few negatives. If the
            merged group has fewer rows than ranks, it joins the smallest other group.
        rows: rows of a batch on one rank; of a smaller group, all its rows.
        rank, world_size: the part of each batch to return.

    Raises:
        ValueError: fewer rows than ranks.

    Example:
        >>> sampler = EqualGroupsSampler([0] * 900 + [1] * 100, rows=100)
        >>> sorted(batch[0] // 900 for batch in sampler)  # five batches of each
        [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """

    def __init__(
        self,
        groups: Sequence[int] | np.ndarray,
        rows: int,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(groups) < world_size:
            raise ValueError(f"{len(groups)} rows cannot give each of {world_size} ranks one; use fewer ranks")
        _, number = np.unique(np.asarray(groups).reshape(len(groups), -1), axis=0, return_inverse=True)
        number = number.ravel()
        sizes = np.bincount(number)
        joined = np.where(sizes < max(LEAST, world_size), -1, np.arange(len(sizes)))
        if 0 < sizes[joined == -1].sum() < world_size:  # a batch of these would leave a rank empty
            joined[np.where(joined == -1, len(groups), sizes).argmin()] = -1
        order = np.argsort(joined[number], kind="stable")
        _, counts = np.unique(joined[number], return_counts=True)
        self.groups = np.split(order, np.cumsum(counts)[:-1])
        self.rows, self.seed, self.rank, self.world_size, self.epoch = rows, seed, rank, world_size, 0
        self._batches = -(-len(groups) // (rows * world_size))

    def __len__(self) -> int:
        return self._batches

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        turns = [rng.permutation(len(self.groups)) for _ in range(-(-len(self) // len(self.groups)))]
        for group in np.concatenate(turns)[: len(self)]:
            rows = self.groups[group]
            batch = rng.choice(rows, min(self.rows * self.world_size, len(rows)), replace=False)
            yield np.array_split(batch, self.world_size)[self.rank].tolist()
