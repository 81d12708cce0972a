"""Words before sub-words: the Llama 3 regular expression, and the extended one of ECHO D and OS 4.1.

Llama 3 cuts a word at every combining mark and at every joiner, so that a vowel sign, a virama or a harakat can
never be merged with its letter. `ECHO_PATTERN` differs from it in two character classes, and in nothing else:

* what may begin a word: letters, and the signs that a script spells words with although Unicode files them elsewhere
  (`LETTERS`);
* what may stand inside a word, after its first letter: also marks, ZWNJ and ZWJ, and signs written upon or between
  the letters of one word (`INSIDE`).

Latin, Greek and Cyrillic text without combining marks, and code, are split as by Llama 3. Emoji sequences too: marks
and joiners that follow no letter stay with their symbols. The words of a text, joined, are the text.
"""

from __future__ import annotations

import json
import unicodedata
from functools import lru_cache

import regex
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import PreTrainedTokenizerBase

# As published with Llama 3 (tiktoken's `pat_str`).
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LETTERS = (
    r"\p{L}"
    r"\u0F0B\u0F0C"  # Tibetan tsheg: ends a syllable, not a word; a phrase is one run, as in Thai or Khmer
    r"\u06FD\u06FE"  # Sindhi "and" and "in"
    r"\u104C-\u104F"  # Burmese locative, completed, aforementioned, genitive
    r"\u3007"  # the Chinese zero in 二〇二四
    r"\uA700-\uA716\uA720\uA721\uA789\uA78A"  # tone letters and tone punctuation of African and Asian orthographies
)
INSIDE = (
    LETTERS + r"\p{M}"
    r"\u200C\u200D"  # ZWNJ and ZWJ: Persian, Sinhala, Bengali, Malayalam ...
    r"\u055A-\u055C\u055E"  # Armenian apostrophe, emphasis, exclamation and question, set over the stressed vowel
    r"\u05F3"  # Hebrew geresh
    r"\u0F85"  # Tibetan avagraha
    r"\u180A\u180E"  # Mongolian nirugu and vowel separator
)
ECHO_PATTERN = (
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{N}}{LETTERS}]?[{LETTERS}][{INSIDE}]*|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{N}}{LETTERS}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # within ByteLevel
PATTERNS = {"llama3": LLAMA3_PATTERN, "echo": ECHO_PATTERN}


def pre_tokenizer(pattern: str = "echo") -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer of a byte-level BPE: words by `pattern`, then bytes as visible characters."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_regex(pattern)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def split_words(text: str, pattern: str = "echo") -> list[str]:
    """Words of a text as an Echo tokenizer sees them, in plain Unicode, each with its leading space.

    The text is stripped, put in NFC, and a space stands in front of it. The words, joined, are that text.

    Raises:
        ValueError: no such pattern.
    """
    find, newer, rust = _engines(pattern)
    text = unicodedata.normalize("NFC", " " + text.strip())
    if text == " ":
        return []
    if not (text.isascii() or newer.isdisjoint(text)):
        return [word for word, _ in rust.pre_tokenize_str(text)]
    return find(text)


def _regex(pattern: str) -> str:
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, not {pattern!r}")
    return PATTERNS[pattern]


@lru_cache
def _engines(pattern: str):
    """`regex` is two to four times as fast as the Rust splitter, which decides where their Unicode versions differ."""
    rust = pre_tokenizers.Split(Regex(_regex(pattern)), "isolated")
    return regex.compile(PATTERNS[pattern]).findall, _newer(), rust


@lru_cache
def _newer() -> frozenset[str]:
    """Characters that `regex` knows (a newer Unicode) and `tokenizers` takes for unassigned."""
    newer = set()
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    for kind in (r"\p{L}", r"\p{M}", r"\p{N}"):
        known = "".join(regex.findall(kind, every))
        newer.update(*(rest for rest, _ in pre_tokenizers.Split(Regex(kind), "removed").pre_tokenize_str(known)))
    return frozenset(newer)


def word_regex(tokenizer: Tokenizer | PreTrainedTokenizerBase) -> str:
    """The regular expression by which a byte-level tokenizer cuts words; see `with_pattern` for how it is found.

    Raises:
        ValueError: it has none.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    steps = _steps(json.loads(backend.to_str())["pre_tokenizer"])
    if (split := _main_split(steps)) is not None:
        return steps[split]["pattern"]["Regex"]
    if any(step["type"] == "ByteLevel" and step["use_regex"] for step in steps):
        return GPT2_PATTERN
    raise ValueError("this tokenizer cuts its words by no regular expression")


def with_pattern(content: dict | None, pattern: str) -> dict:
    """The `pre_tokenizer` entry of a tokenizer.json with another word pattern, all its other steps as they were.

    The last `Split` by a regular expression gets the new one (Llama 3, Qwen). Without such a step the GPT-2 expression
    within `ByteLevel` is switched off, and a `Split` stands before it; what stood before (SmolLM2's `Digits`) stays.
    """
    steps = [dict(step) for step in _steps(content)]
    new = {"type": "Split", "pattern": {"Regex": _regex(pattern)}, "behavior": "Isolated", "invert": False}
    if (split := _main_split(steps)) is not None:
        steps[split] = new
    else:
        steps.insert(next(i for i, step in enumerate(steps) if step["type"] == "ByteLevel"), new)
    for step in steps:
        if step["type"] == "ByteLevel":
            step["use_regex"] = False
    return {"type": "Sequence", "pretokenizers": steps}


def _steps(content: dict | None) -> list[dict]:
    if content is None:
        return []
    if content["type"] != "Sequence":
        return [content]
    return [inner for step in content["pretokenizers"] for inner in _steps(step)]


def _main_split(steps: list[dict]) -> int | None:
    splits = [i for i, step in enumerate(steps) if step["type"] == "Split" and "Regex" in step["pattern"]]
    return splits[-1] if splits else None
