"""Nearest neighbours: exact (one pass for both directions), by any faiss index, and margin scores."""

from .margin import margin_scores
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours

__all__ = ["Neighbours", "margin_scores", "mutual_neighbours", "nearest_neighbours"]
