"""Which rows share a batch, so that its negatives are hard: numbers a row, for the batch sampler.

Where a language has a domain of its own (here the Bible, there manuals), the targets of a mixed batch are told apart by
their domain alone. In a batch of one language that does not help.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

POINTS = 100  # texts a cluster that k-means looks at


def language_groups(source_lang: Sequence[str], target_lang: Sequence[str]) -> np.ndarray:
    """(rows,) number of each row's pair of languages."""
    pairs = [f"{source} {target}" for source, target in zip(source_lang, target_lang, strict=True)]
    return np.unique(pairs, return_inverse=True)[1]


def neighbour_groups(targets: Sequence[np.ndarray], clusters: int, seed: int = 0) -> np.ndarray:
    """(rows,) number of each row's cluster, by spherical k-means over what a frozen encoder says of the targets.

    Args:
        targets: of `frozen_embeddings(..., normalize=True, sides=("target",))`.
        clusters: how many; fewer rows a cluster are nearer neighbours, and more often mean the same.

    Raises:
        ValueError: fewer distinct targets than clusters.
        ImportError: faiss is not there.
    """
    try:
        import faiss  # 0.1 s, and only here
    except ImportError as error:
        raise ImportError("neighbour_groups needs faiss: pip install 'hf-echo[faiss]'") from error
    used, rows = np.unique(targets.index, return_inverse=True)
    vectors = np.ascontiguousarray(targets.matrix[used], dtype=np.float32)
    if not 1 <= clusters <= len(vectors):
        raise ValueError(f"neighbour_groups={clusters}: there are {len(vectors)} distinct targets")
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
