"""Deduplication filters: exact duplicates (OS 3.5, 4.4) and near duplicates by MinHash with banding.

The filters compute keys; the pipeline keeps a row only if no earlier kept row has one of its keys. Near duplicates with
a common key are not compared again: ``threshold`` is the similarity at which about half of the pairs share a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from .columns import SIDES, codes_of
from .languages_of import own_languages, small_languages
from .minhash import bands_for, mix, signatures
from .normal_form import check_ignore, normal_forms

CHOICES = ("source", "target", "either", "both", "corpus")


@dataclass(frozen=True)
class Duplicates:
    """Options of both filters of this file; not a filter itself.

    Attributes:
        side: where texts must be unique. "source" or "target": on this side; "either": on each side; "both": as a pair;
            "corpus": in the whole corpus, on any side (OS 4.4).
        ignore: "punctuation" or "digits", or both: differences in these do not count. Case, width and white space never
            count.
        by_language: equal texts in two languages are different texts.
        exempt: languages whose rows always stay and are not compared with others (OS 4.4: weak small languages).
        fewer_than: only languages of ``exempt`` (of all languages, if it is empty) with fewer rows are exempt; needs
            ``fit``.
    """

    side: str = "either"
    ignore: Sequence[str] = ()
    by_language: bool = False
    exempt: Sequence[str] = ()
    fewer_than: int | None = None

    def __post_init__(self) -> None:
        if self.side not in CHOICES:
            raise ValueError(f"side={self.side!r} is not one of {', '.join(CHOICES)}")
        check_ignore(self.ignore)

    @property
    def shared_keys(self) -> bool:
        return self.side == "corpus"

    def fit(self, tables: Iterable[pa.Table]) -> Duplicates:
        """Determine ``exempt``; reads no rows without ``fewer_than``."""
        if self.fewer_than is None:
            return self
        return replace(self, exempt=small_languages(tables, self.fewer_than, self.exempt), fewer_than=None)

    def keys(self, table: pa.Table) -> np.ndarray:
        if self.fewer_than is not None:
            raise ValueError(f"fewer_than={self.fewer_than} needs row counts: call fit first")
        chosen = [side for side in SIDES if self.side in (side, "either", "both", "corpus")]
        forms = [normal_forms(table[side].to_pylist(), self.ignore) for side in chosen]
        seeds = [self._seeds(table[f"{side}_lang"]) for side in chosen]
        if self.side == "both":
            forms = [["\0".join(pair) for pair in zip(*forms)]]
            seeds = [seeds[0] ^ (seeds[1] * np.uint64(3))]
        keys = np.concatenate([self._keys(*column) for column in zip(forms, seeds)], axis=1)
        if self.exempt:
            keys[np.isin(own_languages(table), self.exempt)] = 0
        return keys

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        """(rows, keys) uint64 of the normal forms of one column."""
        raise NotImplementedError

    def _seeds(self, langs: pa.ChunkedArray) -> np.ndarray:
        """uint64 (rows,): a number per language, or 0."""
        if not self.by_language:
            return np.zeros(len(langs), np.uint64)
        from xxhash import xxh3_64_intdigest

        numbers, names = codes_of(langs)
        return np.array([xxh3_64_intdigest(name.encode()) for name in names], np.uint64)[numbers]


@dataclass(frozen=True)
class ExactDuplicates(Duplicates):
    """Key filter: equal normal forms are duplicates (attributes of Duplicates).

    Keys are 64-bit xxh3 hashes: the probability that two of n different texts share one is about n^2 / 4e19.
    """

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        from xxhash import xxh3_64_intdigest

        keys = np.fromiter((xxh3_64_intdigest(form.encode()) for form in forms), np.uint64, len(forms))
        keys ^= seeds
        keys[keys == 0] = 1
        keys[np.fromiter((not form for form in forms), bool, len(forms))] = 0
        return keys[:, None]


@dataclass(frozen=True)
class NearDuplicates(Duplicates):
    """Key filter: texts that share most of their n-grams are duplicates; keys are bands of a MinHash signature.

    Attributes, in addition to those of Duplicates:
        threshold: Jaccard similarity of the sets of n-grams.
        num_perm: length of the signature; longer is more exact and slower.
        unit, n: n-grams of "characters" or of "words".
        min_grams: texts with fewer n-grams are duplicates only if they are equal.
    """

    ignore: Sequence[str] = ("punctuation",)
    threshold: float = 0.8
    num_perm: int = 64
    unit: str = "characters"
    n: int = 5
    min_grams: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold < 1:
            raise ValueError(f"threshold={self.threshold!r} is not between 0 and 1")
        if self.unit not in ("characters", "words"):
            raise ValueError(f"unit={self.unit!r} is not 'characters' or 'words'")
        if self.n < 1 or self.num_perm < 4:
            raise ValueError(f"n={self.n} must be at least 1 and num_perm={self.num_perm} at least 4")

    def _keys(self, forms: list[str], seeds: np.ndarray) -> np.ndarray:
        bands, rows = bands_for(self.threshold, self.num_perm)
        values = signatures(forms, self.unit, self.n, self.min_grams, bands * rows).reshape(len(forms), bands, rows)
        keys = np.arange(1, bands + 1, dtype=np.uint64) + seeds[:, None]
        for i in range(rows):
            keys = mix(keys, values[:, :, i])
        keys[keys == 0] = 1
        keys[np.fromiter((not form for form in forms), bool, len(forms))] = 0
        return keys
