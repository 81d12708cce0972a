"""Bitext mining: which sentences of two unaligned collections are translations of one another."""

from __future__ import annotations

from .bitext import MinedPairs, mine
from .files import mine_files
from .thresholds import PairScore, best_threshold, bucc_f1

__all__ = ["MinedPairs", "PairScore", "best_threshold", "bucc_f1", "mine", "mine_files"]
