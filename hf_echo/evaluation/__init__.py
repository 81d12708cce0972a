"""Measures of an embedding space and of a decoder: arrays or texts in, a result dataclass out.

No model is loaded here: any SentenceTransformer, any Echo checkpoint and any baseline stand in the same
table.
"""

from __future__ import annotations

from .encoders import sentence_transformer_encoder, tfidf_encoder
from .groups import as_matrix, grouped, side_by_side
from .multilingual import evaluate_xsim, pairs_as_nway, precomputed_encoder
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours
from .results import Result, Table
from .translation import TranslationResult, translation_scores
from .xsim import XsimResult, margin_scores, text_groups, xsim
from .xsimpp import XsimppResult, xsimpp

__all__ = [
    "Neighbours",
    "Result",
    "Table",
    "TranslationResult",
    "XsimResult",
    "XsimppResult",
    "as_matrix",
    "evaluate_xsim",
    "grouped",
    "margin_scores",
    "mutual_neighbours",
    "nearest_neighbours",
    "pairs_as_nway",
    "precomputed_encoder",
    "sentence_transformer_encoder",
    "side_by_side",
    "text_groups",
    "tfidf_encoder",
    "translation_scores",
    "xsim",
    "xsimpp",
]
