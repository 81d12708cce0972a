"""Evaluation of embedding spaces and decoders: arrays or texts in, a result dataclass out; no model is loaded here."""

from functools import partial

from .. import _submodule
from ..utils.results import Result as Result
from ..utils.results import Table as Table
from .benchmarks.public_sets import load_benchmark as load_benchmark
from .benchmarks.speed import measure_speed as measure_speed
from .geometry import GeometryResult as GeometryResult
from .geometry import calinski_harabasz as calinski_harabasz
from .geometry import encode_parallel as encode_parallel
from .geometry import evaluate_geometry as evaluate_geometry
from .geometry import invariance as invariance
from .geometry import rsim as rsim
from .groups import average_over_benchmarks as average_over_benchmarks
from .groups import grouped as grouped
from .retrieval.multilingual import evaluate_xsim as evaluate_xsim
from .retrieval.multilingual import pairs_as_nway as pairs_as_nway
from .retrieval.noise import evaluate_noise as evaluate_noise
from .retrieval.speech import evaluate_speech as evaluate_speech
from .retrieval.xsim import XsimResult as XsimResult
from .retrieval.xsim import text_groups as text_groups
from .retrieval.xsim import xsim as xsim
from .retrieval.xsimpp import XsimppResult as XsimppResult
from .retrieval.xsimpp import xsimpp as xsimpp
from .translation import TranslationResult as TranslationResult
from .translation import blaser_scorer as blaser_scorer
from .translation import evaluate_translation as evaluate_translation
from .translation import translation_scores as translation_scores

# import the rest at first use: some parts have their own dependencies
__getattr__ = partial(_submodule, __name__)
