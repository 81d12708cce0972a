"""Embeddings of earlier batches: which are kept, in which order, and that no gradient reaches them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hf_echo.losses import CrossBatchMemory, contrastive_loss


def test_the_last_rows_of_all_that_came():
    """Whatever the batches' sizes: the new rows, then the last `size` of the stream before them."""
    rng = np.random.default_rng(0)
    for size in (1, 3, 7, 100):
        memory, stream = CrossBatchMemory(size), np.zeros((0, 2), np.float32)
        for n in (2, 5, 1, 9, 4):
            new = rng.normal(size=(n, 2)).astype(np.float32)
            keys = torch.from_numpy(new[:, 0] * 100).long()
            joined = memory.join(target=torch.from_numpy(new), keys=keys)
            want = np.concatenate([new, stream[-size:]])
            np.testing.assert_array_equal(joined["target"].numpy(), want)
            assert joined["keys"].tolist() == torch.from_numpy(want[:, 0] * 100).long().tolist()
            stream = np.concatenate([stream, new])


def test_gradient_is_that_of_the_batch_alone():
    torch.manual_seed(0)
    memory, old = CrossBatchMemory(8), torch.randn(5, 4, requires_grad=True)
    memory.join(target=old)
    source, target = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
    loss = contrastive_loss(source, memory.join(target=target)["target"], logit_scale=5.0)
    loss.backward()
    assert old.grad is None and not memory.rows["target"].requires_grad
    again = target.detach().clone().requires_grad_()
    want = contrastive_loss(source, torch.cat([again, old.detach()]), logit_scale=5.0)
    want.backward()
    assert loss.item() == want.item() and torch.equal(target.grad, again.grad)
    assert loss > contrastive_loss(source, target, logit_scale=5.0)


def test_a_memory_of_nothing():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        CrossBatchMemory(0)
