"""Learn byte-pair merges from weighted words: always the most frequent pair, with exact counts.

Rule: each step merges the pair of neighbouring tokens with the highest weighted count, with words segmented as the
tokenizer segments them at this step; of equal counts the smallest (left id, right id) wins. A pair that spells an
existing token is merged into it and adds no token. A pair that spells a special token, or is longer than
`max_token_bytes`, is never merged.

Implementation: one array has the token ids of all words, linked to their neighbours, so that a merge is a dozen numpy
calls over the positions of its pair. Python objects exist only for pairs that may still win (`_recount`), so memory is
about 40 bytes per token of the distinct words, whatever their counts. One thread. The Rust trainer needs each word
repeated as often as it counts and cannot start from old tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tqdm.auto import tqdm

NONE = -1  # no neighbour, or a token that was merged into its left neighbour
TRACKED = 200_000  # number of pairs with Python objects


@dataclass
class Vocabulary:
    """Tokens (in byte characters) and ranked merges of a byte-level BPE. Grows in place."""

    ids: dict[str, int]
    merges: list[tuple[str, str]]
    forbidden: Collection[str] = ()
    ignore_merges: bool = False  # a word that is a token is not segmented (Llama 3)
    ranks: dict[tuple[int, int], tuple[int, int]] = field(init=False)  # (left, right) -> (rank, result)

    def __post_init__(self):
        ids = self.ids
        self.ranks = {(ids[a], ids[b]): (rank, ids[a + b]) for rank, (a, b) in enumerate(self.merges)}

    def segment(self, symbols: list[int]) -> tuple[list[int], list[int], set[int]]:
        """Apply merges to the tokens of one word, lowest rank first, then leftmost, as the tokenizer does.

        Returns:
            The tokens; for each, the index of the old token that it begins with; the tokens that merges made.
        """
        first, made = list(range(len(symbols))), set()
        while True:
            pairs = enumerate(zip(symbols, symbols[1:]))
            known = [(self.ranks[pair], i) for i, pair in pairs if pair in self.ranks]
            if not known:
                return symbols, first, made
            (_, result), i = min(known)
            made.add(result)
            symbols = [*symbols[:i], result, *symbols[i + 2 :]]
            del first[i + 1]


def learn_merges(
    vocabulary: Vocabulary,
    words: Mapping[str, int],
    segmented: tuple[np.ndarray, np.ndarray],
    new_ids: Sequence[int],
    *,
    min_count: int = 2,
    max_token_bytes: int | None = None,
    progress: bool = True,
) -> int:
    """Add the most frequent pairs to `vocabulary` until all `new_ids` are used; return the number used.

    Args:
        words: word in byte characters -> its count.
        segmented: (tokens of all words in one array, number of tokens of each word), segmented by `vocabulary`.
        min_count: rarer pairs are not merged.
        max_token_bytes: longest new token in bytes; None: no limit.
    """
    learner = _Learner(vocabulary, words, segmented, new_ids, min_count, max_token_bytes)
    given = 0
    with tqdm(total=len(new_ids), desc="merges", disable=not progress, mininterval=0.5) as bar:
        while given < len(new_ids) and (pair := learner.most_frequent()):
            is_new = learner.merge(*pair, new_ids[given])
            given += is_new
            bar.update(is_new)
    return given


class _Learner:
    def __init__(self, vocabulary, words, segmented, new_ids, min_count, max_token_bytes):
        self.vocabulary = vocabulary
        self.spelling = {token_id: token for token, token_id in vocabulary.ids.items()}
        self.bytes = np.zeros(max(*self.spelling, *new_ids) + 1, dtype=np.int32)
        for token_id, token in self.spelling.items():
            self.bytes[token_id] = len(token)
        self.max_bytes = max_token_bytes or np.iinfo(np.int32).max
        self.min_count = max(1, min_count)
        self.refused: list[int] = []

        symbols, lengths = segmented
        mergeable = np.repeat(lengths > 1, lengths)
        self.symbols = symbols[mergeable].astype(np.int32)
        self.word = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[mergeable]
        self.weights = np.fromiter(words.values(), dtype=np.int64, count=len(words))
        self.whole = {}
        if vocabulary.ignore_merges:
            self.whole = {word: i for i, (word, n) in enumerate(zip(words, lengths)) if n > 1}
        self._recount()

    # --- choosing

    def most_frequent(self) -> tuple[int, int] | None:
        """The next pair to merge; None if no pair has `min_count`."""
        while True:
            while self.heap:
                count, key = heapq.heappop(self.heap)
                left, right = key >> 32, key & 0xFFFFFFFF
                true = self.counts.get(key, 0)
                if self.spelling[left] + self.spelling[right] in self.vocabulary.forbidden:
                    self.refused.append(key)
                    continue
                if true == -count:
                    return left, right
                if true >= self.threshold:
                    heapq.heappush(self.heap, (-true, key))
            if self.threshold <= self.min_count:
                return None
            self._recount()

    def _recount(self) -> None:
        """Remove gaps in the array, count all pairs, and keep those with a count of at least `threshold`.

        A pair below the threshold cannot win while pairs above it remain. It can only grow through a merge into an
        existing token, after which `_count_around` counts that token's pairs again.
        """
        alive = self.symbols != NONE
        self.symbols, self.word = self.symbols[alive], self.word[alive]
        n = len(self.symbols)
        self.next = np.arange(1, n + 1, dtype=np.int32)
        self.previous = np.arange(-1, n - 1, dtype=np.int32)
        last = np.ones(n, dtype=bool)
        last[:-1] = self.word[1:] != self.word[:-1]
        self.next[last] = NONE
        self.previous[1:][last[:-1]] = NONE

        self.counts, self.places, self.heap = {}, {}, []
        keys, totals, groups = self._pairs_at(np.flatnonzero(~last))
        totals[np.isin(keys, self.refused)] = 0
        if len(totals) > TRACKED:
            self.threshold = max(self.min_count, int(np.partition(totals, -TRACKED)[-TRACKED]))
        else:
            self.threshold = self.min_count
        for i in np.flatnonzero(totals >= self.threshold).tolist():
            self._push(int(keys[i]), int(totals[i]), groups(i).copy())

    def _pairs_at(self, places: np.ndarray):
        """Pairs that begin at `places`: (keys, counts, function from the index of a key to its places)."""
        left, right = self.symbols[places], self.symbols[self.next[places]]
        allowed = self.bytes[left] + self.bytes[right] <= self.max_bytes
        places = places[allowed]
        keys = (left[allowed].astype(np.int64) << 32) | right[allowed]
        order, starts = _grouped(keys)
        places = places[order]
        ends = np.append(starts[1:], len(places))
        totals = _sums(self.weights[self.word[places]], starts)
        return keys[order[starts]], totals, lambda i: places[starts[i] : ends[i]]

    def _push(self, key: int, count: int, places: np.ndarray) -> None:
        self.counts[key], self.places[key] = count, places
        heapq.heappush(self.heap, (-count, key))

    # --- merging

    def merge(self, left: int, right: int, new_id: int) -> bool:
        """Merge a pair everywhere; return whether this used the new id."""
        spelling = self.spelling[left] + self.spelling[right]
        result = self.vocabulary.ids.setdefault(spelling, new_id)
        self.vocabulary.ranks[left, right] = (len(self.vocabulary.merges), result)
        self.vocabulary.merges.append((self.spelling[left], self.spelling[right]))
        places = self._occurrences(left, right)
        if result != new_id:
            self._merge_into_old(places)
            return False
        self.spelling[new_id] = spelling
        self.bytes[new_id] = len(spelling)
        self._merge_into_new(places, left, right, new_id)
        if (word := self.whole.pop(spelling, None)) is not None:
            self._rewrite(word, self._read(word), [new_id], [0])
        return True

    def _occurrences(self, left: int, right: int) -> np.ndarray:
        key = left << 32 | right
        del self.counts[key]
        places = self.places.pop(key)
        places = places[self.symbols[places] == left]
        after = self.next[places]
        places = places[(after != NONE) & (self.symbols[after] == right)]
        if left != right or len(places) < 2:
            return places
        # In a run "aaaa" take every other place, from the left.
        inner = np.zeros(len(places), dtype=bool)
        inner[1:] = self.next[places[:-1]] == places[1:]
        index = np.arange(len(places))
        begin = np.maximum.accumulate(np.where(inner, 0, index))
        return places[(index - begin) % 2 == 0]

    def _merge_into_new(self, places: np.ndarray, left: int, right: int, new: int) -> None:
        """Merge into a new token. It occurs nowhere else, so that all its pairs are counted here."""
        gone = self.next[places]
        after = self.next[gone]
        before = self.previous[places]
        self.symbols[places] = new
        self.symbols[gone] = NONE
        self.next[places] = after
        inside = after != NONE
        self.previous[after[inside]] = places[inside]

        before = before[before != NONE]
        before = before[self.symbols[before] != NONE]  # else it was merged too, and its right pair is this pair
        followed = places[inside]
        for neighbours, starts_pair in ((before, True), (after[inside], False)):
            symbols = self.symbols[neighbours]
            at = neighbours if starts_pair else followed
            order, starts = _grouped(symbols)
            symbols, at = symbols[order[starts]], at[order]
            totals = _sums(self.weights[self.word[at]], starts)
            wanted = (totals >= self.threshold) & (self.bytes[symbols] + self.bytes[new] <= self.max_bytes)
            ends = np.append(starts[1:], len(at))
            for symbol, total, want, start, end in zip(
                *(column.tolist() for column in (symbols, totals, wanted, starts, ends))
            ):
                if starts_pair:
                    old, key = symbol << 32 | left, symbol << 32 | new
                else:
                    old, key = right << 32 | (left if symbol == new else symbol), new << 32 | symbol
                if old in self.counts:
                    self.counts[old] -= total
                if want:
                    self._push(key, total, at[start:end])

    def _merge_into_old(self, places: np.ndarray) -> None:
        """Merge into an existing token; the tokenizer's merges of that token then apply at once."""
        merged: set[int] = set()
        for word in np.unique(self.word[places]).tolist():
            old = self._read(word)
            symbols, first, of_word = self.vocabulary.segment(self.symbols[old].tolist())
            self._rewrite(word, old, symbols, first)
            merged |= of_word
        self._count_around(merged)

    def _read(self, word: int) -> list[int]:
        places = []
        place = int(np.searchsorted(self.word, np.int32(word)))
        while place != NONE:
            places.append(place)
            place = int(self.next[place])
        return places

    def _rewrite(self, word: int, places: list[int], symbols: list[int], first: list[int]) -> None:
        """Replace the tokens of a word; each new token gets the place of its first old token (`first`)."""
        weight = int(self.weights[word])
        old = self.symbols[places].tolist()
        for row, change in ((old, -weight), (symbols, weight)):
            for left, right in zip(row, row[1:]):
                if left << 32 | right in self.counts:
                    self.counts[left << 32 | right] += change
        kept = [places[i] for i in first]
        self.symbols[places] = NONE
        self.symbols[kept] = symbols
        self.next[kept] = [*kept[1:], NONE]
        self.previous[kept] = [NONE, *kept[:-1]]

    def _count_around(self, tokens: set[int]) -> None:
        """Count all pairs with one of these tokens again."""
        if not tokens:
            return
        hits = np.flatnonzero(np.logical_or.reduce([self.symbols == token for token in tokens]))
        before = self.previous[hits]
        starts = np.union1d(before[before != NONE], hits[self.next[hits] != NONE])
        keys, totals, groups = self._pairs_at(starts)
        for i, (key, total) in enumerate(zip(keys.tolist(), totals.tolist())):
            if total >= self.threshold:
                self._push(key, total, groups(i))
            else:
                self.counts.pop(key, None)


def _grouped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(stable sort order, start of each group of equal values)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.ones(len(values), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(first)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]
