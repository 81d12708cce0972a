"""Filters by provenance and by number of rows per direction, independent of the texts
(OS 4.4, A.2, ECHO 3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from ....utils.settings import Checked, check, setting
from ...schema import PROVENANCES
from .columns import by_direction, direction, is_in, numbers, text_hashes

BELOW = 1e6  # taken off the rank of rows that come second; scores and hashes are smaller


@dataclass(frozen=True)
class Provenance:
    """Row filter: keep rows of some provenances;
    the step's ``except`` makes exceptions, such as for weak languages."""

    provenances: tuple[str, ...] = setting("those that stay", ("primary", "code", "math"))

    def __post_init__(self) -> None:
        check(self)
        _check_provenances(self.provenances)

    def keep(self, table: pa.Table) -> np.ndarray:
        return is_in(table["provenance"], self.provenances)


def _check_provenances(names: Iterable[str]) -> None:
    for name in names:
        if name not in PROVENANCES:
            raise ValueError(f"provenance {name!r} is not one of {', '.join(PROVENANCES)}")


@dataclass(frozen=True)
class GroupCap(Checked):
    """Group cap: keep at most ``limit`` rows of each direction.

    OS 4.4 has one million for each direction of code and mathematics: ``only: [code, math]``. ECHO
    3 has the best million of human translations, and where there are fewer, the best mined and
    back-translated pairs beside them: ``order: quality`` and ``first: [primary]``. The order
    "random" is by a hash of the texts, so the same rows stay for any order of input.
    """

    limit: int = setting("rows of each direction", 1_000_000, least=1)
    only: tuple[str, ...] = setting(
        "provenances and language codes; other rows all stay. Empty: every direction", ()
    )
    order: Literal["random", "quality", "input"] = setting(
        "the rows that stay: any, those of the best scores, or the first", "random"
    )
    seed: int = setting("for order random", 0)
    first: tuple[str, ...] = setting("provenances that come before others in any order", ())

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_provenances(self.first)

    def groups(self, table: pa.Table) -> np.ndarray:
        """(rows,) "python>eng_Latn"; None for rows without a cap."""
        groups = np.full(len(table), None, dtype=object)
        # A name of `only` is a kind of provenance or a language of either side.
        capped = is_in(table["provenance"], self.only)
        for (source, target), rows in by_direction(table):
            all_rows = not self.only or source in self.only or target in self.only
            groups[rows if all_rows else rows[capped[rows]]] = direction(source, target)
        return groups

    def rank(self, table: pa.Table) -> np.ndarray:
        """(rows,) numbers: of a group the rows with the highest ones stay."""
        rank = np.zeros(len(table))
        if self.order == "quality":
            rank = np.nan_to_num(numbers(table, "quality"), nan=-2.0)
        elif self.order == "random":
            rank = text_hashes(table, self.seed) / 2.0**64
        if self.first:
            rank = np.where(is_in(table["provenance"], self.first), rank, rank - BELOW)
        return rank


@dataclass(frozen=True)
class LargestDirections(Checked):
    """Row filter: of each source language, keep the ``limit`` directions with the most rows.

    OS A.2 keeps the 15 "most resourceful" directions per source language of Tatoeba and 2 of
    PanLex; the rows that the step concerns (``only: {origin: panlex}``) are counted. Equal
    directions are taken in the order of the target's code.
    """

    limit: int = setting(
        "directions of each source language (OS A.2: Tatoeba 15, PanLex 2)", 15, least=1
    )
    targets: dict[str, tuple[str, ...]] = setting(
        "source language -> target languages that stay; from fit", dict
    )

    def fit(self, tables: Iterable[pa.Table]) -> LargestDirections:
        """Count the rows of each direction. A fitted filter is returned unchanged."""
        if self.targets:
            return self
        rows_of: dict[str, Counter[str]] = defaultdict(Counter)
        for table in tables:
            for (source, target), rows in by_direction(table):
                rows_of[source][target] += len(rows)
        largest = {}
        for source, counts in rows_of.items():
            ordered = sorted(counts, key=lambda target: (-counts[target], target))
            largest[source] = tuple(ordered[: self.limit])
        return replace(self, targets=largest)

    def keep(self, table: pa.Table) -> np.ndarray:
        stays = np.zeros(len(table), bool)
        for (source, target), rows in by_direction(table):
            stays[rows] = target in self.targets.get(source, ())
        return stays
