"""Open an Echo checkpoint or any SentenceTransformer as one callable
(texts, lang) -> embeddings."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import AutoConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..modeling import EchoEncoder
from ..modeling.prompting_echo import texts_of
from ..utils.devices import chosen_device
from ..utils.quiet import opening_quietly
from .encode import encode, load_encoder, opening, pick_device, pick_dtype

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


logger = logging.getLogger(__name__)


def any_encoder(
    name_or_path: str, *, dtype: str = "auto", max_tokens: int | None = None, on_long: str = "warn"
) -> Callable[..., np.ndarray]:
    """Open an encoder: (texts, lang) -> (n, d) embeddings, for an Echo checkpoint or any
    SentenceTransformer.

    Echo checkpoints use the fast `encode`, and show their progress with `progress=True`.

    Args:
        name_or_path: folder or Hub name.
        dtype: "auto", "bf16" or "fp32"; "auto" is for other models the dtype that they were saved
            in.
        max_tokens: most padded tokens per batch; for other models it sets the number of texts of
            the full length.
        on_long: for texts longer than the model's limit: "warn" truncates them, "error" raises,
            "split" (of Echo checkpoints only) averages their pieces.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the checkpoint is damaged, or the model does not have an option.
    """
    with opening(name_or_path) as name:
        if is_echo(name):
            return partial(
                encode, *load_encoder(name, dtype=dtype), max_tokens=max_tokens, on_long=on_long
            )
        return _other(name, dtype, max_tokens, on_long)


def _other(
    name: str, dtype: str, max_tokens: int | None, on_long: str
) -> Callable[..., np.ndarray]:
    """A model of sentence-transformers; its prompts are used where one has the name of the
    language."""
    from sentence_transformers import SentenceTransformer

    from .modular import is_modular, modular_encoder, open_modular

    if on_long not in ("warn", "error"):
        raise ValueError(
            f"on_long is {on_long!r}; for a model that is not an Echo checkpoint give 'warn' or 'error'"
        )
    modular = is_modular(name)
    with opening_quietly():
        # else that of sentence-transformers
        device = str(pick_device(None)) if chosen_device() else None
        open_model = open_modular if modular else SentenceTransformer
        model = open_model(name, device=device)
    if dtype != "auto":
        model = model.to(pick_dtype(dtype, "cpu"))
    first, *others = model
    if any(isinstance(part, EchoEncoder) for part in first.modules()):
        for module in others:  # they read float32 embeddings, in whatever dtype the encoder is
            module.float()
    limit = getattr(model, "max_seq_length", None)
    rows = 32
    if max_tokens is not None:
        if not isinstance(limit, int):
            raise ValueError(
                f"max_tokens={max_tokens} needs a max_seq_length, which {name} does not have: leave it out"
            )
        rows = max(1, max_tokens // limit)

    def encode_checked(
        texts: list[str], lang: str | None = None, progress: Any = False
    ) -> np.ndarray:
        """(n, d) embeddings; texts over the limit are named, or refused."""
        texts = texts_of(texts)
        long = _long_rows(model, texts, limit, lang) if isinstance(limit, int) else []
        if long:
            message = (
                f"{len(long)} of {len(texts)} texts are longer than {limit} tokens, "
                f"the first is row {long[0] + 1}"
            )
            if on_long == "error":
                raise ValueError(f"{message}; shorten them, or truncate them with on_long='warn'")
            logger.warning("%s; they are truncated", message)
        if modular:
            return np.asarray(modular_encoder(model, batch_size=rows)(texts, lang), np.float32)
        prompt_name = lang if lang in (model.prompts or {}) else None
        vectors = model.encode(
            texts, prompt_name=prompt_name, batch_size=rows, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)

    return encode_checked


@dataclass(frozen=True)
class NamedEncoder:
    """(texts, lang) -> (n, d) embeddings by a model that each process opens by its name, once;
    fields of `any_encoder`.

    It can be sent to other processes and machines, which `any_encoder` cannot: that one holds the
    weights.
    """

    model: str
    dtype: str = "auto"
    max_tokens: int | None = None
    on_long: str = "warn"

    def __call__(
        self, texts: list[str], lang: str | None = None, progress: Any = False
    ) -> np.ndarray:
        return _opened(self)(texts, lang, progress=progress)


@lru_cache(maxsize=1)
def _opened(encoder: NamedEncoder) -> Callable[..., np.ndarray]:
    return any_encoder(
        encoder.model, dtype=encoder.dtype, max_tokens=encoder.max_tokens, on_long=encoder.on_long
    )


def _long_rows(
    model: SentenceTransformer, texts: list[str], limit: int, lang: str | None
) -> list[int]:
    """Rows of more than `limit` tokens. A token has at least one byte,
    so only long texts are tokenized."""
    candidates = [row for row, text in enumerate(texts) if len(text.encode()) > limit - 8]
    tokenizer = getattr(model, "tokenizer", None)
    # a modular encoder has one per language
    tokenizer = getattr(model[0], "tokenizers", {}).get(lang, tokenizer)
    if not candidates or not isinstance(tokenizer, PreTrainedTokenizerBase):
        return []
    encoded = tokenizer([texts[row] for row in candidates], truncation=False, verbose=False)
    long_rows = []
    for row, ids in zip(candidates, encoded["input_ids"], strict=True):
        if len(ids) > limit:
            long_rows.append(row)
    return long_rows


def is_echo(name: str) -> bool:
    """Whether a model is an Echo encoder without modules (such as Dense) beside those of its
    configuration."""
    try:
        config = AutoConfig.from_pretrained(name)
        if config.model_type != "echo":
            return False
    except (OSError, ValueError, KeyError):
        return False  # a SentenceTransformer may have no config.json in its root
    file = cached_file(name, "modules.json", _raise_exceptions_for_missing_entries=False)
    if file is None:
        return True
    # The encoder, and Normalize where its configuration says so.
    modules = json.loads(Path(file).read_text(encoding="utf-8"))
    return len(modules) == (2 if (config.sentence_transformer or {}).get("normalize") else 1)
