"""Trim a vocabulary to the tokens that given languages need; what is left keeps its spelling and
its order.

A text whose tokens are all kept is tokenized as before. Kept are special and added tokens, single
characters and bytes, so that every text can still be written, the tokens of given prompts, and then
the tokens with the largest

    score(t) = sum over languages l of sqrt(count_l(t) / tokens_l)

The square root keeps the rare tokens of many languages in front of the very frequent ones of a few.
A BPE token is kept with the shorter ones that its merges pass through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
KINDS = ("Unigram", "BPE", "WordPiece")
Blocks = Iterable[tuple[str, Sequence[str]]]


def token_scores(tokenizer: Tokenizer, blocks: Blocks) -> np.ndarray:
    """(largest id + 1,) float64, the score of each token on (language, texts);
    texts count without special tokens."""
    backend = bare(tokenizer)
    size = id_count(tokenizer)
    counts: dict[str, np.ndarray] = {}
    for lang, texts in blocks:
        if lang not in counts:
            counts[lang] = np.zeros(size, np.int64)
        ids: list[int] = []
        for encoding in backend.encode_batch_fast(list(texts), add_special_tokens=False):
            ids += encoding.ids
        counts[lang] += np.bincount(np.array(ids, np.int64), minlength=size)
    if not counts:
        raise ValueError(
            "no texts to count tokens in: give texts of every language that the model is to serve"
        )
    scores = np.zeros(size)
    for token_counts in counts.values():
        scores += np.sqrt(token_counts / max(token_counts.sum(), 1))
    return scores


def kept_tokens(
    tokenizer: Tokenizer, scores: np.ndarray, keep: int, prompts: Iterable[str] = ()
) -> list[int]:
    """At most `keep` ids, ascending: what cannot be left out, then by score."""
    content = _content(tokenizer)
    ids = tokenizer.get_vocab(with_added_tokens=False)
    with_parts = _closure(content["model"], ids)
    kept = _needed(content, ids)
    for prompt in prompts:
        for token_id in bare(tokenizer).encode(prompt).ids:
            kept |= with_parts(token_id)
    if len(kept) > keep:
        raise ValueError(
            f"keep is {keep}, but characters, special tokens and prompts alone are {len(kept)} tokens: keep at least "
            "as many"
        )
    # then the best ones, as long as there is room for them and what their merges pass through
    for token_id in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == keep:
            break
        if token_id not in kept:
            missing = with_parts(token_id) - kept
            if len(kept) + len(missing) <= keep:
                kept |= missing
    return sorted(kept)


def in_order(tokenizer: Tokenizer, kept: Iterable[int], scores: np.ndarray) -> list[int]:
    """`kept` with added tokens and those of the largest scores first, so that a decoder of the
    first ids alone can write the languages that were scored. Added tokens that are no pieces of the
    model stay behind all pieces."""
    content = _content(tokenizer)
    added = {token["id"] for token in content["added_tokens"]}
    pieces = len(content["model"]["vocab"])

    def place(token_id: int) -> tuple:
        return token_id >= pieces, token_id not in added, -scores[token_id], token_id

    return sorted(kept, key=place)


def trimmed(tokenizer: Tokenizer, kept: Sequence[int]) -> Tokenizer:
    """The tokenizer with these tokens alone; token `kept[i]` gets the id i."""
    content = _content(tokenizer)
    new_ids = {old_id: new_id for new_id, old_id in enumerate(kept)}
    model = content["model"]
    # the pieces: a list of (piece, score) in order of the ids, or a dictionary
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old_id] for old_id in kept if old_id < len(model["vocab"])]
        if model["unk_id"] is not None:
            model["unk_id"] = new_ids[model["unk_id"]]
    else:
        old_vocab = model["vocab"]
        model["vocab"] = {}
        for piece, old_id in old_vocab.items():
            if old_id in new_ids:
                model["vocab"][piece] = new_ids[old_id]
    if model["type"] == "BPE":
        # merges whose parts or result are gone never apply
        merges = []
        for left, right in map(merge_pair, model["merges"]):
            if model["vocab"].keys() >= {left, right, left + right}:
                merges.append((left, right))
        model["merges"] = merges
    # every other place that names an id
    for token in content["added_tokens"]:
        token["id"] = new_ids[token["id"]]
    if content["post_processor"]:
        _renumber(content["post_processor"], new_ids)
    if content["padding"]:
        content["padding"]["pad_id"] = new_ids[content["padding"]["pad_id"]]
    return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


def tokens_per_text(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Mean number of tokens, without special ones."""
    encodings = bare(tokenizer).encode_batch_fast(list(texts), add_special_tokens=False)
    return sum(len(encoding.ids) for encoding in encodings) / len(encodings)


def id_count(tokenizer: Tokenizer | PreTrainedTokenizerFast) -> int:
    """The largest id and 1: the rows that embeddings need, since a vocabulary may leave ids out."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def bare(tokenizer: Tokenizer) -> Tokenizer:
    """A copy without truncation and padding, to which special tokens in a text are text."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = True
    return copy


def _content(tokenizer: Tokenizer) -> dict[str, Any]:
    """What tokenizer.json holds; raises ValueError for a kind that is not trimmed."""
    content = json.loads(tokenizer.to_str())
    kind = content["model"]["type"]
    if kind == "BPE":  # with marks of words in the tokens, as in CLIP and GPT-1
        for mark in ("continuing_subword_prefix", "end_of_word_suffix"):
            if content["model"].get(mark):
                kind += f" with {mark}"
    if kind not in KINDS:
        raise ValueError(
            f"a tokenizer of kind {kind} is not trimmed; Unigram, BPE and WordPiece are"
        )
    return content


def _needed(content: dict[str, Any], ids: dict[str, int]) -> set[int]:
    """Added tokens, the unknown token, characters and bytes; and what else the rest depends on."""
    model = content["model"]
    # Characters and bytes spell every text, however it is cut.
    prefix = model.get("continuing_subword_prefix") or ""
    needed = {token["id"] for token in content["added_tokens"]}
    characters = set()
    for piece, token_id in ids.items():
        if len(piece) == 1:
            characters.add(piece)
            needed.add(token_id)
            continue
        is_continuation = prefix and piece.startswith(prefix) and len(piece) == len(prefix) + 1
        if is_continuation or BYTE.fullmatch(piece):  # ##a, <0x41>
            needed.add(token_id)
    if model["type"] != "Unigram":
        if model.get("unk_token") in ids:
            needed.add(ids[model["unk_token"]])
        return needed

    # The lowest score is what an unknown character costs. A character may be known inside longer
    # pieces only.
    scores = [score for _, score in model["vocab"]]
    needed.add(scores.index(min(scores)))
    if model["unk_id"] is not None:
        needed.add(model["unk_id"])
    for piece, token_id in ids.items():
        if not characters.issuperset(piece):
            needed.add(token_id)
    return needed


def _closure(model: dict[str, Any], ids: dict[str, int]) -> Callable[[int], set[int]]:
    """id -> it and the tokens that BPE's merges pass through on the way to it."""
    if model["type"] != "BPE":
        return lambda token_id: {token_id}
    pieces = {token_id: piece for piece, token_id in ids.items()}
    ranks: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(model["merges"]):
        ranks.setdefault(merge_pair(merge), rank)

    def with_parts(token_id: int) -> set[int]:
        """A token and all tokens that its merges pass through."""
        # As BPE reads a word: from its characters, the pair of the first merge becomes one, again
        # and again.
        parts = list(pieces.get(token_id, ""))
        passed = {token_id}
        while True:
            ranked = [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]
            if not ranked:
                break
            _, i = min(ranked)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
            passed.add(ids[parts[i]])
        # A token that no merges make is read as a whole word only (`ignore_merges`).
        return passed if len(parts) == 1 else {token_id}

    return with_parts


def merge_pair(merge: str | list[str]) -> tuple[str, str]:
    """The two parts of a merge, which older files write as one text with a space between them."""
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _renumber(layer: dict[str, Any], new_ids: dict[int, int]) -> None:
    """Ids of special tokens in a post-processor, or in a sequence of them."""
    for name in ("sep", "cls"):
        if name in layer:
            token, old_id = layer[name]
            layer[name] = [token, new_ids[old_id]]
    for token in layer.get("special_tokens", {}).values():
        token["ids"] = [new_ids[old_id] for old_id in token["ids"]]
    for inner in layer.get("processors", ()):
        _renumber(inner, new_ids)
