"""Hidden states of every token of a text or word list, with the token's characters and word.

Only tokens of the text are returned, without the layout around it (CLS, language prefix, separators, padding). Texts
are never truncated: a text longer than the model's limit is an error or is skipped, because missing tokens would look
like tokens without a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ...inference.encode import padded
from ...modeling.generation_echo import check_numbers
from ...modeling.packed_echo import length_batches
from ...modeling.prompting_echo import langs_of, texts_of

WINDOW = 64  # texts sorted by length at a time; their states stay in memory until they are yielded in order


@dataclass(frozen=True, eq=False)
class TokenStates:
    """Token states of one text.

    `states` (layers, tokens, hidden) float32; `offsets` (tokens, 2): character span of each token, with a leading
    space if the tokenizer includes it; `ids` (tokens,): vocabulary ids.
    """

    states: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray


def token_states(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    lang: str | Sequence[str | None] | None = None,
    *,
    layers: Sequence[int] | None = None,
    max_tokens: int | None = None,
    on_long: str = "error",
    names: Sequence[str] | None = None,
    progress: bool = False,
) -> Iterator[TokenStates | None]:
    """Yield the states of each text's own tokens, in order; memory holds 64 texts at a time.

    Args:
        lang: one code for all texts, or one per text; ignored by tokenizers without language prompts.
        layers: 0 is the embeddings, -1 the last layer; None is all.
        max_tokens: padded tokens per batch; None is 1,536 on a CPU, else 16,384.
        on_long: for a text longer than the model's limit: "error" raises, "skip" yields None.
        names: name of each text in errors; None is "text 1", "text 2", ...
    """
    texts = texts_of(texts)
    lang = langs_of(lang, len(texts))
    check_numbers(max_tokens=max_tokens)
    if on_long not in ("error", "skip"):
        raise ValueError(f"on_long is {on_long!r}; it must be 'error' or 'skip'")
    chosen = layer_numbers(model, layers)
    max_tokens = max_tokens or (1_536 if model.device.type == "cpu" else 16_384)
    names = names or [f"text {i}" for i in range(1, len(texts) + 1)]
    return _states(model, tokenizer, texts, lang, chosen, max_tokens, on_long, names, progress)


def layer_numbers(model: Any, layers: Sequence[int] | None) -> list[int]:
    """Layer numbers from 0 (embeddings) to the number of layers; negative ones count from the end, None is all."""
    count = model.config.num_hidden_layers + 1
    if layers is None:
        return list(range(count))
    for layer in layers:
        if not -count <= layer < count:
            raise ValueError(f"no layer {layer}: this model has layers 0 (embeddings) to {count - 1}")
    return [layer % count for layer in layers]


def _states(model, tokenizer, texts, lang, layers, max_tokens, on_long, names, progress) -> Iterator:
    bar = tqdm(total=len(texts), desc="Token states", unit="text", disable=not progress)
    for start in range(0, len(texts), WINDOW):
        part = slice(start, start + WINDOW)
        codes = lang if lang is None or isinstance(lang, str) else lang[part]
        encodings = _encodings(tokenizer, list(texts[part]), codes)
        long = [i for i, e in enumerate(encodings) if len(e.ids) > tokenizer.model_max_length]
        if long and on_long == "error":
            raise ValueError(
                f"{names[start + long[0]]} has {len(encodings[long[0]].ids)} tokens, more than the model's limit of "
                f"{tokenizer.model_max_length}: shorten it, or use on_long='skip'"
            )
        results: list[TokenStates | None] = [None] * len(encodings)
        rest = sorted(set(range(len(encodings))) - set(long))
        for batch in length_batches([len(encodings[i].ids) for i in rest], max_tokens):
            batch = [rest[i] for i in batch]
            states = _forward(model, tokenizer, [encodings[i].ids for i in batch], layers)
            for i, of_text in zip(batch, states):
                of_text_itself = int(getattr(tokenizer, "prompts", "none") == "name")  # behind a language prefix
                own = np.flatnonzero([number == of_text_itself for number in encodings[i].sequence_ids])
                results[i] = TokenStates(
                    of_text[:, own],
                    np.array(encodings[i].offsets, np.int64).reshape(-1, 2)[own],
                    np.array(encodings[i].ids, np.int64)[own],
                )
        yield from results
        bar.update(len(results))
    bar.close()


def _encodings(tokenizer: Any, texts: list[str], lang: Any) -> list:
    options = {"lang": lang} if hasattr(tokenizer, "with_prompts") else {}
    encodings = tokenizer(texts, return_offsets_mapping=True, verbose=False, **options).encodings
    if encodings is None:
        raise ValueError(f"{type(tokenizer).__name__} has no character offsets: use a fast tokenizer")
    return encodings


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode, and afterwards as before."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


@torch.inference_mode()
def _forward(model: Any, tokenizer: Any, rows: list[list[int]], layers: list[int]) -> np.ndarray:
    """(texts, layers, longest, hidden)"""
    ids, mask = padded(rows, tokenizer.pad_token_id or 0)
    with evaluating(model):
        output = model(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            output_hidden_states=True,
            return_dict=True,
        )
    states = output.hidden_states or (output.last_hidden_state,)  # static embeddings have no layers
    return torch.stack([states[layer].float() for layer in layers], 1).cpu().numpy()


def join_words(words: Sequence[str], where: str = "words") -> tuple[str, np.ndarray]:
    """Words joined by spaces, in every language, and the character span (words, 2) of each, end exclusive."""
    if isinstance(words, str) or not len(words):
        raise ValueError(f"{where}: give a list of at least one word, not {words!r}")
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"{where}: word {number} (from 0) is {word!r}; give a string that is not empty")
    lengths = np.array([len(word) for word in words])
    starts = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
    return " ".join(words), np.stack([starts, starts + lengths], 1)


def owners(offsets: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """(tokens,) segment (n, 2) that shares most characters with a token; the earliest wins, -1: none (OS 10.1)."""
    if not len(segments):
        return np.full(len(offsets), -1)
    shared = overlaps(offsets, segments)
    best = shared.argmax(1)  # the first of equals
    return np.where(shared.max(1) > 0, best, -1)


def overlaps(offsets: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """(tokens, segments) number of shared characters."""
    ends = np.minimum(offsets[:, None, 1], segments[None, :, 1])
    return np.maximum(ends - np.maximum(offsets[:, None, 0], segments[None, :, 0]), 0)
