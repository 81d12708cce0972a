"""One callable (texts, lang) -> embeddings for whatever a user names: an Echo checkpoint or any SentenceTransformer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from transformers import AutoConfig
from transformers.utils import cached_file

from .encode import encode, load_encoder, opening


def any_encoder(name_or_path: str, *, dtype: str = "auto") -> Callable[[list[str], str | None], np.ndarray]:
    """Echo checkpoints take the fast path; other models are opened by sentence-transformers.

    `dtype` ("auto", "bf16", "fp32") is of Echo checkpoints; other models run in the one that they were saved in.
    """
    with opening(name_or_path) as name:
        if is_echo(name):
            model, tokenizer = load_encoder(name, dtype=dtype)
            return lambda texts, lang=None: encode(model, tokenizer, texts, lang)
        from sentence_transformers import SentenceTransformer

        from ..evaluation import sentence_transformer_encoder

        return sentence_transformer_encoder(SentenceTransformer(name))


def is_echo(name: str) -> bool:
    """An Echo encoder and nothing behind it (a Dense or Normalize of somebody's own)."""
    try:
        if AutoConfig.from_pretrained(name).model_type != "echo":
            return False
    except (OSError, ValueError, KeyError):
        return False  # a SentenceTransformer of other modules may have no config.json in its root
    modules = cached_file(name, "modules.json", _raise_exceptions_for_missing_entries=False)
    return modules is None or len(json.loads(Path(modules).read_text(encoding="utf-8"))) == 1
