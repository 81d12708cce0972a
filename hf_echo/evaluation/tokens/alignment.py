"""Word alignment from token states (argmax, itermax) and its error rate by layer (OS 10.1, Figure
10).

Links (i, j) between words count from 0; sure links are also possible links. Sources: Jalili Sabet
et al. 2020 (SimAlign) for argmax and itermax, Och and Ney 2000 for the error rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ...utils.bars import hidden
from ...utils.results import Result, Table
from ...utils.vectors import unit_length
from ..labelled_rows import check_columns, read_rows
from .token_states import TokenStates, join_words, layer_numbers, owners, token_states

METHODS = ("argmax", "itermax")
ALPHA = 0.9  # of itermax
Links = set[tuple[int, int]]
COLUMNS = ("src_tokens", "tgt_tokens", "alignment")
OPTIONAL = ("possible", "src_lang", "tgt_lang", "split")


class AlignedPair(NamedTuple):
    """Two texts, the character span (words, 2) of each word, links between words; `where` names the
    pair in errors."""

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
    """Check a row: `src_tokens`, `tgt_tokens` (lists of words), `alignment`, optional `possible`
    ("0-0 1-2", from 0), `src_lang`, `tgt_lang`. Errors (ValueError) begin with `where` and name the
    languages."""
    check_columns(row, COLUMNS, where)
    source_lang = row.get("src_lang")
    target_lang = row.get("tgt_lang")
    where = f"{where} ({source_lang or '?'}-{target_lang or '?'})"
    # The sentence as text, and the place of each word in it.
    source, source_words = join_words(row["src_tokens"], f"{where}, src_tokens")
    target, target_words = join_words(row["tgt_tokens"], f"{where}, tgt_tokens")
    lengths = (len(source_words), len(target_words))
    return AlignedPair(
        where=where,
        source=source,
        target=target,
        source_lang=source_lang,
        target_lang=target_lang,
        source_words=source_words,
        target_words=target_words,
        sure=parse_links(row["alignment"], *lengths, where),
        possible=parse_links(row.get("possible") or "", *lengths, where),
    )


def parse_links(text: str, m: int, n: int, where: str = "alignment") -> Links:
    """Parse "0-0 1-2" to a set of pairs; raises ValueError for links outside sentences of m and n
    words."""
    if not isinstance(text, str):
        raise ValueError(f"{where}: alignment {text!r} is not text such as '0-0 1-2'")
    links = set()
    for item in text.split():
        i, dash, j = item.partition("-")
        if not (dash and i.isdecimal() and j.isdecimal()):
            raise ValueError(f"{where}: {item!r} is not a link; write links as 0-0 1-2")
        if int(i) >= m or int(j) >= n:
            raise ValueError(
                f"{where}: link {item} lies outside sentences of {m} and {n} words (from 0)"
            )
        links.add((int(i), int(j)))
    return links


def load_alignment(
    path: str | Path, *, split: str | None = None, limit: int | None = None
) -> list[AlignedPair]:
    """Load a Parquet or JSONL file with the columns of `read_alignment`: of a split, and of each
    pair the first `limit`."""
    path = Path(path)
    pairs: list[AlignedPair] = []
    taken: Counter[tuple[str | None, str | None]] = Counter()  # of each pair of languages
    for line, row in read_rows(path, COLUMNS, OPTIONAL, tsv=False):
        if split is not None and "split" not in row:
            raise ValueError(f"{path} has no column split; leave split {split!r} out")
        if split is not None and row["split"] != split:
            continue
        langs = (row.get("src_lang"), row.get("tgt_lang"))
        if limit is None or taken[langs] < limit:
            taken[langs] += 1
            pairs.append(read_alignment(row, f"{path}:{line}"))
    if not pairs:
        of_split = "" if split is None else f" of split {split!r}"
        raise ValueError(f"{path} has no rows{of_split}")
    return pairs


def token_similarity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosines (..., m, n) of (..., m, d) and (..., n, d), scaled to 0..1 as in SimAlign; a zero row
    gets 0.5."""
    cosines = unit_length(x) @ np.swapaxes(unit_length(y), -1, -2)
    return (1 + cosines) / 2


def argmax_links(similarity: np.ndarray) -> np.ndarray:
    """(m, n) bool: i and j are each other's most similar token; the first of equals wins."""
    # Entry (i, j): j is the best column of row i, and i the best row of column j.
    rows, columns = np.indices(similarity.shape)
    best_column = similarity.argmax(1)[:, None]
    best_row = similarity.argmax(0)
    return (columns == best_column) & (rows == best_row)


def itermax_links(similarity: np.ndarray, *, iterations: int = 2) -> np.ndarray:
    """(m, n) bool: repeated argmax, so that a token may have several links (SimAlign: 2 iterations,
    alpha 0.9).

    After each round the similarity of a pair with one linked token is multiplied by 0.9, of a pair
    with two linked tokens by 0, and new argmax links are added. As in SimAlign's program (the paper
    does not say so), it stops when there is no new link or one side is fully linked, and sides of
    one or two tokens get argmax only.
    """
    links = argmax_links(similarity)
    if min(links.shape) <= 2:
        return links
    for _ in range(iterations - 1):
        row_linked = np.asarray(links.any(1))
        column_linked = np.asarray(links.any(0))
        if row_linked.all() or column_linked.all():
            break
        linked_sides = row_linked[:, None].astype(int) + column_linked  # (m, n), 0 to 2
        factors = np.array([1.0, ALPHA, 0.0])[linked_sides]
        new_links = argmax_links(similarity * factors) & (linked_sides < 2)
        if not new_links.any():
            break
        links = links | new_links
    return links


def word_links(links: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> Links:
    """Links of words of which any tokens are linked (OS 10.1); `*_words`: the word of each token,
    -1 for none."""
    source_tokens, target_tokens = links.nonzero()
    word_pairs = zip(
        source_words[source_tokens].tolist(), target_words[target_tokens].tolist(), strict=True
    )
    return {pair for pair in word_pairs if -1 not in pair}


@dataclass(frozen=True)
class AlignmentScores(Result):
    """Scores over all sentences, 0 to 1, of predicted links A, sure links S and possible links P.

    `aer` = 1 - (|A and S| + |A and P|) / (|A| + |S|), `precision` = |A and P| / |A| (None without
    predictions), `recall` = |A and S| / |S|, `f1` their harmonic mean (Och and Ney 2000).
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
    """Alignment error rate of one set of links per sentence; without `possible` only the sure links
    are possible."""
    possible = sure if possible is None else possible
    predicted_links = sum(map(len, predicted))
    sure_links = sum(map(len, sure))
    if not sure_links:
        raise ValueError(
            f"{where} has no sure links in {len(sure)} sentences: the error rate is not defined"
        )
    # |A and S| and |A and P| over all sentences: sums, not a mean of rates.
    in_sure = in_possible = 0
    for links, sure_ones, possible_ones in zip(predicted, sure, possible, strict=True):
        in_sure += len(links & sure_ones)
        in_possible += len(links & (sure_ones | possible_ones))
    aer = 1 - (in_sure + in_possible) / (predicted_links + sure_links)
    recall = in_sure / sure_links
    if not predicted_links:
        return AlignmentScores(aer, None, recall, 0.0, len(sure))
    precision = in_possible / predicted_links
    f1 = 0.0
    if precision and recall:
        f1 = 2 * precision * recall / (precision + recall)
    return AlignmentScores(aer, precision, recall, f1, len(sure))


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
    """Alignment error rate by language pair, method and layer (0 is the embeddings), with any
    transformers encoder.

    Args:
        rows: from `load_alignment`, or dicts as for `read_alignment` (named row 1, row 2, ... in
            errors).
        iterations: of itermax.
        layers, on_long, max_tokens: as in `token_states`; the notes count pairs with a skipped
            side.

    Returns:
        Table with pair, method, layer, aer, precision, recall, f1, sentences; `aer_by_layer` makes
        it wide.
    """
    pairs = []
    for number, row in enumerate(rows, 1):
        pairs.append(row if isinstance(row, AlignedPair) else read_alignment(row, f"row {number}"))
    numbers = layer_numbers(model, layers)
    options: dict[str, Any] = {"layers": numbers, "on_long": on_long, "max_tokens": max_tokens}

    def states_of(side: str, column: str) -> Iterator[TokenStates | None]:
        texts = [getattr(pair, side) for pair in pairs]
        langs = [getattr(pair, f"{side}_lang") for pair in pairs]
        names = [f"{pair.where}, {column}" for pair in pairs]
        return token_states(model, tokenizer, texts, langs, names=names, **options)

    sources = states_of("source", "src_tokens")
    targets = states_of("target", "tgt_tokens")

    # The predictions, and the pairs that they are of, by (languages, method, layer).
    predicted: dict[tuple[str, str, int], list[Links]] = {}
    measured: dict[tuple[str, str, int], list[AlignedPair]] = {}
    skipped = 0
    bar = tqdm(pairs, desc="Alignment", unit="pair", disable=hidden(progress))
    for pair, source, target in zip(bar, sources, targets, strict=True):
        if source is None or target is None:
            skipped += 1
            continue
        for method, layer, links in _predictions(pair, source, target, numbers, iterations):
            key = (pair.name, method, layer)
            predicted.setdefault(key, []).append(links)
            measured.setdefault(key, []).append(pair)
    if not measured:
        raise ValueError(
            f"all {skipped} pairs are longer than the model's {tokenizer.model_max_length} tokens"
        )

    table = []
    for key in sorted(measured):
        languages, method, layer = key
        scores = alignment_error_rate(
            predicted[key],
            [pair.sure for pair in measured[key]],
            [pair.possible for pair in measured[key]],
            where=f"language pair {languages}",
        )
        table.append({"pair": languages, "method": method, "layer": layer, **scores.to_row()})
    return Table(table, notes={"skipped_too_long": skipped, "iterations": iterations})


def _predictions(
    pair: AlignedPair,
    source: TokenStates,
    target: TokenStates,
    layers: Sequence[int],
    iterations: int,
) -> Iterator[tuple[str, int, Links]]:
    """(method, layer, links between words)"""
    source_words = owners(source.offsets, pair.source_words)
    target_words = owners(target.offsets, pair.target_words)
    # Remove tokens of no word (spaces): in argmax they could only displace links between words.
    source_inside = source_words >= 0
    target_inside = target_words >= 0
    words = (source_words[source_inside], target_words[target_inside])
    similarity = token_similarity(source.states[:, source_inside], target.states[:, target_inside])
    for layer, matrix in zip(layers, similarity, strict=True):
        if not matrix.size:  # one side has no token of a word
            yield from ((method, layer, set()) for method in METHODS)
            continue
        yield "argmax", layer, word_links(argmax_links(matrix), *words)
        yield "itermax", layer, word_links(itermax_links(matrix, iterations=iterations), *words)


def aer_by_layer(table: Table, method: str = "itermax") -> Table:
    """One row per layer: the mean error rate over language pairs (OS Figure 10), then each
    pair's."""
    rates: dict[int, dict[str, float]] = {}  # layer -> pair of languages -> error rate
    for row in table.rows:
        if row["method"] == method:
            rates.setdefault(row["layer"], {})[row["pair"]] = row["aer"]
    wide = []
    for layer, rates_of_layer in sorted(rates.items()):
        mean = float(np.mean(list(rates_of_layer.values())))
        wide.append({"layer": layer, "mean": mean, **rates_of_layer})
    return Table(wide, notes={**table.notes, "method": method})
