"""Trim a vocabulary to the tokens that given languages need; what is left keeps its spelling and its order.

A text whose tokens are all kept is tokenized as before. Kept are special and added tokens, single characters and bytes,
so that every text can still be written, the tokens of given prompts, and then the tokens with the largest

    score(t) = sum over languages l of sqrt(count_l(t) / tokens_l)

The square root keeps the rare tokens of many languages in front of the very frequent ones of a few. A BPE token is kept
with the shorter ones that its merges pass through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from tokenizers import Tokenizer

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
KINDS = ("Unigram", "BPE", "WordPiece")
Blocks = Iterable[tuple[str, Sequence[str]]]


def token_scores(tokenizer: Tokenizer, blocks: Blocks) -> np.ndarray:
    """(largest id + 1,) float64, the score of each token on (language, texts); texts count without special tokens."""
    backend, size = bare(tokenizer), _size(tokenizer)
    counts: dict[str, np.ndarray] = {}
    for lang, texts in blocks:
        rows = (encoding.ids for encoding in backend.encode_batch_fast(list(texts), add_special_tokens=False))
        ids = np.fromiter(chain.from_iterable(rows), np.int64)
        counts[lang] = counts.get(lang, 0) + np.bincount(ids, minlength=size)
    if not counts:
        raise ValueError("no texts to count tokens in: give texts of every language that the model is to serve")
    return sum(np.sqrt(own / max(own.sum(), 1)) for own in counts.values())


def kept_tokens(tokenizer: Tokenizer, scores: np.ndarray, keep: int, prompts: Iterable[str] = ()) -> list[int]:
    """At most `keep` ids, ascending: what cannot be left out, then by score."""
    content = _content(tokenizer)
    ids = tokenizer.get_vocab(with_added_tokens=False)
    with_parts = _closure(content["model"], ids)
    kept = _needed(content, ids)
    for prompt in prompts:
        for number in bare(tokenizer).encode(prompt).ids:
            kept |= with_parts(number)
    if len(kept) > keep:
        raise ValueError(
            f"keep is {keep}, but characters, special tokens and prompts alone are {len(kept)} tokens: keep at least "
            "as many"
        )
    for number in np.argsort(-scores, kind="stable"):
        if len(kept) == keep:
            break
        if int(number) not in kept and len(kept) + len((more := with_parts(int(number))) - kept) <= keep:
            kept |= more
    return sorted(kept)


def in_order(tokenizer: Tokenizer, kept: Iterable[int], scores: np.ndarray) -> list[int]:
    """`kept` with added tokens and those of the largest scores first, so that a decoder of the first ids alone can
    write the languages that were scored. Added tokens that are no pieces of the model stay behind all pieces."""
    content = _content(tokenizer)
    added, pieces = {token["id"] for token in content["added_tokens"]}, len(content["model"]["vocab"])
    return sorted(kept, key=lambda number: (number >= pieces, number not in added, -scores[number], number))


def trimmed(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """The tokenizer with these tokens alone; token `kept[i]` gets the id i."""
    content, new = _content(tokenizer), {old: number for number, old in enumerate(kept)}
    model = content["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in kept if old < len(model["vocab"])]
        if model["unk_id"] is not None:
            model["unk_id"] = new[model["unk_id"]]
    else:
        model["vocab"] = {piece: new[old] for piece, old in model["vocab"].items() if old in new}
    if model["type"] == "BPE":
        pairs = [_pair(merge) for merge in model["merges"]]
        model["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= model["vocab"].keys()]
    for token in content["added_tokens"]:
        token["id"] = new[token["id"]]
    _renumber(content["post_processor"], new)
    if content["padding"]:
        content["padding"]["pad_id"] = new[content["padding"]["pad_id"]]
    return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


def tokens_per_text(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Mean number of tokens, without special ones."""
    encodings = bare(tokenizer).encode_batch_fast(list(texts), add_special_tokens=False)
    return sum(len(encoding.ids) for encoding in encodings) / len(encodings)


def bare(tokenizer: Tokenizer) -> Tokenizer:
    """A copy without truncation and padding, to which special tokens in a text are text."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = True
    return copy


def _size(tokenizer: Tokenizer) -> int:
    return max(tokenizer.get_vocab().values()) + 1


def _content(tokenizer: Tokenizer) -> dict[str, Any]:
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    marks = [name for name in ("continuing_subword_prefix", "end_of_word_suffix") if model.get(name)]
    if model["type"] not in KINDS or (model["type"] == "BPE" and marks):
        kind = model["type"] + "".join(f" with {name}" for name in marks)
        raise ValueError(f"a tokenizer of kind {kind} is not trimmed; Unigram, BPE and WordPiece are")
    return content


def _needed(content: dict[str, Any], ids: dict[str, int]) -> set[int]:
    """Added tokens, the unknown token, characters and bytes; and what else the rest depends on."""
    model, prefix = content["model"], content["model"].get("continuing_subword_prefix") or ""
    needed = {token["id"] for token in content["added_tokens"]}
    characters = {piece for piece in ids if len(piece) == 1}
    needed |= {number for piece, number in ids.items() if piece in characters or BYTE.fullmatch(piece)}
    if prefix:
        needed |= {
            number for piece, number in ids.items() if piece.startswith(prefix) and len(piece) == len(prefix) + 1
        }
    if model["type"] != "Unigram":
        return needed | ({ids[model["unk_token"]]} if model.get("unk_token") in ids else set())
    scores = [score for _, score in model["vocab"]]
    # The lowest score is what an unknown character costs. A character may be known inside longer pieces only.
    needed |= {scores.index(min(scores))} | ({model["unk_id"]} if model["unk_id"] is not None else set())
    return needed | {number for piece, number in ids.items() if not characters.issuperset(piece)}


def _closure(model: dict[str, Any], ids: dict[str, int]) -> Callable[[int], set[int]]:
    """id -> it and the tokens that BPE's merges pass through on the way to it."""
    if model["type"] != "BPE":
        return lambda number: {number}
    pieces = {number: piece for piece, number in ids.items()}
    ranks = {_pair(merge): rank for rank, merge in reversed(list(enumerate(model["merges"])))}

    def with_parts(number: int) -> set[int]:
        parts, passed = list(pieces.get(number, "")), {number}
        while pairs := [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]:
            _, i = min(pairs)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
            passed.add(ids[parts[i]])
        # A token that no merges make is read as a whole word only (`ignore_merges`).
        return passed if len(parts) == 1 else {number}

    return with_parts


def _pair(merge: str | list[str]) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _renumber(layer: Any, new: dict[int, int]) -> None:
    """Ids of special tokens in a post-processor, or in a sequence of them."""
    for name, value in (layer or {}).items():
        if name in ("sep", "cls"):
            layer[name] = [value[0], new[value[1]]]
        elif name == "special_tokens":
            for token in value.values():
                token["ids"] = [new[number] for number in token["ids"]]
        elif name == "processors":
            for each in value:
                _renumber(each, new)
