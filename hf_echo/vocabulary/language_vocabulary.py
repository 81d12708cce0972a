"""Vocabulary of one language for a multilingual encoder: a new tokenizer, embeddings by FOCUS.

The new tokenizer is of the same kind as the old one (WordPiece, Unigram, BPE), with the same special tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .auxiliary import auxiliary_vectors
from .initialise import TokenMatch, initialise


def language_vocabulary(
    tokenizer: Any, embeddings: torch.Tensor, texts: Sequence[str], vocab_size: int, *, seed: int = 0
) -> tuple[Any, torch.Tensor]:
    """A tokenizer trained on `texts`, and its embeddings (vocabulary, width) from those of the old tokenizer.

    Tokens of both vocabularies are copied; the others are combinations of them (FOCUS, Dobler and de Melo 2023). With
    little text the vocabulary is smaller than `vocab_size`. WordPiece training of the library `tokenizers` follows the
    order of a hash map, so two runs on the same texts give slightly different vocabularies.

    Args:
        embeddings: (old vocabulary, width).

    Raises:
        ValueError: `vocab_size` is not above the number of special tokens; too little text for auxiliary vectors.
    """
    if vocab_size <= len(tokenizer.all_special_ids):
        raise ValueError(f"vocab_size={vocab_size} must be above the {len(tokenizer.all_special_ids)} special tokens")
    new = tokenizer.train_new_from_iterator(texts, vocab_size, show_progress=False)
    match = match_tokens(tokenizer, new)
    vectors = auxiliary_vectors(texts, _TextIds(new), seed=seed)
    return new, initialise(embeddings, match, "focus", auxiliary=vectors)


def match_tokens(old: Any, new: Any) -> TokenMatch:
    """Equal strings are equal tokens; any other token is spelt by the old tokenizer's model."""
    before, after = old.get_vocab(), new.get_vocab()
    model = old.backend_tokenizer.model
    copied, pieces = {}, {}
    for token, number in after.items():
        if token in before:
            copied[number] = before[token]
            continue
        found = [piece.id for piece in model.tokenize(token.removeprefix("##"))]
        if ids := [i for i in found if i != old.unk_token_id]:
            pieces[number] = ids
    return TokenMatch(max(before.values()) + 1, max(after.values()) + 1, copied, pieces)


class _TextIds:
    """A tokenizer as `auxiliary_vectors` reads it: ids of texts without special tokens."""

    def __init__(self, tokenizer: Any):
        self.tokenizer, self.get_vocab = tokenizer, tokenizer.get_vocab

    def text_ids(self, texts: list[str]) -> list[list[int]]:
        return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
