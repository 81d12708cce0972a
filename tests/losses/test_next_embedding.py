"""Next-embedding loss against NumPy, and over processes."""

import numpy as np
import pytest
import torch

from hf_echo.losses import next_embedding_loss

from .test_contrastive import cos

DOCUMENTS = np.array([0, 0, 0, 1, 1, 2])
KEYS = np.array([0, 1, 2, 1, 3, 4])  # sentences 2 and 4 are the same text


def by_hand(predicted: np.ndarray, target: np.ndarray, negatives: str) -> float:
    """Section 9.1 with scale 3: the other sentences of the document, those of other documents,
    or both."""
    losses = []
    for i, prediction in enumerate(predicted):
        positive = np.exp(3 * cos(prediction, target[i]))
        everything = positive
        for j, sentence in enumerate(target):
            same_document = DOCUMENTS[i] == DOCUMENTS[j]
            allowed = {"both": True, "document": same_document, "batch": not same_document}
            if allowed[negatives] and KEYS[i] != KEYS[j]:
                everything += np.exp(3 * cos(prediction, sentence))
        losses.append(-np.log(positive / everything))
    return np.mean(losses)


@pytest.mark.parametrize("negatives", ["both", "document", "batch"])
def test_equals_numpy(negatives):
    rng = np.random.default_rng(0)
    predicted = rng.normal(size=(6, 4))
    target = rng.normal(size=(6, 4))

    loss = next_embedding_loss(
        torch.tensor(predicted),
        torch.tensor(target),
        document=torch.tensor(DOCUMENTS),
        key=torch.tensor(KEYS),
        logit_scale=3.0,
        negatives=negatives,
    )

    # The loss as a loop over the sentences.
    assert loss.item() == pytest.approx(by_hand(predicted, target, negatives))


def test_rows_of_two_processes_are_the_rows_of_one():
    generator = torch.Generator().manual_seed(0)
    predicted = torch.randn(5, 4, generator=generator)
    target = torch.randn(5, 4, generator=generator)
    document = torch.tensor([0, 0, 1, 1, 1])
    whole = next_embedding_loss(predicted, target, document=document)

    everything = dict(all_target=target, all_document=document)
    first = next_embedding_loss(predicted[:2], target[:2], document=document[:2], **everything)
    second = next_embedding_loss(
        predicted[2:], target[2:], document=document[2:], offset=2, **everything
    )

    # A mean over five rows: two on one process and three on the other.
    torch.testing.assert_close((2 * first + 3 * second) / 5, whole)
