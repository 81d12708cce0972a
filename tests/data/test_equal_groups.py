"""Batch sampler with one group per batch, every group equally often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hf_echo.data.equal_groups import LEAST, EqualGroupsSampler

GROUPS = np.repeat([5, 2, 9], [1000, 200, 70])


def test_every_group_as_often():
    sampler = EqualGroupsSampler(GROUPS, 100, seed=3)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 13
    assert all(len({*GROUPS[batch]}) == 1 and len({*batch}) == len(batch) for batch in batches)
    counts = Counter(GROUPS[batch[0]] for batch in batches)
    assert sorted(counts) == [2, 5, 9] and max(counts.values()) - min(counts.values()) <= 1
    assert {len(b) for b in batches if GROUPS[b[0]] == 9} == {70}  # all that there are
    assert {len(b) for b in batches if GROUPS[b[0]] == 5} == {100}


def test_levels_make_groups_together():
    levels = np.stack([np.repeat([0, 1], 400), np.tile(np.repeat([0, 1], 200), 2)], axis=1)
    found = {(*levels[batch[0]],) for batch in EqualGroupsSampler(levels, 100)}
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert all(len({(*row,) for row in levels[b]}) == 1 for b in EqualGroupsSampler(levels, 100))


def test_small_groups_are_one():
    """Groups with few rows have too few negatives, so they are merged."""
    groups = np.r_[np.zeros(500, int), np.arange(1, LEAST + 5)]
    kinds = [{int(g > 0) for g in groups[batch]} for batch in EqualGroupsSampler(groups, 50)]
    assert {0} in kinds and {1} in kinds and {0, 1} not in kinds


def test_it_follows_from_seed_and_epoch():
    first, same, other = (EqualGroupsSampler(GROUPS, 60, seed=seed) for seed in (1, 1, 2))
    assert list(first) == list(same) == list(first) != list(other)
    same.set_epoch(1)
    assert list(first) != list(same)
    first.set_epoch(1)
    assert list(first) == list(same)


def test_ranks_share_a_batch():
    whole = list(EqualGroupsSampler(GROUPS, 100))
    halves = [list(EqualGroupsSampler(GROUPS, 50, rank=r, world_size=2)) for r in (0, 1)]
    assert len(halves[0]) == len(halves[1]) == len(whole)
    assert [a + b for a, b in zip(*halves, strict=True)] == whole
    with pytest.raises(ValueError, match="1 rows cannot give each of 2 ranks one; use fewer ranks"):
        EqualGroupsSampler([0], 5, world_size=2)


@pytest.mark.parametrize("world_size", [4, 100])
def test_small_groups_with_fewer_rows_than_ranks(world_size):
    """No rank gets an empty batch: with three rows for four ranks, and with groups smaller than the number of ranks."""
    sizes = [300, 3, 2 * LEAST, LEAST] if world_size == 100 else [300, 2, 1, 2 * LEAST]
    groups = np.repeat(np.arange(4), sizes)
    ranks = [list(EqualGroupsSampler(groups, 2, rank=r, world_size=world_size)) for r in range(world_size)]
    assert min(len(batch) for batches in ranks for batch in batches) >= 1
    seen = {groups[row] for batches in ranks for batch in batches for row in batch}
    assert 0 in seen and len(seen) > 1
    for batches in zip(*ranks, strict=True):  # the largest group stays alone
        assert len({groups[row] == 0 for batch in batches for row in batch}) == 1
