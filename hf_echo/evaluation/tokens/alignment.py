"""Word alignment from token states: argmax, itermax, the alignment error rate by layer (OS 10.1, Figure 10).

Contract: similarity matrices or token states in, links (i, j) between words out; a link counts from 0. Sure links
are always possible links too.

Sources: Jalili Sabet et al. 2020 (SimAlign) for argmax and itermax, Och and Ney 2000 for the error rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..results import Result, Table
from .alignment_data import AlignedPair, Links, read_alignment
from .token_states import TokenStates, layer_numbers, owners, token_states

METHODS = ("argmax", "itermax")


def token_similarity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(..., m, n) cosines of (..., m, d) and (..., n, d), moved to 0..1 as in SimAlign; a zero row gets 0.5.

    Itermax scales similarities down, which only means "less alike" where none is negative.
    """
    x, y = (v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12) for v in (x, y))
    return (1 + x @ np.swapaxes(y, -1, -2)) / 2


def argmax_links(similarity: np.ndarray) -> np.ndarray:
    """(m, n) bool: i and j are each other's best; of equals the first is the best."""
    m, n = similarity.shape
    forward, backward = similarity.argmax(1), similarity.argmax(0)
    links = np.zeros((m, n), bool)
    links[np.arange(m), forward] = True
    links &= np.arange(m)[:, None] == backward[None, :]
    return links


def itermax_links(similarity: np.ndarray, *, iterations: int = 2, alpha: float = 0.9) -> np.ndarray:
    """(m, n) bool: argmax again and again, so that a token may have more than one link (SimAlign, 2 and 0.9 there).

    After each round a pair of which one token is linked counts `alpha` of its similarity, a pair of which both are
    linked nothing, and its links are added. As in SimAlign's program (the paper does not say so) it ends when no new
    link is found or one side is linked throughout, and sides of one or two tokens get argmax alone.
    """
    links = argmax_links(similarity)
    if min(links.shape) <= 2:
        return links
    for _ in range(iterations - 1):
        row, column = links.any(1), links.any(0)
        if row.all() or column.all():
            break
        both, one = row[:, None] & column, row[:, None] ^ column
        new = argmax_links(similarity * np.where(both, 0.0, np.where(one, alpha, 1.0))) & ~both
        if not new.any():
            break
        links = links | new
    return links


def word_links(links: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> Links:
    """Words are linked where any of their tokens are (OS 10.1). `source_words` (m,), `target_words` (n,): the word
    of each token, -1 for none."""
    i, j = links.nonzero()
    pairs = zip(source_words[i].tolist(), target_words[j].tolist())
    return {pair for pair in pairs if min(pair) >= 0}


@dataclass(frozen=True)
class AlignmentScores(Result):
    """Over all sentences: `aer` = 1 - (|A and S| + |A and P|) / (|A| + |S|), `precision` = |A and P| / |A| (None
    where nothing was predicted), `recall` = |A and S| / |S|, `f1` their harmonic mean."""

    aer: float
    precision: float | None
    recall: float
    f1: float
    sentences: int


@dataclass
class AlignmentCounts:
    """Sums over sentences, from which the scores follow."""

    predicted: int = 0
    sure: int = 0
    in_sure: int = 0
    in_possible: int = 0
    sentences: int = 0

    def add(self, predicted: Links, sure: Links, possible: Links) -> None:
        self.predicted += len(predicted)
        self.sure += len(sure)
        self.in_sure += len(predicted & sure)
        self.in_possible += len(predicted & (possible | sure))
        self.sentences += 1

    def scores(self, where: str = "the reference") -> AlignmentScores:
        if not self.sure:
            raise ValueError(f"{where} has no sure links in {self.sentences} sentences: nothing to measure")
        precision = self.in_possible / self.predicted if self.predicted else None
        recall = self.in_sure / self.sure
        f1 = 2 * precision * recall / (precision + recall) if precision and recall else 0.0
        aer = 1 - (self.in_sure + self.in_possible) / (self.predicted + self.sure)
        return AlignmentScores(aer, precision, recall, f1, self.sentences)


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> AlignmentScores:
    """Of one set of links a sentence each; no `possible` means that only the sure links are.

    Raises:
        ValueError: different numbers of sentences, no sure links.
    """
    possible = [set() for _ in sure] if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise ValueError(
            f"{len(predicted)} predicted, {len(sure)} sure and {len(possible)} possible: a set a sentence each"
        )
    counts = AlignmentCounts()
    for links in zip(predicted, sure, possible):
        counts.add(*links)
    return counts.scores()


def evaluate_alignment(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Mapping[str, Any] | AlignedPair],
    *,
    layers: Sequence[int] | None = None,
    methods: Sequence[str] = METHODS,
    iterations: int = 2,
    on_long: str = "error",
    max_tokens: int | None = None,
    progress: bool = False,
) -> Table:
    """Alignment error rate by language pair, method and layer (0 is the embeddings).

    Args:
        rows: of `load_alignment`, or dicts as `read_alignment` takes them, which errors call row 1 and so on.
        layers, on_long, max_tokens: as in `token_states`; a pair of which either side is skipped is left out, and
            the table's notes say how many were.

    Returns:
        Table with pair, method, layer, aer, precision, recall, f1, sentences; `aer_by_layer` makes it wide.

    Raises:
        ValueError: no rows, a bad row, no sure links in a language pair, an unknown method.
    """
    unknown = set(methods) - set(METHODS)
    if unknown or not methods:
        raise ValueError(f"methods must be of {', '.join(METHODS)}, not {', '.join(unknown) or 'none'}")
    pairs = [
        row if isinstance(row, AlignedPair) else read_alignment(row, f"row {number}")
        for number, row in enumerate(rows, 1)
    ]
    if not pairs:
        raise ValueError("no rows to align")
    numbers = layer_numbers(model, layers)
    sides = []
    for side, texts, langs in (
        ("src_tokens", [p.source for p in pairs], [p.source_lang for p in pairs]),
        ("tgt_tokens", [p.target for p in pairs], [p.target_lang for p in pairs]),
    ):
        names = [f"{p.where}, {side}" for p in pairs]
        options = {"layers": numbers, "on_long": on_long, "max_tokens": max_tokens, "names": names}
        sides.append(token_states(model, tokenizer, texts, langs, **options, progress=progress and not sides))
    counts: dict[tuple[str, str, int], AlignmentCounts] = {}
    skipped = 0
    for pair, x, y in zip(pairs, *sides, strict=True):
        if x is None or y is None:
            skipped += 1
            continue
        for key, links in _predictions(pair, x, y, methods, numbers, iterations):
            counts.setdefault(key, AlignmentCounts()).add(links, pair.sure, pair.possible)
    if not counts:
        raise ValueError(f"all {skipped} pairs are longer than the model's {tokenizer.model_max_length}")
    table = [
        {"pair": pair, "method": method, "layer": layer} | found.scores(f"language pair {pair}").to_row()
        for (pair, method, layer), found in sorted(counts.items())
    ]
    return Table(table, notes={"skipped_too_long": skipped, "iterations": iterations})


def _predictions(pair: AlignedPair, x: TokenStates, y: TokenStates, methods, layers, iterations: int):
    i, j = owners(x.offsets, pair.source_words), owners(y.offsets, pair.target_words)
    # A token of no word (a space) would take part in argmax and could only lead a link astray.
    similarity = token_similarity(x.states[:, i >= 0], y.states[:, j >= 0])
    i, j = i[i >= 0], j[j >= 0]
    for layer, matrix in zip(layers, similarity):
        for method in methods:
            if not matrix.size:  # no token of a side is a word's: nothing can be linked
                yield (pair.name, method, layer), set()
                continue
            found = argmax_links(matrix) if method == "argmax" else itermax_links(matrix, iterations=iterations)
            yield (pair.name, method, layer), word_links(found, i, j)


def aer_by_layer(table: Table, method: str = "itermax") -> Table:
    """A row a layer: the mean over language pairs (OS Figure 10), then each pair's error rate."""
    rows: dict[int, dict[str, Any]] = {}
    for row in table.rows:
        if row["method"] == method:
            rows.setdefault(row["layer"], {})[row["pair"]] = row["aer"]
    if not rows:
        raise ValueError(f"the table has no rows of {method}")
    wide = [
        {"layer": layer, "mean": float(np.mean(list(pairs.values()))), **pairs} for layer, pairs in sorted(rows.items())
    ]
    return Table(wide, notes={**table.notes, "method": method})
