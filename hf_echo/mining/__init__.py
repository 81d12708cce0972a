"""Search in collections with an encoder: unaligned translations, hard negatives, inconsistent descriptions."""

from __future__ import annotations

from .bitext import MinedPairs, mine
from .consistency import filter_consistent
from .files import mine_files
from .hard_negatives import mine_negatives
from .thresholds import PairScore, best_threshold, bucc_f1

__all__ = [
    "MinedPairs",
    "PairScore",
    "best_threshold",
    "bucc_f1",
    "filter_consistent",
    "mine",
    "mine_files",
    "mine_negatives",
]
