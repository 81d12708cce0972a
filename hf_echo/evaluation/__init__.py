"""Evaluation of embedding spaces and decoders: arrays or texts in, a result dataclass out.

No model is loaded here, so any SentenceTransformer, Echo checkpoint or baseline can be compared in one table.
"""

from functools import partial

from .. import _submodule
from ..utils.results import Result, Table
from .benchmarks.public_sets import load_benchmark
from .benchmarks.speed import measure_speed
from .geometry import GeometryResult, calinski_harabasz, encode_parallel, evaluate_geometry, invariance, rsim
from .groups import grouped
from .retrieval.multilingual import evaluate_documents, evaluate_xsim, pairs_as_nway
from .retrieval.noise import evaluate_noise
from .retrieval.speech import evaluate_speech
from .retrieval.xsim import XsimResult, text_groups, xsim
from .retrieval.xsimpp import XsimppResult, xsimpp
from .translation import TranslationResult, blaser_scorer, evaluate_translation, translation_scores

__all__ = [
    "GeometryResult",
    "Result",
    "Table",
    "TranslationResult",
    "XsimResult",
    "XsimppResult",
    "blaser_scorer",
    "calinski_harabasz",
    "encode_parallel",
    "evaluate_documents",
    "evaluate_geometry",
    "evaluate_noise",
    "evaluate_speech",
    "evaluate_translation",
    "evaluate_xsim",
    "grouped",
    "invariance",
    "load_benchmark",
    "measure_speed",
    "pairs_as_nway",
    "rsim",
    "text_groups",
    "translation_scores",
    "xsim",
    "xsimpp",
]

__getattr__ = partial(_submodule, __name__)  # import the rest at first use: some parts have their own dependencies
