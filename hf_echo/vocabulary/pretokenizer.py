"""Pre-tokenization into words: the regular expression of Llama 3, and the extended one of ECHO D
and OS 4.1.

Llama 3 ends a word at every combining mark and joiner, so that a vowel sign, a virama or a harakat
is never merged with its letter. `ECHO_PATTERN` differs in two character classes only:

* characters that may begin a word: letters, and signs that spell words although Unicode files them
  elsewhere (`LETTERS`);
* characters that may follow the first letter of a word: also marks, ZWNJ and ZWJ, and signs written
  on or between the letters of a word (`INSIDE`).

Latin, Greek and Cyrillic text without combining marks, code and emoji sequences are split as by
Llama 3. The words of a text, concatenated, are the text.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from tokenizers import Regex, pre_tokenizers

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
PATTERNS = {"llama3": LLAMA3_PATTERN, "echo": ECHO_PATTERN}


def pre_tokenizer(pattern: str = "echo") -> pre_tokenizers.PreTokenizer:
    """Pre-tokenizer of a byte-level BPE: split words by `pattern`,
    then map bytes to visible characters."""
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([_splitter(pattern), to_bytes])


def split_words(text: str, pattern: str = "echo") -> list[str]:
    """Split a text into words as an Echo tokenizer does, in plain Unicode, each with its leading
    space.

    The text is first stripped, normalised to NFC, and gets a leading space; the words,
    concatenated, are that text.
    """
    text = unicodedata.normalize("NFC", " " + text.strip())
    return [word for word, _ in _splitter(pattern).pre_tokenize_str(text)] if text != " " else []


@lru_cache
def _splitter(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated")


def with_pattern(content: dict | None, pattern: str) -> dict:
    """The `pre_tokenizer` entry of a tokenizer.json with another word pattern; other steps do not
    change.

    The pattern replaces that of the last `Split` by a regular expression (Llama 3, Qwen). Without
    such a step, the GPT-2 expression in `ByteLevel` is switched off and a `Split` is inserted
    before it; earlier steps (SmolLM2's `Digits`) stay.
    """
    steps = [dict(step) for step in _steps(content)]
    new = {
        "type": "Split",
        "pattern": {"Regex": PATTERNS[pattern]},
        "behavior": "Isolated",
        "invert": False,
    }
    split = _main_split(steps)
    if split is not None:
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
    last_split = None
    for place, step in enumerate(steps):
        if step["type"] == "Split" and "Regex" in step["pattern"]:
            last_split = place
    return last_split
