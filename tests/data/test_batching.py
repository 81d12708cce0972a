"""Batch sampler, for any lengths: every row once, within the budget, constant number of batches, ranks agree."""

from itertools import chain

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import TokenBudgetBatchSampler

from ..refusals import refusals, refuses


def padded(lengths, batch, multiple):
    """Tokens of a batch when each side is padded to its longest row, rounded up; by the definition."""
    rows = np.asarray(lengths).reshape(len(lengths), -1)[batch]
    return len(batch) * sum(
        -(-max(side, 1) // multiple) * multiple for side in rows.max(axis=0).tolist()
    )


one_side = st.lists(st.integers(0, 150), min_size=1, max_size=120)
two_sides = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=120)


@settings(deadline=None, max_examples=300)
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
        made = TokenBudgetBatchSampler(lengths, max_tokens, rank=rank, world_size=ranks, **options)
        made.set_epoch(epoch)
        return made

    if len(lengths) < ranks:
        refuses("rows cannot give each of", sampler, 0)
        return
    for epoch in (0, 1):
        dealt = [list(sampler(rank, epoch)) for rank in range(ranks)]
        assert {len(batches) for batches in dealt} == {
            len(sampler(0))
        }  # ranks alike, epochs alike, as announced
        assert sorted(chain.from_iterable(chain.from_iterable(dealt))) == list(range(len(lengths)))
        assert shuffle or dealt == [list(sampler(rank)) for rank in range(ranks)]
        assert dealt == [list(sampler(rank, epoch)) for rank in range(ranks)]
        for step in zip(*dealt, strict=True):
            sizes = [len(batch) for batch in step]
            assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1
            for batch in step:
                # With several ranks one row more than fits is allowed where a rank would go empty otherwise.
                spare = 1 if ranks > 1 and max(sizes) <= 2 else 0
                assert max_rows is None or len(batch) <= max_rows + spare
                fits = padded(lengths, batch, multiple) <= max_tokens
                assert fits or len(batch) == 1 or (spare and len(batch) == 2)


def corpus(n=5000):
    rng = np.random.default_rng(0)
    source = np.exp(rng.normal(3.2, 0.7, n)).clip(3, 250)
    return np.stack(
        [source, (source * np.exp(rng.normal(0, 0.25, n))).clip(3, 250)], axis=1
    ).astype(int)


def test_little_padding_and_full_batches():
    lengths = corpus()
    batches = list(TokenBudgetBatchSampler(lengths, 2000))
    real = lengths.sum()
    paid = sum(padded(lengths, batch, 8) for batch in batches)
    rows = np.random.default_rng(0).permutation(len(lengths))
    random = sum(padded(lengths, batch, 8) for batch in np.array_split(rows, len(batches)))
    assert paid < 1.2 * real < 0.5 * random  # 1.16
    assert len(batches) < 1.33 * real / 2000  # 1.27 to 1.30 with six seeds
    longest = [
        -(-lengths[b, 0].max() // 8)
        for b in TokenBudgetBatchSampler(lengths[:, 0], 2000, shuffle=False)
    ]
    assert longest == sorted(longest)  # without shuffle from short to long


def test_an_epoch_is_dealt_anew_and_follows_from_seed_and_epoch_alone():
    lengths = corpus()
    sampler = TokenBudgetBatchSampler(lengths, 2000, seed=3)
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    sampler.set_epoch(0)
    assert list(sampler) == first != second
    assert list(TokenBudgetBatchSampler(lengths, 2000, seed=4)) != first
    together = {frozenset(batch) for batch in first}
    assert sum(frozenset(batch) in together for batch in second) < 0.01 * len(
        second
    )  # other company
    jumped = TokenBudgetBatchSampler(lengths, 2000, seed=3)
    jumped.set_epoch(1)  # as after a restart: no epoch before it was drawn
    assert list(jumped) == second


def test_rows_longer_than_the_budget_stand_alone_and_are_counted(caplog):
    lengths = [5] * 20 + [100, 200, 30]
    batches = list(TokenBudgetBatchSampler(lengths, 40))
    assert [20] in batches and [21] in batches
    assert caplog.messages == ["2 rows are longer than max_tokens=40: each is a batch by itself"]
    assert list(TokenBudgetBatchSampler([[20, 24], [8, 8]], 40, shuffle=False)) == [[1], [0]]
    assert caplog.messages[1:] == [
        "1 rows are longer than max_tokens=40: each is a batch by itself"
    ]
    # One long row does not make its neighbours pay.
    lengths = [8] * 1000 + [
        64
    ]  # on 4 ranks the long row needs company: 3 short ones, not the whole bucket
    ranks = [
        list(TokenBudgetBatchSampler(lengths, 64, rank=rank, world_size=4)) for rank in range(4)
    ]
    step = next(s for s in zip(*ranks, strict=True) if any(1000 in batch for batch in s))
    assert sorted(map(len, step)) == [1, 1, 1, 1] and len(ranks[0]) == 1 + -(-997 // 32)


def test_rows_of_a_group_stand_side_by_side():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(250), 4))
    lengths = np.full(1000, 10)

    def neighbours(sampler):
        return sum(
            (groups[batch][1:] == groups[batch][:-1]).sum() for batch in map(np.array, sampler)
        )

    grouped = TokenBudgetBatchSampler(lengths, 16 * 40, groups=groups.tolist())
    assert neighbours(grouped) >= 3 * 250 - 2 * len(
        grouped
    )  # all but those that a batch's end cuts apart
    assert neighbours(TokenBudgetBatchSampler(lengths, 16 * 40)) < 30
    first = list(grouped)
    grouped.set_epoch(1)
    company = [
        {tuple(sorted({groups[i] for i in batch})) for batch in epoch} for epoch in (first, grouped)
    ]
    assert not company[0] & company[1]  # in each epoch a batch holds other groups


test_impossible_arguments = refusals(
    ([], {}, "0 rows cannot give each of 1 ranks one"),
    ([3, -1], {}, "lengths must be integers >= 0"),
    ([3], {"max_tokens": 0}, "max_tokens=0 must be at least 1"),
    ([3], {"rank": 1}, "rank=1 is not in 0..0"),
    ([3], {"groups": [1, 2]}, "groups has 2 values for 1 rows"),
    call=lambda lengths, options: TokenBudgetBatchSampler(
        lengths, **({"max_tokens": 10} | options)
    ),
)
