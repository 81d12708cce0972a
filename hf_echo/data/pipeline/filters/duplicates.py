"""Deduplication filters: exact duplicates (OS 3.5, 4.4) and near duplicates by MinHash (rensa) with banding.

The filters compute keys; the pipeline keeps a row only if no earlier kept row has one of its keys. Near duplicates with
a common key are not compared again: ``threshold`` is the similarity at which about half of the pairs share a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa

from ....utils.settings import check, setting
from .columns import SIDES, code_points, codes_of
from .normal_form import Ignorable, normal_forms

SEED = 1


@dataclass(frozen=True)
class Duplicates:
    """Options of both filters of this file; not a filter itself. Case, width, spaces and invisible signs never count.

    Languages whose rows all stay (OS 4.4: small weak ones) are named by the step's ``except``.
    """

    side: Literal["source", "target", "either", "both", "corpus"] = setting(
        "where texts must be unique: on this side, on each side, as a pair, or in the whole corpus (OS 4.4)", "either"
    )
    ignore: tuple[Ignorable, ...] = setting("differences that do not count", ())
    by_language: bool = setting("equal texts in two languages are different texts", False)

    def __post_init__(self) -> None:
        check(self)

    @property
    def shared_keys(self) -> bool:
        return self.side == "corpus"

    def keys(self, table: pa.Table) -> np.ndarray:
        chosen = [side for side in SIDES if self.side in (side, "either", "both", "corpus")]
        forms = [normal_forms(table[side].to_pylist(), self.ignore) for side in chosen]
        seeds = [self._seeds(table[f"{side}_lang"]) for side in chosen]
        if self.side == "both":
            forms = [["\0".join(pair) for pair in zip(*forms)]]
            seeds = [seeds[0] ^ (seeds[1] * np.uint64(3))]
        columns = []
        for texts, seed in zip(forms, seeds):
            keys = self._keys(texts, seed)
            keys[keys == 0] = 1
            keys[np.fromiter((not text for text in texts), bool, len(texts))] = 0
            columns.append(keys)
        return np.concatenate(columns, axis=1)

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        """(rows, keys) uint64 of the normal forms of one column."""
        raise NotImplementedError

    def _seeds(self, langs: pa.ChunkedArray) -> np.ndarray:
        """uint64 (rows,): a number per language, or 0."""
        if not self.by_language:
            return np.zeros(len(langs), np.uint64)
        numbers, names = codes_of(langs)
        return hashes(names)[numbers]


@dataclass(frozen=True)
class ExactDuplicates(Duplicates):
    """Key filter: equal normal forms are duplicates (attributes of Duplicates).

    Keys are 64-bit xxh3 hashes: the probability that two of n different texts share one is about n^2 / 4e19.
    """

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        return (hashes(forms) ^ seeds)[:, None]


@dataclass(frozen=True)
class NearDuplicates(Duplicates):
    """Key filter: texts that share most of their n-grams are duplicates; keys are bands of a MinHash signature."""

    ignore: tuple[Ignorable, ...] = setting("differences that do not count", ("punctuation",))
    threshold: float = setting("Jaccard similarity of the sets of n-grams", 0.8, above=0, most=0.999)
    num_perm: int = setting("length of the signature; longer is more exact and slower", 64, least=4)
    n: int = setting("length of the n-grams, in characters", 5, least=1)
    min_grams: int = setting("texts with fewer n-grams are duplicates only if they are equal", 10)

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        bands, rows = bands_for(self.threshold, self.num_perm)
        values = signatures(forms, self.n, self.min_grams, bands * rows).reshape(len(forms), bands, rows)
        keys = np.arange(1, bands + 1, dtype=np.uint64) + seeds[:, None]
        for i in range(rows):
            keys = mix(keys, values[:, :, i])
        return keys


def hashes(texts: list[str]) -> np.ndarray:
    """uint64 (texts,): their xxh3 hashes."""
    from xxhash import xxh3_64_intdigest

    return np.fromiter((xxh3_64_intdigest(text.encode()) for text in texts), np.uint64, len(texts))


def mix(state: np.ndarray, values: np.ndarray) -> np.ndarray:
    """uint64: the hash state after one more value (multiply and fold, as in splitmix64)."""
    state = (state ^ values.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return state ^ (state >> np.uint64(29))


def signatures(texts: list[str], n: int, min_grams: int, size: int) -> np.ndarray:
    """MinHash signatures, uint32 (texts, size): the share of equal entries estimates the Jaccard similarity."""
    try:
        from rensa import RMinHash
    except ImportError as error:
        raise ImportError("near duplicates need rensa: pip install 'hf-echo[filters]'") from error
    tokens, offsets = code_points(pa.array(texts, pa.large_string()))
    found, starts = grams(tokens, offsets, n, min_grams)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(found, starts.astype(np.uint64), size, SEED)
    flat = np.fromiter(chain.from_iterable(matrix.to_rows()), np.uint32, len(texts) * size)
    return flat.reshape(len(texts), size)


def grams(tokens: np.ndarray, offsets: np.ndarray, n: int, min_grams: int) -> tuple[np.ndarray, np.ndarray]:
    """(hashes of all n-grams, offsets (rows + 1)) of texts given as concatenated tokens.

    A text of t tokens has t - n + 1 n-grams; with fewer than ``min_grams``, it has one, of all its tokens.
    """
    lengths = np.diff(offsets)
    short = lengths - n + 1 < max(min_grams, 1)
    counts = np.where(short, 1, lengths - n + 1)
    flat = np.zeros(len(tokens), np.uint64)
    for i in range(n):
        flat[: len(tokens) - i] = mix(flat[: len(tokens) - i], tokens[i:])
    whole = np.zeros(len(lengths), np.uint64)
    for i in range(lengths[short].max(initial=0)):
        rows = np.flatnonzero(short & (lengths > i))
        whole[rows] = mix(whole[rows], tokens[offsets[rows] + i])
    starts = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(offsets[:-1] - starts[:-1], counts) + np.arange(starts[-1])
    found = flat[np.minimum(place, max(len(flat) - 1, 0))] if len(flat) else np.zeros(starts[-1], np.uint64)
    found[starts[:-1][short]] = whole[short]
    return found, starts


@cache
def bands_for(threshold: float, size: int) -> tuple[int, int]:
    """Choose (bands, rows of a band) with bands * rows <= size, for the fewest misses and false hits.

    Two texts of similarity s share a key with probability 1 - (1 - s^rows)^bands. The choice minimises the area of
    false hits for s below the threshold plus that of misses above it (Leskovec et al., Mining of Massive Datasets,
    3.4).
    """
    s = (np.arange(1000) + 0.5) / 1000
    best, cost = (1, 1), np.inf
    for rows in range(1, size + 1):
        for bands in range(1, size // rows + 1):
            hit = 1 - (1 - s**rows) ** bands
            area = np.where(s < threshold, hit, 1 - hit).mean()
            if area < cost:
                best, cost = (bands, rows), area
    return best
