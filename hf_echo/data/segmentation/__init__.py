"""Sentences: texts cut at sentence ends by rule or by a SaT model, and the material to train one (OS A.1).

A segmenter is a callable (texts, lang) -> one list of pieces a text. The pieces joined are the text again, to the
character; the white space between two sentences belongs to the first.
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
