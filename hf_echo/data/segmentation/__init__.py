"""Sentence segmentation by rules or by a SaT model, and training sets for SaT models (OS A.1).

A segmenter is a callable (texts, lang) -> one list of pieces per text. The joined pieces equal the text exactly; white
space between two sentences belongs to the first.
"""

from __future__ import annotations

from .boundaries import join_sentences, trimmed
from .rules import rule_segmenter
from .sat import sat_segmenter
from .training_set import segmentation_examples

__all__ = [
    "join_sentences",
    "rule_segmenter",
    "sat_segmenter",
    "segmentation_examples",
    "trimmed",
]
