"""One callable (texts, lang) -> embeddings for whatever a user names: an Echo checkpoint or any SentenceTransformer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
from transformers import AutoConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..modeling.prompting_echo import check_texts
from .encode import encode, load_encoder, opening, pick_dtype

logger = logging.getLogger(__name__)


def any_encoder(name_or_path: str, *, dtype: str = "auto") -> Callable[[list[str], str | None], np.ndarray]:
    """Echo checkpoints take the fast path; other models are opened by sentence-transformers.

    `dtype` ("auto", "bf16", "fp32") is of Echo checkpoints; other models run in the one that they were saved in.
    """
    with opening(name_or_path) as name:
        if is_echo(name):
            model, tokenizer = load_encoder(name, dtype=dtype)
            return lambda texts, lang=None: encode(model, tokenizer, texts, lang)
        from sentence_transformers import SentenceTransformer

        from .encoders import sentence_transformer_encoder

        return sentence_transformer_encoder(SentenceTransformer(name))


def encode_with_other(
    name_or_path: str,
    texts: list[str],
    lang: str | None = None,
    *,
    dtype: str = "auto",
    max_tokens: int | None = None,
    on_long: str = "warn",
) -> np.ndarray:
    """(len(texts), d) float32 of a model that is not an Echo checkpoint, opened by sentence-transformers.

    Args:
        dtype: "auto" is the one that the model was saved in.
        max_tokens: padded tokens of a batch at most: so many texts of the model's full length.
        on_long: "warn" or "error" at texts beyond the model's length, which it cuts; it cannot "split".

    Raises:
        ValueError: an option that this model cannot follow, or a text that is too long under "error".
    """
    from sentence_transformers import SentenceTransformer

    from .encoders import sentence_transformer_encoder

    if on_long not in ("warn", "error"):
        known = "warn or error for a model that is not an Echo checkpoint (split is not possible)"
        raise ValueError(f"on_long must be {known}, not {on_long!r}")
    check_texts(texts)
    cast = None if dtype == "auto" else pick_dtype(dtype, "cpu")
    with opening(name_or_path) as name:
        model = SentenceTransformer(name)
    if cast is not None:
        model = model.to(cast)
    limit = getattr(model, "max_seq_length", None)
    if not isinstance(limit, int) and max_tokens is not None:
        raise ValueError(f"max_tokens={max_tokens} cannot be followed: {name_or_path} has no max_seq_length")
    if isinstance(limit, int) and (long := _long_rows(model, texts, limit)):
        message = f"{len(long)} of {len(texts)} texts are longer than {limit} tokens, the first is row {long[0] + 1}"
        if on_long == "error":
            raise ValueError(f"{message}; shorten them, or cut them with on_long='warn'")
        logger.warning("%s; they are cut", message)
    batch = {} if max_tokens is None else {"batch_size": max(1, max_tokens // limit)}
    vectors = sentence_transformer_encoder(model, **batch)(texts, lang)
    return np.asarray(vectors, np.float32)


def _long_rows(model, texts: list[str], limit: int) -> list[int]:
    """Rows of more than `limit` tokens. A token holds at least a byte, so few texts have to be counted."""
    candidates = [row for row, text in enumerate(texts) if len(text.encode()) > limit - 8]
    tokenizer = getattr(model, "tokenizer", None)
    if not candidates or not isinstance(tokenizer, PreTrainedTokenizerBase):
        return []
    ids = tokenizer([texts[row] for row in candidates], truncation=False, verbose=False)["input_ids"]
    return [row for row, of_row in zip(candidates, ids, strict=True) if len(of_row) > limit]


def is_echo(name: str) -> bool:
    """An Echo encoder and nothing behind it (a Dense or Normalize of somebody's own)."""
    try:
        if AutoConfig.from_pretrained(name).model_type != "echo":
            return False
    except (OSError, ValueError, KeyError):
        return False  # a SentenceTransformer of other modules may have no config.json in its root
    modules = cached_file(name, "modules.json", _raise_exceptions_for_missing_entries=False)
    return modules is None or len(json.loads(Path(modules).read_text(encoding="utf-8"))) == 1
