"""Clusters of similar texts by their words alone:
a batch from one cluster has hard negatives, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

RARE = 1e-3  # a of Arora et al. 2017: a token of this frequency counts half as much as one that occurs once
BLOCK = 10_000


def text_clusters(
    texts: Sequence[str], tokenizer: Any, token_vectors: Tensor, number: int
) -> np.ndarray:
    """(texts,) the cluster of each text, from 0 to number - 1.

    k-means over weighted means of token vectors (smooth inverse frequency,
    https://openreview.net/forum?id=SyK00v5xx). No layer is run: half a million sentences take less
    than a minute. Equal texts share a cluster.

    Args:
        token_vectors: (vocabulary, d), the input embeddings of a model with this tokenizer.
    """
    from sklearn.cluster import MiniBatchKMeans

    # The tokens of all texts in one row, and where each text begins.
    ids: list[list[int]] = []
    for start in range(0, len(texts), BLOCK):
        block = list(texts[start : start + BLOCK])
        ids += tokenizer(block, add_special_tokens=False)["input_ids"]
    tokens = torch.tensor(list(chain.from_iterable(ids)), dtype=torch.long)
    starts = torch.tensor([0, *map(len, ids[:-1])]).cumsum(0)
    share = torch.bincount(tokens, minlength=len(token_vectors)) / len(tokens)
    weights = RARE / (RARE + share[tokens])
    vectors = token_vectors.detach().float()
    sums = torch.nn.functional.embedding_bag(
        tokens, vectors, starts, mode="sum", per_sample_weights=weights
    )
    means = MiniBatchKMeans(number, batch_size=8192, n_init=1, max_iter=30, random_state=0)
    # The length of a sum does not matter: its direction is that of the mean.
    directions = torch.nn.functional.normalize(sums, dim=1)
    centred = torch.nn.functional.normalize(directions - directions.mean(0), dim=1)
    return means.fit_predict(centred.numpy())
