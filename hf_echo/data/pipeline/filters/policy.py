"""Filters by provenance and by number of rows per direction, independent of the texts (OS 4.4, ECHO 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...schema import PROVENANCES
from .columns import by_direction, codes_of, direction, numbers, text_hashes
from .languages_of import own_languages, small_languages
from .threshold import SYNTHETIC

ORDERS = ("random", "quality", "input")


@dataclass(frozen=True)
class Provenance:
    """Row filter: keep rows of some provenances, and of further ones for weak languages.

    Attributes:
        provenances: kept for every language.
        also: further provenances, kept for the languages of ``languages``.
        fewer_than: only languages of ``languages`` (of all languages, if it is empty) with fewer rows of
            ``provenances``; needs ``fit``.
    """

    provenances: Sequence[str] = ("primary", "code", "math")
    also: Sequence[str] = ()
    languages: Sequence[str] = ()
    fewer_than: int | None = None

    def __post_init__(self) -> None:
        for name in (*self.provenances, *self.also):
            if name not in PROVENANCES:
                raise ValueError(f"provenance {name!r} is not one of {', '.join(PROVENANCES)}")

    def fit(self, tables: Iterable[pa.Table]) -> Provenance:
        """Determine ``languages``; reads no rows without ``fewer_than``."""
        if self.fewer_than is None:
            return self
        small = small_languages(tables, self.fewer_than, self.languages, self._stays)
        return replace(self, languages=small, fewer_than=None)

    def _stays(self, table: pa.Table) -> np.ndarray:
        return _is_in(table["provenance"], self.provenances)

    def keep(self, table: pa.Table) -> np.ndarray:
        if self.fewer_than is not None:
            raise ValueError(f"fewer_than={self.fewer_than} needs row counts: call fit first")
        keep = self._stays(table)
        if self.also and self.languages:
            keep |= _is_in(table["provenance"], self.also) & np.isin(own_languages(table), self.languages)
        return keep


@dataclass(frozen=True)
class GroupCap:
    """Group cap: keep at most ``limit`` rows of each direction.

    Attributes:
        only: provenances and language codes; rows with none of them all stay (OS 4.4 has one million for each
            direction of code and mathematics: ``only: [code, math]``). Empty: every direction is capped.
        order: the rows that stay. "random": by a hash of the texts, so the same rows for any order of input;
            "quality": the best scores, rows without a score last; "input": the first.
        primary_first: synthetic rows only fill the places that other rows leave (ECHO 3).
        seed: for order "random".
    """

    limit: int = 1_000_000
    only: Sequence[str] = ()
    order: str = "random"
    primary_first: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit={self.limit!r} must be a number of rows, at least 1")
        if self.order not in ORDERS:
            raise ValueError(f"order={self.order!r} is not one of {', '.join(ORDERS)}")

    def groups(self, table: pa.Table) -> np.ndarray:
        """(rows,) "python>eng_Latn"; None for rows without a cap."""
        groups = np.full(len(table), None, dtype=object)
        capped = _is_in(table["provenance"], self.only)
        for (source, target), rows in by_direction(table):
            all_rows = not self.only or source in self.only or target in self.only
            groups[rows if all_rows else rows[capped[rows]]] = direction(source, target)
        return groups

    def rank(self, table: pa.Table) -> np.ndarray:
        rank = np.zeros(len(table))
        if self.order == "quality":
            rank = np.nan_to_num(numbers(table, "quality"), nan=-2.0)
        elif self.order == "random":
            rank = text_hashes(table, self.seed) / 2.0**64
        if self.primary_first:
            rank = rank + 10.0 * ~_is_in(table["provenance"], SYNTHETIC)
        return rank


def _is_in(column: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    numbers_, values = codes_of(column)
    return np.isin(values, list(names))[numbers_] if values else np.zeros(0, bool)
