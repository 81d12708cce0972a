"""Next-embedding loss against NumPy, and over processes."""

import numpy as np
import pytest
import torch

from hf_echo.losses import next_embedding_loss


def by_hand(predicted, target, allowed, scale):
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (predicted, target)]
    scores = scale * unit[0] @ unit[1].T
    losses = []
    for i, row in enumerate(scores):
        pool = [row[j] for j in range(len(row)) if allowed[i, j] or j == i]
        losses.append(-np.log(np.exp(row[i]) / np.exp(pool).sum()))
    return np.mean(losses)


@pytest.mark.parametrize("negatives", ["both", "document", "batch"])
def test_equals_numpy(negatives):
    rng = np.random.default_rng(0)
    predicted, target = rng.normal(size=(2, 6, 4))
    document, key = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 1, 3, 4])  # sentences 2 and 4 are the same text
    same = document[:, None] == document[None]
    allowed = {"both": np.ones((6, 6), bool), "document": same, "batch": ~same}[negatives]
    allowed = allowed & (key[:, None] != key[None])
    options = dict(document=torch.tensor(document), key=torch.tensor(key), logit_scale=3.0, negatives=negatives)
    loss = next_embedding_loss(torch.tensor(predicted), torch.tensor(target), **options)
    assert loss.item() == pytest.approx(by_hand(predicted, target, allowed, 3.0))


def test_rows_of_two_processes_are_the_rows_of_one():
    torch.manual_seed(0)
    predicted, target, document = torch.randn(5, 4), torch.randn(5, 4), torch.tensor([0, 0, 1, 1, 1])
    whole = next_embedding_loss(predicted, target, document=document)
    parts = []
    for own in (slice(0, 2), slice(2, 5)):
        options = dict(document=document[own], all_target=target, all_document=document, offset=own.start)
        parts.append(next_embedding_loss(predicted[own], target[own], **options))
    torch.testing.assert_close((2 * parts[0] + 3 * parts[1]) / 5, whole)
