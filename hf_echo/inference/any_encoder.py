"""Open an Echo checkpoint or any SentenceTransformer as one callable (texts, lang) -> embeddings."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..modeling import EchoEncoder
from ..modeling.prompting_echo import texts_of
from .encode import encode, load_encoder, opening, pick_dtype

logger = logging.getLogger(__name__)


def any_encoder(name_or_path: str, *, dtype: str = "auto") -> Callable[..., np.ndarray]:
    """Open an encoder: (texts, lang) -> (n, d) embeddings, for an Echo checkpoint or any SentenceTransformer.

    Args:
        name_or_path: folder or Hub name. Echo checkpoints use the fast `encode`.
        dtype: "auto", "bf16" or "fp32", of Echo checkpoints; other models keep the dtype they were saved in.

    Raises:
        FileNotFoundError: there is no such model. ValueError: the checkpoint is damaged.
    """
    with opening(name_or_path) as name:
        if is_echo(name):
            model, tokenizer = load_encoder(name, dtype=dtype)
            return lambda texts, lang=None: encode(model, tokenizer, texts, lang)
        return _open(name)[1]()


def encode_with_other(
    name_or_path: str,
    texts: list[str],
    lang: str | None = None,
    *,
    dtype: str = "auto",
    max_tokens: int | None = None,
    on_long: str = "warn",
) -> np.ndarray:
    """Encode texts with a model that is not an Echo checkpoint, with sentence-transformers: (len(texts), d) float32.

    Args:
        dtype: "auto" is the dtype that the model was saved in.
        max_tokens: most padded tokens per batch; sets the number of texts of the model's full length.
        on_long: for texts longer than the model's limit, which it truncates: "warn" or "error"; not "split".

    Raises:
        ValueError: an option that this model does not support, or a text that is too long with "error".
    """
    return _open_other(name_or_path, dtype, max_tokens, on_long)(texts, lang)


def _open_other(name_or_path: str, dtype: str, max_tokens: int | None, on_long: str) -> Callable[..., np.ndarray]:
    if on_long not in ("warn", "error"):
        raise ValueError(f"on_long is {on_long!r}; for a model that is not an Echo checkpoint give 'warn' or 'error'")
    cast = None if dtype == "auto" else pick_dtype(dtype, "cpu")
    with opening(name_or_path) as name:
        model, encoder = _open(name)
    if cast is not None:
        model = model.to(cast)
    limit = getattr(model, "max_seq_length", None)
    if not isinstance(limit, int) and max_tokens is not None:
        raise ValueError(
            f"max_tokens={max_tokens} needs a max_seq_length, which {name_or_path} does not have: leave it out"
        )
    batch = {} if max_tokens is None else {"batch_size": max(1, max_tokens // limit)}
    encode_texts = encoder(**batch)

    def encode_checked(texts: list[str], lang: str | None = None) -> np.ndarray:
        texts = texts_of(texts)
        if isinstance(limit, int) and (long := _long_rows(model, texts, limit, lang)):
            message = (
                f"{len(long)} of {len(texts)} texts are longer than {limit} tokens, the first is row {long[0] + 1}"
            )
            if on_long == "error":
                raise ValueError(f"{message}; shorten them, or truncate them with on_long='warn'")
            logger.warning("%s; they are truncated", message)
        return np.asarray(encode_texts(texts, lang), np.float32)

    return encode_checked


@dataclass(frozen=True)
class NamedEncoder:
    """(texts, lang) -> (n, d) embeddings by a model that each process opens by its name, once.

    It can be sent to other processes and machines, which `any_encoder` cannot: that one holds the weights.

    Attributes:
        model: folder or Hub name of an Echo checkpoint or any SentenceTransformer.
        dtype, max_tokens, on_long: as in `encode` for Echo checkpoints, as in `encode_with_other` for others.
    """

    model: str
    dtype: str = "auto"
    max_tokens: int | None = None
    on_long: str = "warn"

    def __call__(self, texts: list[str], lang: str | None = None, progress: Any = False) -> np.ndarray:
        """progress: as in `encode`; only Echo checkpoints show it."""
        encode_texts, shows_progress = _opened(self)
        return encode_texts(texts, lang, **({"progress": progress} if shows_progress else {}))


@lru_cache(maxsize=1)
def _opened(encoder: NamedEncoder) -> tuple[Callable[..., np.ndarray], bool]:
    """The encoder, and whether it is an Echo checkpoint."""
    with opening(encoder.model) as name:
        echo = is_echo(name)
    if not echo:
        return _open_other(encoder.model, encoder.dtype, encoder.max_tokens, encoder.on_long), False
    model, tokenizer = load_encoder(encoder.model, dtype=encoder.dtype)
    return partial(encode, model, tokenizer, max_tokens=encoder.max_tokens, on_long=encoder.on_long), True


def _open(name: str) -> tuple[Any, Callable[..., Callable[..., np.ndarray]]]:
    """A SentenceTransformer, and its (batch_size=...) -> encoder."""
    from sentence_transformers import SentenceTransformer

    from .encoders import sentence_transformer_encoder
    from .modular import is_modular, modular_encoder, open_modular

    modular = is_modular(name)
    model = open_modular(name) if modular else SentenceTransformer(name)
    first, *others = model
    if any(isinstance(part, EchoEncoder) for part in first.modules()):
        for module in others:  # they read float32 embeddings, in whatever dtype the encoder is
            module.float()
    return model, partial(modular_encoder if modular else sentence_transformer_encoder, model)


def _long_rows(model, texts: list[str], limit: int, lang: str | None) -> list[int]:
    """Rows of more than `limit` tokens. A token has at least one byte, so only long texts are tokenized."""
    candidates = [row for row, text in enumerate(texts) if len(text.encode()) > limit - 8]
    tokenizer = getattr(model, "tokenizer", None)
    tokenizer = getattr(model[0], "tokenizers", {}).get(lang, tokenizer)  # a modular encoder has one per language
    if not candidates or not isinstance(tokenizer, PreTrainedTokenizerBase):
        return []
    ids = tokenizer([texts[row] for row in candidates], truncation=False, verbose=False)["input_ids"]
    return [row for row, of_row in zip(candidates, ids, strict=True) if len(of_row) > limit]


def is_echo(name: str) -> bool:
    """Whether a model is an Echo encoder without further modules (such as Dense or Normalize)."""
    try:
        if AutoConfig.from_pretrained(name).model_type != "echo":
            return False
    except (OSError, ValueError, KeyError):
        return False  # a SentenceTransformer may have no config.json in its root
    modules = cached_file(name, "modules.json", _raise_exceptions_for_missing_entries=False)
    return modules is None or len(json.loads(Path(modules).read_text(encoding="utf-8"))) == 1
