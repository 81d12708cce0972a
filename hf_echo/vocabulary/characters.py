"""A byte-level BPE whose tokens are whole characters in all scripts; what is in Latin, Greek and Cyrillic stays.

Trained on bytes, a BPE joins what is frequent, not what belongs together: Hebrew letters share their first byte, so
that "the second byte of one letter and the first of the next" are merged before either letter, and a rare Chinese
character stays three bytes. A bag of such tokens knows little. Here the characters of the texts are put together
first, and the merges after that are learnt anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping

from tokenizers import Tokenizer, normalizers

from ..modeling import EchoTokenizer
from .extend import MAX_TOKEN_BYTES, byte_characters, check_byte_level, grow

# Without Latin, Greek and Cyrillic, whose letters a BPE on bytes did find (docs/trials/vocabulary.md).
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
    """Learn the vocabulary of all scripts but Latin, Greek and Cyrillic anew, from whole characters.

    Tokens without a character of those scripts keep their merges, and so do the first `keep` ids; what follows them
    moves up. Digits of other scripts are read as 0-9 (a normalizer), so that a number is the same token everywhere.

    Args:
        counts: word, with its leading space -> frequency, of text in the scripts that are learnt anew.
        vocab_size: of the result.
        keep: the first ids stay as they are, whatever they spell (a decoder's; `used_first`).
        min_count: characters that count less stay bytes; pairs that count less are not merged.

    Raises:
        ValueError: it is not a byte-level BPE; vocab_size leaves no room beside what stays; the counts are too few.
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
            f"vocab_size must be above {len(spelt):,} ({len(old):,} tokens that stay, {len(spelt) - len(old):,}"
            f" characters and their beginnings), not {vocab_size:,}"
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
    """Whether a token spells, or is a piece of, a character of the scripts that are learnt anew."""
    raw = bytes(_BYTES[c] for c in token)
    text = raw.decode("utf-8", errors="replace")
    return any(c == "\ufffd" or in_blocks(c) for c in text)


def _with_parts(tokens: Collection[str], merges: list[tuple[str, str]]) -> set[str]:
    """The tokens and all those that merges make them of."""
    made: dict[str, list[tuple[str, str]]] = {}
    for left, right in merges:
        made.setdefault(left + right, []).append((left, right))
    found, todo = set(tokens), list(tokens)
    while todo:
        for part in {part for pair in made.get(todo.pop(), ()) for part in pair} - found:
            found.add(part)
            todo.append(part)
    return found


def _latin_digits(counts: Mapping[str, int]) -> Counter[str]:
    words: Counter[str] = Counter()
    for word, count in counts.items():
        words[word.translate(_TO_LATIN)] += count
    return words


def _characters(counts: Mapping[str, int], min_count: int) -> list[str]:
    """Those of the blocks, the most frequent first."""
    seen: Counter[str] = Counter()
    for word, count in _latin_digits(counts).items():
        for character in word:
            if in_blocks(character):
                seen[character] += count
    return [c for c, n in sorted(seen.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]


def _assemble(characters: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """(merges from bytes to characters, what they make), beginnings of three bytes before their ends."""
    merges: dict[tuple[str, str], None] = {}
    for size in range(2, 5):
        for character in characters:
            signs = "".join(_SIGNS[byte] for byte in character.encode())
            if size <= len(signs):
                merges[signs[: size - 1], signs[size - 1]] = None
    return list(merges), list(dict.fromkeys(left + right for left, right in merges))
