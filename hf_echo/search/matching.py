"""Match documents that translate each other by their sentences, when nothing else says which belong
together.

Candidates are the nearest documents by the mean of their sentences, seen from the mean of their
side, which takes away what is of the language or of the whole collection. A candidate's score is
BiMax: the mean over the sentences of each side of the best cosine on the other side, averaged over
the two sides. Then each document gets at most one partner, the best pairs first.

Source: BiMax, https://arxiv.org/abs/2510.15577 (there with segments; here with sentences).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .blocks import call_faiss, empty_index
from .neighbours import unit_neighbours

# number of a document -> (sentences, d) unit rows; no row for an empty one
Read = Callable[[int], np.ndarray]
CANDIDATES = 16


class Matches(NamedTuple):
    """Numbers of the documents of each side, and scores, all (pairs,); best first."""

    sources: np.ndarray
    targets: np.ndarray
    scores: np.ndarray


def match_documents(
    read_source: Read,
    sources: int,
    read_target: Read,
    targets: int,
    *,
    k: int = CANDIDATES,
    index: str | None = None,
) -> Matches:
    """Pair the documents of two sides, one to one.

    Only the means of all documents are in memory, (documents, d) float32 on each side; sentences
    are read when they are compared.

    Args:
        sources, targets: numbers of documents.
        k: candidates for each document, in both directions.
        index: faiss index factory string of the search for candidates; None is exact.

    Raises:
        ValueError: a side without sentences, or an index that faiss refuses.
    """
    source_means, source_kept = document_means(read_source, sources, "source")
    target_means, target_kept = document_means(read_target, targets, "target")
    candidates = _candidates(source_means, target_means, k, index)
    found_sources = source_kept[candidates[:, 0]]
    found_targets = target_kept[candidates[:, 1]]
    scores = np.empty(len(candidates), np.float32)
    read_before = -1
    sentences = np.empty((0, 0))
    for row, (source, target) in enumerate(zip(found_sources, found_targets, strict=True)):
        if source != read_before:  # candidates are sorted by source
            sentences = read_source(int(source))
            read_before = source
        scores[row] = bimax(sentences, read_target(int(target)))
    return one_to_one(found_sources, found_targets, scores)


def bimax(x: np.ndarray, y: np.ndarray) -> float:
    """BiMax of two documents, (n, d) and (m, d) unit rows: 1 for equal documents."""
    cosines = x @ y.T
    return float((cosines.max(axis=1).mean() + cosines.max(axis=0).mean()) / 2)


def one_to_one(sources: np.ndarray, targets: np.ndarray, scores: np.ndarray) -> Matches:
    """The best pairs in which no document is twice; equal scores in the order of the documents."""
    # Greedy: the best pair whose documents are both free.
    order = np.lexsort((targets, sources, -scores))
    taken_sources = set()
    taken_targets = set()
    kept = []
    for row in order.tolist():
        source = int(sources[row])
        target = int(targets[row])
        if source not in taken_sources and target not in taken_targets:
            taken_sources.add(source)
            taken_targets.add(target)
            kept.append(row)
    return Matches(sources[kept], targets[kept], scores[kept])


def document_means(read: Read, documents: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """((kept, d) float32 unit rows, (kept,) numbers):
    the mean of each document with sentences, without that of all."""
    # Documents without sentences have no mean, and no partner.
    means = []
    kept = []
    for number in range(documents):
        sentences = read(number)
        if len(sentences):
            means.append(sentences.mean(axis=0, dtype=np.float64).astype(np.float32))
            kept.append(number)
    if not kept:
        raise ValueError(f"the {name} side has no document with sentences")
    centred = np.array(means)
    if len(centred) > 1:
        centred -= centred.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return centred / np.maximum(lengths, 1e-12), np.array(kept)


def _candidates(x: np.ndarray, y: np.ndarray, k: int, index: str | None) -> np.ndarray:
    """(candidates, 2) rows of x and y that are near each other in either direction, sorted."""
    forward = _nearest(x, y, min(k, len(y)), index)
    backward = _nearest(y, x, min(k, len(x)), index)
    # (candidates, 2): a row of x beside each of its nearest of y, and the other way round
    rows_of_x = np.repeat(np.arange(len(x)), forward.shape[1])
    rows_of_y = np.repeat(np.arange(len(y)), backward.shape[1])
    from_x = np.column_stack([rows_of_x, forward.ravel()])
    from_y = np.column_stack([backward.ravel(), rows_of_y])
    both = np.concatenate([from_x, from_y])
    return np.unique(both[(both >= 0).all(axis=1)], axis=0)


def _nearest(x: np.ndarray, y: np.ndarray, k: int, index: str | None) -> np.ndarray:
    """(n, k) rows of y; -1 where the index finds none."""
    if index is None:
        return unit_neighbours(x, y, k).indices
    faiss_index = empty_index(y.shape[1], index)
    call_faiss(index, faiss_index.train, y)
    faiss_index.add(y)
    return faiss_index.search(x, k)[1]
