"""Deduplication filter: exact duplicates of normal forms (OS 3.5, 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from ....utils.settings import Checked, setting
from ...normal_form import Ignorable, normal_forms
from .columns import SIDES, codes_of


@dataclass(frozen=True)
class ExactDuplicates(Checked):
    """Key filter: equal normal forms are duplicates. Case, width, spaces and invisible signs never count.

    Languages whose rows all stay (OS 4.4: small weak ones) are named by the step's ``except``. Two of n different texts
    share a key of 64 bits with a probability of about n^2 / 4e19.
    """

    side: Literal["source", "target", "either", "both", "corpus"] = setting(
        "where texts must be unique: on this side, on each side, as a pair, or in the whole corpus (OS 4.4)",
        "either",
    )
    ignore: tuple[Ignorable, ...] = setting("differences that do not count", ())
    by_language: bool = setting("equal texts in two languages are different texts", False)

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
            keys = (hashes(texts) ^ seed)[:, None]
            keys[keys == 0] = 1
            keys[np.fromiter((not text for text in texts), bool, len(texts))] = 0
            columns.append(keys)
        return np.concatenate(columns, axis=1)

    def _seeds(self, langs: pa.ChunkedArray) -> np.ndarray:
        """uint64 (rows,): a number per language, or 0."""
        if not self.by_language:
            return np.zeros(len(langs), np.uint64)
        numbers, names = codes_of(langs)
        return hashes(names)[numbers]


def hashes(texts: list[str]) -> np.ndarray:
    """uint64 (texts,): their xxh3 hashes."""
    from xxhash import xxh3_64_intdigest

    return np.fromiter((xxh3_64_intdigest(text.encode()) for text in texts), np.uint64, len(texts))
