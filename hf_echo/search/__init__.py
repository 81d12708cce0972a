"""Nearest neighbours, margin scores, pairs of translations mined with them, and the alignment of documents."""

from __future__ import annotations

from .alignment import Bead as Bead
from .alignment import align as align
from .file_alignment import align_files as align_files
from .file_matching import match_files as match_files
from .file_mining import mine_files as mine_files
from .margin import margin_scores as margin_scores
from .matching import match_documents as match_documents
from .mining import MinedPairs as MinedPairs
from .mining import PairScore as PairScore
from .mining import best_threshold as best_threshold
from .mining import bucc_f1 as bucc_f1
from .mining import mine as mine
from .neighbours import Neighbours as Neighbours
from .neighbours import mutual_neighbours as mutual_neighbours
from .neighbours import nearest_neighbours as nearest_neighbours
from .pair_scores import ScoreReport as ScoreReport
from .pair_scores import open_pairs as open_pairs
from .pair_scores import score_pairs as score_pairs
