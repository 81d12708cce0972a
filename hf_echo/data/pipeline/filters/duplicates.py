"""Deduplication filter: exact duplicates of normal forms (OS 3.5, 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from ....utils.settings import Checked, setting
from ...normal_form import normal_forms
from .columns import SIDES, hashes


@dataclass(frozen=True)
class ExactDuplicates(Checked):
    """Key filter: equal normal forms are duplicates. Case, width, spaces and invisible signs never
    count.

    Languages whose rows all stay (OS 4.4: small weak ones) are named by the step's ``except``. Two
    of n different texts share a key of 64 bits with a probability of about n^2 / 4e19.
    """

    side: Literal["source", "target", "either", "both", "corpus"] = setting(
        "where texts must be unique: on this side, on each side, as a pair, or in the whole corpus (OS 4.4)",
        "either",
    )

    @property
    def shared_keys(self) -> bool:
        return self.side == "corpus"

    def keys(self, table: pa.Table) -> np.ndarray:
        """(rows, keys) numbers by which rows are compared:
        one for the pair, or one for each side."""
        chosen = [side for side in SIDES if self.side in (side, "either", "both", "corpus")]
        forms = [normal_forms(table[side].to_pylist()) for side in chosen]
        if self.side == "both":
            forms = [["\0".join(pair) for pair in zip(*forms)]]
        columns = []
        for texts in forms:
            # Key 0 is that of an empty text, and of no other.
            keys = hashes(texts)
            keys[keys == 0] = 1
            keys[np.array(texts, object) == ""] = 0
            columns.append(keys)
        return np.stack(columns, axis=1)
