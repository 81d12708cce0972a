"""Batch sampler, for any lengths: every row once, within the budget, constant number of batches,
ranks agree."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import TokenBudgetBatchSampler

from ..refusals import refuses


def padded(lengths, batch, multiple):
    """Tokens of a batch when each side is padded to its longest row, rounded up;
    by the definition."""
    rows = np.asarray(lengths).reshape(len(lengths), -1)[batch]
    return len(batch) * sum(
        -(-max(side, 1) // multiple) * multiple for side in rows.max(axis=0).tolist()
    )


one_side = st.lists(st.integers(0, 150), min_size=1, max_size=120)
two_sides = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=120)


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.one_of(one_side, two_sides),
    max_tokens=st.integers(1, 600),
    max_rows=st.sampled_from([None, 1, 2, 7]),
    multiple=st.sampled_from([1, 8]),
    ranks=st.integers(1, 5),
    seed=st.integers(0, 2**31),
    grouped=st.booleans(),
    shuffle=st.booleans(),
)
def test_promises(lengths, max_tokens, max_rows, multiple, ranks, seed, grouped, shuffle):
    groups = [i % 7 for i in range(len(lengths))] if grouped else None
    options = dict(
        max_rows=max_rows, seed=seed, bucket_multiple=multiple, groups=groups, shuffle=shuffle
    )

    def sampler(rank, epoch=0):
        batch_sampler = TokenBudgetBatchSampler(
            lengths, max_tokens, rank=rank, world_size=ranks, **options
        )
        batch_sampler.set_epoch(epoch)
        return batch_sampler

    if len(lengths) < ranks:
        refuses("rows cannot give each of", sampler, 0)
        return
    for epoch in (0, 1):
        dealt = [list(sampler(rank, epoch)) for rank in range(ranks)]
        # ranks alike, epochs alike, as announced
        assert {len(batches) for batches in dealt} == {len(sampler(0))}
        assert sorted(chain.from_iterable(chain.from_iterable(dealt))) == list(range(len(lengths)))
        assert shuffle or dealt == [list(sampler(rank)) for rank in range(ranks)]
        assert dealt == [list(sampler(rank, epoch)) for rank in range(ranks)]
        for step in zip(*dealt, strict=True):
            sizes = [len(batch) for batch in step]
            assert min(sizes) >= 1
            assert max(sizes) - min(sizes) <= 1
            for batch in step:
                # With several ranks one row more than fits is allowed where a rank would go empty
                # otherwise.
                spare = 1 if ranks > 1 and max(sizes) <= 2 else 0
                assert max_rows is None or len(batch) <= max_rows + spare
                fits = padded(lengths, batch, multiple) <= max_tokens
                assert fits or len(batch) == 1 or (spare and len(batch) == 2)


@pytest.fixture(scope="module")
def lengths() -> np.ndarray:
    """(5000, 2) tokens of sources and targets."""
    rng = np.random.default_rng(0)
    source = np.exp(rng.normal(3.2, 0.7, 5000)).clip(3, 250)
    target = (source * np.exp(rng.normal(0, 0.25, 5000))).clip(3, 250)
    return np.stack([source, target], axis=1).astype(int)


@pytest.fixture
def batches(lengths):
    return list(TokenBudgetBatchSampler(lengths, 2000))


def test_batches_hold_little_padding(lengths, batches):
    paid = sum(padded(lengths, batch, 8) for batch in batches)
    rows = np.random.default_rng(0).permutation(len(lengths))
    random = sum(padded(lengths, batch, 8) for batch in np.array_split(rows, len(batches)))
    assert paid < 1.2 * lengths.sum()  # 1.16
    assert 1.2 * lengths.sum() < 0.5 * random


def test_batches_are_full(lengths, batches):
    assert len(batches) < 1.33 * lengths.sum() / 2000  # 1.27 to 1.30 with six seeds


def test_without_shuffle_batches_go_from_short_to_long(lengths):
    sources = lengths[:, 0]
    sampler = TokenBudgetBatchSampler(sources, 2000, shuffle=False)
    buckets = [-(-sources[batch].max() // 8) for batch in sampler]
    assert buckets == sorted(buckets)


def epoch(lengths, number, seed=3):
    sampler = TokenBudgetBatchSampler(lengths, 2000, seed=seed)
    sampler.set_epoch(number)
    return list(sampler)


def test_an_epoch_is_dealt_anew(lengths):
    first = {frozenset(batch) for batch in epoch(lengths, 0)}
    second = {frozenset(batch) for batch in epoch(lengths, 1)}
    assert len(first & second) < 0.01 * len(second)


def test_an_epoch_follows_from_its_number_alone(lengths):
    """As after a restart: no epoch before it was drawn."""
    sampler = TokenBudgetBatchSampler(lengths, 2000, seed=3)
    dealt = []
    for number in (0, 1, 0):
        sampler.set_epoch(number)
        dealt.append(list(sampler))
    assert dealt == [epoch(lengths, 0), epoch(lengths, 1), epoch(lengths, 0)]


def test_another_seed_deals_otherwise(lengths):
    assert epoch(lengths, 0, seed=4) != epoch(lengths, 0)


LONG = "rows are longer than max_tokens=40: each is a batch by itself"


@pytest.mark.parametrize(
    ("lengths", "alone"), [([5] * 20 + [100, 200, 30], [20, 21]), ([[20, 24], [8, 8]], [0])]
)
def test_rows_longer_than_the_budget_stand_alone(lengths, alone, caplog):
    batches = list(TokenBudgetBatchSampler(lengths, 40, shuffle=False))
    assert all([row] in batches for row in alone)
    assert caplog.messages == [f"{len(alone)} {LONG}"]


def test_a_long_row_does_not_make_its_neighbours_pay():
    """On 4 ranks it needs company: three short ones, not the whole bucket."""
    lengths = [8] * 1000 + [64]
    ranks = [
        list(TokenBudgetBatchSampler(lengths, 64, rank=rank, world_size=4)) for rank in range(4)
    ]
    step = next(s for s in zip(*ranks, strict=True) if any(1000 in batch for batch in s))
    assert [len(batch) for batch in step] == [1, 1, 1, 1]
    assert len(ranks[0]) == 1 + -(-997 // 32)


GROUPS = np.random.default_rng(0).permutation(np.repeat(np.arange(250), 4))  # of 1000 rows


def sampler_of_groups(**options) -> TokenBudgetBatchSampler:
    """Of 1000 rows of ten tokens."""
    return TokenBudgetBatchSampler(np.full(1000, 10), 16 * 40, **options)


def test_rows_of_a_group_stand_side_by_side():
    def neighbours(sampler):
        batches = [GROUPS[batch] for batch in sampler]
        return sum((groups[1:] == groups[:-1]).sum() for groups in batches)

    grouped = sampler_of_groups(groups=GROUPS.tolist())

    # all but those that a batch's end cuts apart
    assert neighbours(grouped) >= 3 * 250 - 2 * len(grouped)
    assert neighbours(sampler_of_groups()) < 30


def test_a_batch_holds_other_groups_in_each_epoch():
    def company(sampler):
        return {tuple(np.unique(GROUPS[batch])) for batch in sampler}

    sampler = sampler_of_groups(groups=GROUPS.tolist())
    first = company(sampler)
    sampler.set_epoch(1)
    assert first.isdisjoint(company(sampler))


def test_fewer_rows_than_ranks_are_refused():
    refuses("0 rows cannot give each of 1 ranks one", TokenBudgetBatchSampler, [], 10)
