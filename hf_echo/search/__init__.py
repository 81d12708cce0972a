"""Nearest neighbours, margin scores, pairs of translations mined with them, and the alignment of documents."""

from __future__ import annotations

from .alignment import Bead, align
from .file_alignment import align_files
from .file_mining import mine_files
from .margin import margin_scores
from .mining import MinedPairs, PairScore, best_threshold, bucc_f1, mine
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours
from .pair_scores import ScoreReport, open_pairs, score_pairs

__all__ = [
    "Bead",
    "MinedPairs",
    "Neighbours",
    "PairScore",
    "ScoreReport",
    "align",
    "align_files",
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
