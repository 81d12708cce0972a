"""Extend a byte-level BPE tokenizer with more merges (continued BPE training; ECHO D, OS 4.1).

Old ids, merges and special tokens do not change; new tokens get ids above the highest old one.
`merges` describes the choice of pairs. Words are in NFC, as they were counted; a tokenizer without
a normalizer (Llama 3) does not get one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer, models
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from ..utils.bars import hidden
from .loading import load_tokenizer, with_backend
from .merges import Vocabulary, learn_merges
from .pretokenizer import with_pattern
from .trim import id_count, merge_pair

AnyTokenizer = TypeVar("AnyTokenizer", Tokenizer, PreTrainedTokenizerFast)
NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
MAX_TOKEN_BYTES = 48


def extend_tokenizer(
    tokenizer: AnyTokenizer | str | Path,
    counts: Mapping[str, int],
    n_merges: int | None = None,
    *,
    vocab_size: int | None = None,
    pattern: str | None = None,
    min_count: int = 2,
    progress: bool = True,
) -> AnyTokenizer | PreTrainedTokenizerFast:
    """Extend a byte-level BPE tokenizer by the most frequent merges of counted words.

    Args:
        tokenizer: not changed. A path (folder, tokenizer.json, GGUF file) or Hub name is opened as
            a fast tokenizer.
        counts: word, with its leading space -> frequency (`WordCounts.balanced`); words are divided
            as the tokenizer divides them.
        n_merges: number of tokens to add. Missing byte tokens come first and count too; merges that
            spell an existing token do not count.
        vocab_size: instead of `n_merges`, the highest id + 1 of the result.
        pattern: "echo" or "llama3" replaces the word pattern (`with_pattern`); None keeps the
            tokenizer's own. Old merges stay valid, but another pattern may divide some words
            differently.
        min_count: rarer pairs are not merged.

    Returns:
        A tokenizer of the same kind; for classes that rebuild themselves on loading and would lose
        the pattern (GPT2Tokenizer, LlamaTokenizer ...) a PreTrainedTokenizerFast.

    Raises:
        ValueError: not a byte-level BPE; too few counts; vocab_size adds nothing.
    """
    opened = load_tokenizer(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
    backend = getattr(opened, "backend_tokenizer", opened)
    size = id_count(backend)
    if n_merges is None:
        if vocab_size is None:
            raise ValueError("give n_merges or vocab_size: how many tokens to add")
        n_merges = vocab_size - size
        if n_merges <= 0:
            raise ValueError(
                f"vocab_size {vocab_size} must be above the {size} tokens of the tokenizer"
            )

    # another pattern first, so that the new merges are learnt from its words
    check_byte_level(backend)
    if pattern is not None:
        content = json.loads(backend.to_str())
        content["pre_tokenizer"] = with_pattern(content["pre_tokenizer"], pattern)
        backend = _like(backend, content)
    backend, new_tokens = grow(backend, counts, n_merges, min_count=min_count, progress=progress)
    if new_tokens < n_merges:
        raise ValueError(
            f"the counts allow {new_tokens} new tokens, not {n_merges}: ask for {new_tokens} or count more text"
            f" (pairs seen fewer than {min_count} times are not merged)"
        )
    return backend if isinstance(opened, Tokenizer) else with_backend(opened, backend)


def check_byte_level(backend: Tokenizer) -> None:
    """Raise ValueError unless the tokenizer is a byte-level BPE."""
    content = json.loads(backend.to_str())
    model = content["model"]
    kind = model["type"]
    if kind == "BPE":
        affixes = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
        if '"ByteLevel"' in json.dumps(content["pre_tokenizer"]) and not affixes:
            return
        kind = "SentencePiece-like BPE" if model.get("byte_fallback") else "BPE over characters"
    raise ValueError(
        f"only a byte-level BPE can be extended (Llama 3, Qwen, SmolLM2 ...), but this tokenizer is {kind}:"
        " use another one, or train one from scratch"
    )


def grow(
    backend: Tokenizer,
    counts: Mapping[str, int],
    n: int,
    *,
    min_count: int = 2,
    progress: bool = True,
) -> tuple[Tokenizer, int]:
    """Add up to `n` tokens of at most MAX_TOKEN_BYTES; return (tokenizer, number of tokens
    added)."""
    content = json.loads(backend.to_str())
    model = content["model"]
    ids = dict(model["vocab"])
    # Also put added tokens into the model's vocabulary; otherwise `tokenizers` renumbers them on loading.
    added = {token["content"]: token["id"] for token in content["added_tokens"]}
    ids.update(added)
    # bytes that the vocabulary lacks come before merges
    size = id_count(backend)
    missing_bytes = [character for character in utf8_alphabet() if character not in ids][:n]
    for character in missing_bytes:
        ids[character] = size
        size += 1

    vocabulary = Vocabulary(
        ids,
        merges=[merge_pair(merge) for merge in model["merges"]],
        forbidden=added.keys(),
        ignore_merges=bool(model.get("ignore_merges")),
    )
    merged_tokens = learn_merges(
        vocabulary,
        _cut(counts, content["pre_tokenizer"], progress),
        range(size, size + n - len(missing_bytes)),
        min_count=min_count,
        max_token_bytes=MAX_TOKEN_BYTES,
        progress=progress,
    )
    model["vocab"] = vocabulary.ids
    model["merges"] = vocabulary.merges
    return _like(backend, content), len(missing_bytes) + merged_tokens


def utf8_alphabet() -> list[str]:
    """Characters that stand for bytes in byte-level tokens, without bytes that do not occur in
    UTF-8."""
    return [c for byte, c in sorted(bytes_to_unicode().items()) if byte not in NEVER_IN_UTF8]


def _cut(
    counts: Mapping[str, int], pre_tokenizer: dict[str, Any], progress: bool
) -> dict[str, int]:
    """Words divided and spelled as in the tokenizer (byte characters), without added leading
    spaces."""
    # A tokenizer of no model, with this pre-tokenizer.
    spelt = json.dumps(pre_tokenizer)
    spelt = spelt.replace('"add_prefix_space": true', '"add_prefix_space": false')
    bare = json.loads(Tokenizer(models.BPE()).to_str())
    bare["pre_tokenizer"] = json.loads(spelt)
    split = Tokenizer.from_str(json.dumps(bare)).pre_tokenizer.pre_tokenize_str
    words: dict[str, int] = {}
    for word, count in tqdm(
        counts.items(), desc="words", disable=hidden(progress), mininterval=0.5
    ):
        for piece, _ in split(word):
            words[piece] = words.get(piece, 0) + count
    return words


def _like(backend: Tokenizer, content: dict[str, Any]) -> Tokenizer:
    changed = Tokenizer.from_str(json.dumps(content))
    changed.encode_special_tokens = backend.encode_special_tokens  # not saved in tokenizer.json
    return changed
