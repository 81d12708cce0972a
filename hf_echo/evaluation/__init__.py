"""Measures of an embedding space and of a decoder: arrays or texts in, a result dataclass out.

No model is loaded here: any SentenceTransformer, any Echo checkpoint and any baseline stand in the same
table.
"""

from __future__ import annotations

from .. import _submodule
from .attention import (
    AttentionEntropyResult,
    PoolingResult,
    both_poolings,
    cls_attention_entropy,
    compare_poolings,
    relative_delta,
)
from .cost import (
    CostGrid,
    Stack,
    cost_grid,
    decoder_flops,
    encoder_flops,
    plot_cost_grid,
    spectrum_flops,
    tower_flops,
)
from .ease import EaseResult, explain_ease
from .encoders import sentence_transformer_encoder, tfidf_encoder
from .geometry import GeometryResult, evaluate_geometry, feature_spread, principal_ratio, singular_values
from .groups import grouped
from .language_arrays import StoredEmbeddings, encode_parallel
from .language_geometry import calinski_harabasz, invariance, language_bias, rsim
from .multilingual import evaluate_xsim, pairs_as_nway
from .neighbours import Neighbours, mutual_neighbours, nearest_neighbours
from .public_sets import load_benchmark
from .results import Result, Table
from .speed import SpeedResult, measure_speed
from .translation import TranslationResult, comet_scorer, evaluate_translation, translation_scores
from .xsim import XsimResult, margin_scores, text_groups, xsim
from .xsimpp import XsimppResult, xsimpp

__all__ = [
    "AttentionEntropyResult",
    "CostGrid",
    "EaseResult",
    "GeometryResult",
    "Neighbours",
    "PoolingResult",
    "Result",
    "SpeedResult",
    "Stack",
    "StoredEmbeddings",
    "Table",
    "TranslationResult",
    "XsimResult",
    "XsimppResult",
    "both_poolings",
    "calinski_harabasz",
    "cls_attention_entropy",
    "comet_scorer",
    "compare_poolings",
    "cost_grid",
    "decoder_flops",
    "encode_parallel",
    "encoder_flops",
    "evaluate_geometry",
    "evaluate_translation",
    "evaluate_xsim",
    "explain_ease",
    "feature_spread",
    "grouped",
    "invariance",
    "language_bias",
    "load_benchmark",
    "margin_scores",
    "measure_speed",
    "mutual_neighbours",
    "nearest_neighbours",
    "pairs_as_nway",
    "plot_cost_grid",
    "principal_ratio",
    "relative_delta",
    "rsim",
    "sentence_transformer_encoder",
    "singular_values",
    "spectrum_flops",
    "text_groups",
    "tfidf_encoder",
    "tower_flops",
    "translation_scores",
    "xsim",
    "xsimpp",
]


def __getattr__(name: str):
    """Parts with dependencies of their own (`mteb_model`) and rarer ones are imported at first use."""
    return _submodule(__name__, name)
