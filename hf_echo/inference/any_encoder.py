"""One callable (texts, lang) -> embeddings for whatever a user names: an Echo checkpoint or any SentenceTransformer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from transformers import AutoConfig

from .encode import encode, load_encoder


def any_encoder(name_or_path: str) -> Callable[[list[str], str | None], np.ndarray]:
    """Echo checkpoints take the fast path; other models are opened by sentence-transformers."""
    try:
        is_echo = AutoConfig.from_pretrained(name_or_path).model_type == "echo"
    except (OSError, ValueError, KeyError):
        is_echo = False  # a SentenceTransformer of other modules may have no config.json in its root
    if is_echo:
        model, tokenizer = load_encoder(name_or_path)
        return lambda texts, lang=None: encode(model, tokenizer, texts, lang)
    from sentence_transformers import SentenceTransformer

    from ..evaluation import sentence_transformer_encoder

    return sentence_transformer_encoder(SentenceTransformer(name_or_path))
