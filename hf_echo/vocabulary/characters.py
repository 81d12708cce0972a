"""Retrain the non-Latin part of a byte-level BPE from whole characters; Latin, Greek and Cyrillic tokens stay.

A BPE on bytes merges frequent bytes, not characters: Hebrew letters share their first byte, so "the second byte of one
letter and the first of the next" is merged before either letter, and a rare Chinese character stays three bytes. Static
embeddings of such tokens carry little meaning. Here the characters of the texts are assembled first; the merges after
them are learned again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping

from tokenizers import Tokenizer, normalizers

from ..modeling import EchoTokenizer
from .extend import MAX_TOKEN_BYTES, byte_characters, check_byte_level, grow

# Without Latin, Greek and Cyrillic, whose letters a BPE on bytes does find (docs/trials/vocabulary.md).
BLOCKS = ((0x530, 0x1C80), (0x1C90, 0x1D00), (0x2E80, 0xA640), (0xA800, 0xFB00), (0xFB13, 0x20000))
DIGITS = "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "০১২৩৪৫৬৭৮৯", "௦௧௨௩௪௫௬௭௮௯", "０１２３４５６７８９"


def whole_characters(
    tokenizer: EchoTokenizer,
    counts: Mapping[str, int],
    vocab_size: int,
    *,
    keep: int = 0,
    min_count: int = 2,
    progress: bool = True,
) -> EchoTokenizer:
    """Learn the vocabulary of all scripts except Latin, Greek and Cyrillic again, from whole characters.

    Tokens without a character of those scripts keep their merges, and so do the first `keep` ids; later ids move up. A
    normalizer maps digits of other scripts to 0-9, so that a number has the same tokens everywhere.

    Args:
        counts: word, with its leading space -> frequency, of text in the scripts to learn.
        vocab_size: of the result.
        keep: number of first ids that do not change (those of a decoder; `used_first`).
        min_count: rarer characters stay bytes; rarer pairs are not merged.

    Raises:
        ValueError: not a byte-level BPE; vocab_size too small for the tokens that stay; too few counts.
    """
    backend = tokenizer.backend_tokenizer
    check_byte_level(backend)
    content = json.loads(backend.to_str())
    model = content["model"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    special = {token["content"] for token in content["added_tokens"]}
    stay = {t for t, i in model["vocab"].items() if i < keep or t in special or len(t) == 1 or not _other(t)}
    stay = _with_parts(stay, merges)
    steps, joined = _assemble(_characters(counts, min_count))
    old = sorted(stay, key=model["vocab"].__getitem__)
    spelt = [*old, *(token for token in joined if token not in stay)]
    if vocab_size <= len(spelt):
        raise ValueError(
            f"vocab_size must be above {len(spelt):,} ({len(old):,} old tokens, {len(spelt) - len(old):,}"
            f" characters and their first bytes), not {vocab_size:,}"
        )
    known, first = set(spelt), set(steps)
    model["vocab"] = {token: i for i, token in enumerate(spelt)}
    model["merges"] = steps + [m for m in merges if known.issuperset((*m, m[0] + m[1])) and m not in first]
    grown, given = grow(
        Tokenizer.from_str(json.dumps(content)),
        _latin_digits(counts),
        vocab_size - len(spelt),
        min_count=min_count,
        max_token_bytes=MAX_TOKEN_BYTES,
        progress=progress,
    )
    if (size := len(spelt) + given) < vocab_size:
        raise ValueError(f"the counts allow {size:,} tokens, not {vocab_size:,}: count more text, or ask for {size:,}")
    replace = [normalizers.Replace(digit, str(value)) for digits in DIGITS for value, digit in enumerate(digits)]
    grown.normalizer = normalizers.Sequence([grown.normalizer, *replace])
    return EchoTokenizer.from_backend(grown, max_length=tokenizer.model_max_length)


_BYTES = {character: byte for byte, character in byte_characters().items()}
_SIGNS = byte_characters()
_TO_LATIN = str.maketrans({digit: str(value) for digits in DIGITS for value, digit in enumerate(digits)})


def in_blocks(character: str) -> bool:
    return any(first <= ord(character) < end for first, end in BLOCKS)


def _other(token: str) -> bool:
    """Whether a token contains a character, or a part of one, of the scripts that are learned again."""
    raw = bytes(_BYTES[c] for c in token)
    text = raw.decode("utf-8", errors="replace")
    return any(c == "\ufffd" or in_blocks(c) for c in text)


def _with_parts(tokens: Collection[str], merges: list[tuple[str, str]]) -> set[str]:
    """The tokens, and all tokens that merges build them from."""
    parts_of: dict[str, list[tuple[str, str]]] = {}
    for left, right in merges:
        parts_of.setdefault(left + right, []).append((left, right))
    result, todo = set(tokens), list(tokens)
    while todo:
        for part in {part for pair in parts_of.get(todo.pop(), ()) for part in pair} - result:
            result.add(part)
            todo.append(part)
    return result


def _latin_digits(counts: Mapping[str, int]) -> Counter[str]:
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words[word.translate(_TO_LATIN)] += count
    return words


def _characters(counts: Mapping[str, int], min_count: int) -> list[str]:
    """Characters of the scripts to learn (`BLOCKS`), most frequent first."""
    seen: Counter[str] = Counter()
    for word, count in _latin_digits(counts).items():
        for character in word:
            if in_blocks(character):
                seen[character] += count
    return [c for c, n in sorted(seen.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]


def _assemble(characters: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """(merges from bytes to characters, the tokens they make), shorter prefixes first."""
    merges: dict[tuple[str, str], None] = {}
    for size in range(2, 5):
        for character in characters:
            signs = "".join(_SIGNS[byte] for byte in character.encode())
            if size <= len(signs):
                merges[signs[: size - 1], signs[size - 1]] = None
    return list(merges), list(dict.fromkeys(left + right for left, right in merges))
