"""Evaluation of embedding spaces and decoders: arrays or texts in, a result dataclass out.

No model is loaded here, so any SentenceTransformer, Echo checkpoint or baseline can be compared in one table.
"""

from __future__ import annotations

from functools import partial

from .. import _submodule
from ..utils.results import Result, Table
from .benchmarks.cost import (
    CostGrid,
    Stack,
    cost_grid,
    decoder_flops,
    encoder_flops,
    plot_cost_grid,
    spectrum_flops,
    tower_flops,
)
from .benchmarks.public_sets import load_benchmark
from .benchmarks.speed import SpeedResult, measure_speed
from .geometry import (
    GeometryResult,
    calinski_harabasz,
    effective_rank,
    encode_parallel,
    evaluate_geometry,
    feature_spread,
    invariance,
    principal_ratio,
    rsim,
    singular_values,
)
from .groups import grouped
from .probes.ease import EaseResult, explain_ease
from .retrieval.multilingual import evaluate_documents, evaluate_xsim, pairs_as_nway
from .retrieval.noise import evaluate_noise
from .retrieval.speech import evaluate_speech
from .retrieval.xsim import XsimResult, text_groups, xsim
from .retrieval.xsimpp import XsimppResult, xsimpp
from .spectrum import choice_accuracy, next_sentence_retrieval, rebuild_bleu
from .tokens.attention import (
    AttentionEntropyResult,
    PoolingResult,
    both_poolings,
    cls_attention_entropy,
    compare_poolings,
    relative_delta,
)
from .tokens.token_neighbours import token_neighbours
from .translation import TranslationResult, blaser_scorer, evaluate_translation, translation_scores

__all__ = [
    "AttentionEntropyResult",
    "CostGrid",
    "EaseResult",
    "GeometryResult",
    "PoolingResult",
    "Result",
    "SpeedResult",
    "Stack",
    "Table",
    "TranslationResult",
    "XsimResult",
    "XsimppResult",
    "both_poolings",
    "calinski_harabasz",
    "cls_attention_entropy",
    "blaser_scorer",
    "compare_poolings",
    "cost_grid",
    "decoder_flops",
    "effective_rank",
    "encode_parallel",
    "encoder_flops",
    "evaluate_geometry",
    "evaluate_noise",
    "evaluate_speech",
    "evaluate_translation",
    "evaluate_xsim",
    "explain_ease",
    "feature_spread",
    "grouped",
    "invariance",
    "load_benchmark",
    "measure_speed",
    "pairs_as_nway",
    "plot_cost_grid",
    "principal_ratio",
    "relative_delta",
    "rsim",
    "singular_values",
    "spectrum_flops",
    "text_groups",
    "tower_flops",
    "translation_scores",
    "choice_accuracy",
    "next_sentence_retrieval",
    "rebuild_bleu",
    "token_neighbours",
    "evaluate_documents",
    "xsim",
    "xsimpp",
]

__getattr__ = partial(_submodule, __name__)  # import the rest at first use: some parts have their own dependencies
