"""Character n-grams of a vocabulary's tokens, shared by spelling variants ("Trump", "trumps", "Трамп")."""

from __future__ import annotations

from anyascii import anyascii

SIZES = (3, 4, 5)
SPACE = "\u2581"
BYTE_SPACE = "\u0120"  # a byte-level token's space


def token_ngrams(tokenizer) -> list[list[int]]:
    """N-gram numbers of each token: lower case, with a mark at the beginning of a word.

    Tokens in other scripts also have the n-grams of their Latin transliteration (anyascii), so that names match across
    scripts. N-grams of only one token are left out. Special tokens, and tokens that are not whole characters, have
    none.
    """
    special = set(tokenizer.all_special_ids)
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    ngrams = [
        set() if i in special else _ngrams(tokenizer.decode([i]).strip(), name.startswith(BYTE_SPACE))
        for i, name in enumerate(names)
    ]
    counts: dict[str, int] = {}
    for row in ngrams:
        for ngram in row:
            counts[ngram] = counts.get(ngram, 0) + 1
    shared = {ngram: i for i, ngram in enumerate(sorted(ngram for ngram, n in counts.items() if n > 1))}
    return [sorted(shared[ngram] for ngram in row if ngram in shared) for row in ngrams]


def _ngrams(token: str, begins_a_word: bool) -> set[str]:
    if "\ufffd" in token:
        return set()
    texts = {token.lower(), anyascii(token).lower()} - {""}
    marked = {SPACE * begins_a_word + text for text in texts}
    single = {c for c in token if not c.isascii() and c.isalpha()}
    return single | {text[i : i + n] for text in marked for n in SIZES for i in range(len(text) - n + 1)}
