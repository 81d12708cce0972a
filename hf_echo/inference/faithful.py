"""Whether translations say what their sources say: the cosine of the two embeddings.

A decoder of sentence embeddings writes fluent nonsense for what its vector does not hold, such as
long sentences of news. The embedding of what it wrote is then far from that of the source.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..languages import ENGLISH
from ..modeling import EchoForTranslation
from ..modeling.prompting_echo import is_blank
from ..utils.vectors import unit_length
from .encode import encode

logger = logging.getLogger(__name__)

FAR = 0.65  # benchmarks/far_translations.py: of echo-nano, good translations have 0.89 and more, bad ones 0.62 at most


def cosines_to_sources(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str] | np.ndarray,
    written: Sequence[str],
    source_lang: Any,
    target_lang: str = ENGLISH,
) -> np.ndarray:
    """(n,) float32 cosines between sources (texts, or their embeddings) and translations;
    1 where a side is blank."""
    is_vectors = isinstance(sources, np.ndarray)
    x = sources if is_vectors else encode(model, tokenizer, sources, source_lang)
    y = encode(model, tokenizer, written, target_lang)
    cosines = np.einsum("nd,nd->n", unit_length(np.asarray(x, np.float32)), unit_length(y))
    for row, text in enumerate(written):
        if is_blank(text) or (not is_vectors and is_blank(sources[row])):
            cosines[row] = 1
    return cosines


def warn_of_far_translations(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str] | np.ndarray,
    written: Sequence[str],
    source_lang: Any,
    target_lang: str,
) -> None:
    """One line of the log about translations whose embedding is far from that of the source;
    arguments as above.

    Only a model that embeds text and translates by its embedding alone is asked.
    """
    if type(model) is not EchoForTranslation or not model.bottleneck or not written:
        return
    cosines = cosines_to_sources(model, tokenizer, sources, written, source_lang, target_lang)
    rows = np.flatnonzero(cosines < FAR)
    if len(rows):
        logger.warning(
            "%d of %d translations are far from their sources (cosine below %.2f), the first is row %d "
            "with %.2f: check them. A long sentence is hard for a decoder of one vector; cut it into "
            "shorter ones",
            len(rows),
            len(cosines),
            FAR,
            rows[0] + 1,
            cosines[rows[0]],
        )
