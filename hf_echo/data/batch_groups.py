"""Group rows for the batch sampler, so that rows of one batch are hard negatives for each other.

If each language has its own domain (one the Bible, another manuals), a model can tell the targets of a mixed batch
apart by domain alone. Batches of one language, or of similar sentences, prevent that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

POINTS = 100  # texts per cluster that k-means is trained on


def language_groups(source_lang: Sequence[str], target_lang: Sequence[str]) -> np.ndarray:
    """Number each row by its language pair: (rows,) integers."""
    pairs = [f"{source} {target}" for source, target in zip(source_lang, target_lang, strict=True)]
    return np.unique(pairs, return_inverse=True)[1]


def neighbour_groups(targets: Any, clusters: int, seed: int = 0) -> np.ndarray:
    """Number each row by its cluster in spherical k-means over frozen embeddings of the targets: (rows,) integers.

    Args:
        targets: the result of `frozen_embeddings(..., normalize=True, sides=("target",))`.
        clusters: number of clusters. Smaller clusters hold closer neighbours, but also more false negatives.

    Raises:
        ValueError: fewer distinct targets than clusters.
    """
    import faiss  # imported here because it takes 0.1 s

    _, first, rows = np.unique(targets.index, return_index=True, return_inverse=True)
    vectors = np.ascontiguousarray(targets[first])
    if not 1 <= clusters <= len(vectors):
        raise ValueError(
            f"neighbour_groups={clusters} must be from 1 to {len(vectors)}, the number of distinct targets"
        )
    kmeans = faiss.Kmeans(
        vectors.shape[1],
        clusters,
        niter=6,
        seed=seed,
        spherical=True,
        max_points_per_centroid=POINTS,
        min_points_per_centroid=1,
    )
    kmeans.train(vectors)
    return kmeans.index.search(vectors, 1)[1][:, 0][rows]
