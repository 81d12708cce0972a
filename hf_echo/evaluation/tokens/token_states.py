"""Hidden states of every token of a text or word list, with the token's characters and word.

Only tokens of the text are returned, without the layout around it (CLS, language prefix,
separators, padding). Texts are never truncated: a text longer than the model's limit is an error or
is skipped, because missing tokens would look like tokens without a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from ...inference.encode import evaluating, padded
from ...modeling.generation_echo import check_numbers
from ...modeling.packed_echo import length_batches
from ...modeling.prompting_echo import langs_of, texts_of
from ...utils.bars import hidden

WINDOW = 64  # texts sorted by length at a time; their states stay in memory until they are yielded in order


@dataclass(frozen=True, eq=False)
class TokenStates:
    """Token states of one text.

    `states` (layers, tokens, hidden) float32; `offsets` (tokens, 2): character span of each token,
    with a leading space if the tokenizer includes it; `ids` (tokens,): vocabulary ids.
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
    on_long: Literal["error", "skip"] = "error",
    names: Sequence[str] | None = None,
    progress: bool = False,
) -> Iterator[TokenStates | None]:
    """Yield the states of each text's own tokens, in order; memory holds 64 texts at a time.

    Args:
        lang: one code for all texts, or one per text; ignored by tokenizers without language
            prompts.
        layers: 0 is the embeddings, -1 the last layer; None is all.
        max_tokens: padded tokens per batch; None is 1,536 on a CPU, else 16,384.
        on_long: for a text longer than the model's limit: "error" raises, "skip" yields None.
        names: name of each text in errors; None is "text 1", "text 2", ...
    """
    texts = texts_of(texts)
    lang = langs_of(lang, len(texts))
    check_numbers(max_tokens=max_tokens)
    numbers = layer_numbers(model, layers)
    if max_tokens is None:
        max_tokens = 1_536 if model.device.type == "cpu" else 16_384
    names = names or text_names(len(texts))
    return _states(model, tokenizer, texts, lang, numbers, max_tokens, on_long, names, progress)


def text_names(count: int) -> list[str]:
    """Names of texts in errors: "text 1", "text 2", ..."""
    return [f"text {number}" for number in range(1, count + 1)]


def layer_numbers(model: Any, layers: Sequence[int] | None) -> list[int]:
    """Layer numbers from 0 (embeddings) to the number of layers; negative ones count from the end,
    None is all."""
    count = model.config.num_hidden_layers + 1
    if layers is None:
        return list(range(count))
    for layer in layers:
        if not -count <= layer < count:
            raise ValueError(
                f"no layer {layer}: this model has layers 0 (embeddings) to {count - 1}"
            )
    return [layer % count for layer in layers]


def _states(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    lang: str | Sequence[str | None] | None,
    layers: list[int],
    max_tokens: int,
    on_long: str,
    names: Sequence[str],
    progress: bool,
) -> Iterator[TokenStates | None]:
    """The states of texts, a window of them at a time; None for a text over the limit."""
    bar = tqdm(total=len(texts), desc="Token states", unit="text", disable=hidden(progress))
    for start in range(0, len(texts), WINDOW):
        window = slice(start, start + WINDOW)
        codes = lang if lang is None or isinstance(lang, str) else lang[window]
        encodings = _encodings(tokenizer, list(texts[window]), codes)
        # Texts that the model can read whole; of the others no states are given.
        short_ones = []
        for place, encoding in enumerate(encodings):
            if len(encoding.ids) <= tokenizer.model_max_length:
                short_ones.append(place)
            elif on_long == "error":
                raise ValueError(
                    f"{names[start + place]} has {len(encoding.ids)} tokens, more than the model's limit of "
                    f"{tokenizer.model_max_length}: shorten it, or use on_long='skip'"
                )

        # Batches of similar length; the states go to the places of their texts.
        results: list[TokenStates | None] = [None] * len(encodings)
        for batch in length_batches(
            [len(encodings[place].ids) for place in short_ones], max_tokens
        ):
            places = [short_ones[row] for row in batch]
            batch_states = _forward(
                model, tokenizer, [encodings[place].ids for place in places], layers
            )
            for place, states in zip(places, batch_states, strict=True):
                results[place] = _of_text(tokenizer, encodings[place], states)
        yield from results
        bar.update(len(results))
    bar.close()


def _of_text(tokenizer: Any, encoding: Any, states: np.ndarray) -> TokenStates:
    """The states (layers, longest, hidden) of the text's own tokens."""
    # The text is the second sequence behind a language prefix, else the first; the layout is in none.
    sequence = int(getattr(tokenizer, "prompts", "none") == "name")
    in_text = np.flatnonzero([number == sequence for number in encoding.sequence_ids])
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    ids = np.array(encoding.ids, np.int64)
    return TokenStates(states[:, in_text], offsets[in_text], ids[in_text])


def _encodings(tokenizer: Any, texts: list[str], lang: Any) -> list:
    """The encodings of texts with the characters of each token; raises ValueError for a slow
    tokenizer."""
    options = {"lang": lang} if hasattr(tokenizer, "with_prompts") else {}
    encodings = tokenizer(texts, return_offsets_mapping=True, verbose=False, **options).encodings
    if encodings is None:
        raise ValueError(
            f"{type(tokenizer).__name__} has no character offsets: use a fast tokenizer"
        )
    return encodings


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
    chosen_states = torch.stack([states[layer].float() for layer in layers], 1)
    return chosen_states.cpu().numpy()


def join_words(words: Sequence[str], where: str = "words") -> tuple[str, np.ndarray]:
    """Words joined by spaces, in every language, and the character span (words, 2) of each, end
    exclusive."""
    if isinstance(words, str) or not len(words):
        raise ValueError(f"{where}: give a list of at least one word, not {words!r}")
    for number, word in enumerate(words):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(
                f"{where}: word {number} (from 0) is {word!r}; give a string that is not empty"
            )
    spans = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1  # a space
    return " ".join(words), np.array(spans)


def owners(offsets: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """(tokens,) segment (n, 2) that shares most characters with a token; the earliest wins, -1:
    none (OS 10.1)."""
    if not len(segments):
        return np.full(len(offsets), -1)
    shared = overlaps(offsets, segments)
    return np.where(shared.any(1), shared.argmax(1), -1)  # argmax: the first of equals


def overlaps(offsets: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """(tokens, segments) number of shared characters."""
    starts = np.maximum(offsets[:, None, 0], segments[:, 0])
    ends = np.minimum(offsets[:, None, 1], segments[:, 1])
    return np.maximum(ends - starts, 0)
