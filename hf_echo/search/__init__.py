"""Nearest neighbours, margin scores, and pairs of translations mined with them."""

from __future__ import annotations

from .file_mining import mine_files
from .margin import margin_scores
from .mining import MinedPairs, mine
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours
from .pair_scores import ScoreReport, open_pairs, score_pairs
from .thresholds import PairScore, best_threshold, bucc_f1

__all__ = [
    "MinedPairs",
    "Neighbours",
    "PairScore",
    "ScoreReport",
    "best_threshold",
    "bucc_f1",
    "margin_scores",
    "mine",
    "mine_files",
    "mutual_neighbours",
    "nearest_neighbours",
    "open_pairs",
    "score_pairs",
]
