"""Word alignment from token states (argmax, itermax) and its error rate by layer (OS 10.1, Figure 10).

Links (i, j) between words count from 0; sure links are also possible links. Sources: Jalili Sabet et al. 2020
(SimAlign) for argmax and itermax, Och and Ney 2000 for the error rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...utils.results import Result, Table
from ...utils.vectors import unit_length
from ..labelled_rows import read_rows
from .token_states import TokenStates, join_words, layer_numbers, owners, token_states

METHODS = ("argmax", "itermax")
Links = set[tuple[int, int]]
COLUMNS = ("src_tokens", "tgt_tokens", "alignment")
OPTIONAL = ("possible", "src_lang", "tgt_lang", "split")


class AlignedPair(NamedTuple):
    """Two texts, the character span (words, 2) of each word, links between words; `where` names the pair in errors."""

    where: str
    source: str
    target: str
    source_lang: str | None
    target_lang: str | None
    source_words: np.ndarray
    target_words: np.ndarray
    sure: Links
    possible: Links

    @property
    def name(self) -> str:
        return f"{self.source_lang or '?'}-{self.target_lang or '?'}"


def read_alignment(row: Mapping[str, Any], where: str) -> AlignedPair:
    """Check a row: `src_tokens`, `tgt_tokens` (lists of words), `alignment`, optional `possible` ("0-0 1-2", from 0),
    `src_lang`, `tgt_lang`. Errors (ValueError) begin with `where` and name the languages."""
    missing = [name for name in COLUMNS if row.get(name) is None]
    if missing:
        raise ValueError(f"{where}: no {', '.join(missing)}; the columns are {', '.join(row)}")
    langs = row.get("src_lang"), row.get("tgt_lang")
    where = f"{where} ({langs[0] or '?'}-{langs[1] or '?'})"
    (source, m), (target, n) = (join_words(row[name], f"{where}, {name}") for name in ("src_tokens", "tgt_tokens"))
    sure, possible = (parse_links(row.get(name) or "", len(m), len(n), where) for name in ("alignment", "possible"))
    return AlignedPair(where, source, target, *langs, m, n, sure, possible)


def parse_links(text: str, m: int, n: int, where: str = "alignment") -> Links:
    """Parse "0-0 1-2" to a set of pairs; raises ValueError for links outside sentences of m and n words."""
    if not isinstance(text, str):
        raise ValueError(f"{where}: alignment {text!r} is not text such as '0-0 1-2'")
    links = set()
    for item in text.split():
        i, dash, j = item.partition("-")
        if not (dash and i.isdecimal() and j.isdecimal()):
            raise ValueError(f"{where}: {item!r} is not a link; write links as 0-0 1-2")
        if int(i) >= m or int(j) >= n:
            raise ValueError(f"{where}: link {item} lies outside sentences of {m} and {n} words (from 0)")
        links.add((int(i), int(j)))
    return links


def load_alignment(path: str | Path, *, split: str | None = None, limit: int | None = None) -> list[AlignedPair]:
    """Load a Parquet or JSONL file with the columns of `read_alignment`: of a split, and of each pair the first
    `limit`."""
    path = Path(path)
    pairs, taken = [], Counter()
    for line, row in read_rows(path, COLUMNS, OPTIONAL, tsv=False):
        if split is not None and "split" not in row:
            raise ValueError(f"{path} has no column split; leave split {split!r} out")
        langs = row.get("src_lang"), row.get("tgt_lang")
        if split not in (None, row.get("split")) or (limit is not None and taken[langs] >= limit):
            continue
        taken[langs] += 1
        pairs.append(read_alignment(row, f"{path}:{line}"))
    if not pairs:
        raise ValueError(f"{path} has no rows{'' if split is None else f' of split {split!r}'}")
    return pairs


def token_similarity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosines (..., m, n) of (..., m, d) and (..., n, d), scaled to 0..1 as in SimAlign; a zero row gets 0.5."""
    x, y = unit_length(x), unit_length(y)
    return (1 + x @ np.swapaxes(y, -1, -2)) / 2


def argmax_links(similarity: np.ndarray) -> np.ndarray:
    """(m, n) bool: i and j are each other's most similar token; the first of equals wins."""
    m, n = similarity.shape
    forward, backward = similarity.argmax(1), similarity.argmax(0)
    links = np.zeros((m, n), bool)
    links[np.arange(m), forward] = True
    links &= np.arange(m)[:, None] == backward[None, :]
    return links


def itermax_links(similarity: np.ndarray, *, iterations: int = 2, alpha: float = 0.9) -> np.ndarray:
    """(m, n) bool: repeated argmax, so that a token may have several links (SimAlign: 2 iterations, alpha 0.9).

    After each round the similarity of a pair with one linked token is multiplied by `alpha`, of a pair with two linked
    tokens by 0, and new argmax links are added. As in SimAlign's program (the paper does not say so), it stops when
    there is no new link or one side is fully linked, and sides of one or two tokens get argmax only.
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
    """Links of words of which any tokens are linked (OS 10.1); `*_words`: the word of each token, -1 for none."""
    i, j = links.nonzero()
    pairs = zip(source_words[i].tolist(), target_words[j].tolist())
    return {pair for pair in pairs if min(pair) >= 0}


@dataclass(frozen=True)
class AlignmentScores(Result):
    """Scores over all sentences, 0 to 1, of predicted links A, sure links S and possible links P.

    `aer` = 1 - (|A and S| + |A and P|) / (|A| + |S|), `precision` = |A and P| / |A| (None without predictions),
    `recall` = |A and S| / |S|, `f1` their harmonic mean (Och and Ney 2000).
    """

    aer: float
    precision: float | None
    recall: float
    f1: float
    sentences: int


def alignment_error_rate(
    predicted: Sequence[Links],
    sure: Sequence[Links],
    possible: Sequence[Links] | None = None,
    where: str = "the reference",
) -> AlignmentScores:
    """Alignment error rate of one set of links per sentence; without `possible` only the sure links are possible."""
    possible = [set() for _ in sure] if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise ValueError(f"{len(predicted)} predicted, {len(sure)} sure, {len(possible)} possible: give equal numbers")
    in_sure = sum(len(a & s) for a, s in zip(predicted, sure, strict=True))
    in_possible = sum(len(a & (s | p)) for a, s, p in zip(predicted, sure, possible, strict=True))
    made, wanted = sum(map(len, predicted)), sum(map(len, sure))
    if not wanted:
        raise ValueError(f"{where} has no sure links in {len(sure)} sentences: the error rate is not defined")
    precision, recall = in_possible / made if made else None, in_sure / wanted
    f1 = 2 * precision * recall / (precision + recall) if precision and recall else 0.0
    return AlignmentScores(1 - (in_sure + in_possible) / (made + wanted), precision, recall, f1, len(sure))


def evaluate_alignment(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Mapping[str, Any] | AlignedPair],
    *,
    layers: Sequence[int] | None = None,
    iterations: int = 2,
    on_long: str = "error",
    max_tokens: int | None = None,
    progress: bool = False,
) -> Table:
    """Alignment error rate by language pair, method and layer (0 is the embeddings), with any transformers encoder.

    Args:
        rows: from `load_alignment`, or dicts as for `read_alignment` (named row 1, row 2, ... in errors).
        iterations: of itermax.
        layers, on_long, max_tokens: as in `token_states`; the notes count pairs with a skipped side.

    Returns:
        Table with pair, method, layer, aer, precision, recall, f1, sentences; `aer_by_layer` makes it wide.
    """
    pairs = [
        row if isinstance(row, AlignedPair) else read_alignment(row, f"row {number}")
        for number, row in enumerate(rows, 1)
    ]
    if not pairs:
        raise ValueError("no rows: give at least one sentence pair")
    numbers = layer_numbers(model, layers)
    sides = []
    for side, texts, langs in (
        ("src_tokens", [p.source for p in pairs], [p.source_lang for p in pairs]),
        ("tgt_tokens", [p.target for p in pairs], [p.target_lang for p in pairs]),
    ):
        names = [f"{p.where}, {side}" for p in pairs]
        options = {"layers": numbers, "on_long": on_long, "max_tokens": max_tokens, "names": names}
        sides.append(token_states(model, tokenizer, texts, langs, **options, progress=progress and not sides))
    links: dict[tuple[str, str, int], list[tuple[Links, Links, Links]]] = {}
    skipped = 0
    for pair, x, y in zip(pairs, *sides, strict=True):
        if x is None or y is None:
            skipped += 1
            continue
        for key, predicted in _predictions(pair, x, y, numbers, iterations):
            links.setdefault(key, []).append((predicted, pair.sure, pair.possible))
    if not links:
        raise ValueError(f"all {skipped} pairs are longer than the model's {tokenizer.model_max_length} tokens")
    table = [
        {"pair": pair, "method": method, "layer": layer}
        | alignment_error_rate(*zip(*of_pair, strict=True), where=f"language pair {pair}").to_row()
        for (pair, method, layer), of_pair in sorted(links.items())
    ]
    return Table(table, notes={"skipped_too_long": skipped, "iterations": iterations})


def _predictions(pair: AlignedPair, x: TokenStates, y: TokenStates, layers, iterations: int):
    i, j = owners(x.offsets, pair.source_words), owners(y.offsets, pair.target_words)
    # Remove tokens of no word (spaces): in argmax they could only displace links between words.
    similarity = token_similarity(x.states[:, i >= 0], y.states[:, j >= 0])
    i, j = i[i >= 0], j[j >= 0]
    for layer, matrix in zip(layers, similarity):
        for method in METHODS:
            if not matrix.size:  # one side has no token of a word
                yield (pair.name, method, layer), set()
                continue
            links = argmax_links(matrix) if method == "argmax" else itermax_links(matrix, iterations=iterations)
            yield (pair.name, method, layer), word_links(links, i, j)


def aer_by_layer(table: Table, method: str = "itermax") -> Table:
    """One row per layer: the mean error rate over language pairs (OS Figure 10), then each pair's."""
    rows: dict[int, dict[str, Any]] = {}
    for row in table.rows:
        if row["method"] == method:
            rows.setdefault(row["layer"], {})[row["pair"]] = row["aer"]
    if not rows:
        raise ValueError(f"the table has no rows of method {method!r}")
    wide = [
        {"layer": layer, "mean": float(np.mean(list(pairs.values()))), **pairs} for layer, pairs in sorted(rows.items())
    ]
    return Table(wide, notes={**table.notes, "method": method})
