"""`groups` reaches the batches: rows of a group lie side by side."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("stage", ["contrastive", "hard_negatives", "decoder"])
def test_batches_of_neighbours(make_trainer, toy_data, stage):
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(toy_data) // 16), 16))
    assert len(groups) == len(toy_data)

    def neighbours(trainer):
        batches = list(trainer.get_train_dataloader().batch_sampler)
        assert sorted(i for batch in batches for i in batch) == list(range(len(toy_data)))
        return sum((groups[batch][1:] == groups[batch][:-1]).sum() for batch in map(np.array, batches))

    # A group's rows differ in length, so that a bucket holds a part of it; at random one in 28 has its like beside it.
    assert (
        neighbours(make_trainer(stage, extra={"groups": groups}))
        > 0.6 * len(groups)
        > 5 * neighbours(make_trainer(stage))
    )


def test_groups_of_other_data(make_trainer, toy_data):
    with pytest.raises(ValueError, match=f"groups has 3 values for {len(toy_data)} rows"):
        make_trainer("contrastive", extra={"groups": [1, 2, 3]}).get_train_dataloader()
